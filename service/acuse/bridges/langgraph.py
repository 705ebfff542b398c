"""LangGraph: a node that answers tool calls through the gate, with LangGraph's interrupt as our approval.

LangGraph runs a node again from its start when it resumes, and a model again whose message no checkpoint has. The journal keeps
what was decided and done, so neither repeats an effect. A run is a thread; the graph's own checkpoints stay its own.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from acuse.agents import Journal, Outcome, Resumed, Run, ToolAnswer, ToolCall, ToolGate
from acuse.agents.journal import LEASE, MAX_TURNS
from acuse.approval import Approvals
from acuse.bridges.conversation import Conversation
from acuse.errors import AcuseError, ApprovalError, ConfigurationError
from acuse.store.caller import Caller

__all__ = ["GatedTools"]

_ANSWER: Final = "give a list of {'approval_id', 'call_id', 'approve', 'by'}, with what the interrupt asked for"


class GatedTools:
    """A node: `graph.add_node("tools", GatedTools(...))`. It takes the calls of the last AI message and returns their answers.

    Where a person has to approve, the node interrupts with `{"approvals": [{"approval_id", "call_id", "action", "target"}, …]}`;
    resume with `Command(resume=[{"approval_id", "call_id", "approve": True, "by": "ann", "reason": …}, …])`. An approval is
    decided for its own call and for no other: what does not fit is said in `refused` of the next interrupt. They may as well be
    decided elsewhere: then resume with an empty list.
    """

    def __init__(
        self,
        sessions: Callable[[], AbstractContextManager[Caller]],
        journal: Journal,
        gate: ToolGate,
        approvals: Approvals | None = None,
        *,
        flow_version: str,
        owner: str,
        lease: timedelta = LEASE,
        max_turns: int = MAX_TURNS,
    ) -> None:
        """flow_version: of your graph. owner: of this process. The others are those of `Journal.start`."""
        self._sessions = sessions
        self._journal = journal
        self._conversation = Conversation(sessions, journal)
        self._gate = gate
        self._approvals = approvals
        self._flow_version = flow_version
        self._owner = owner
        self._lease = lease
        self._max_turns = max_turns

    def __call__(self, state: Mapping[str, Any], config: RunnableConfig) -> dict[str, list[ToolMessage]]:
        """Answer the calls. Raises `RunOwned` while another process answers them, and what the gate raises."""
        said: list[AIMessage] = [one for one in state["messages"] if isinstance(one, AIMessage)]
        if not said or not said[-1].tool_calls:
            raise ConfigurationError("the last AI message calls no tool; go to this node only when it does")
        resumed = self._taken(config)
        run = resumed.run
        try:
            run, stored = self._decided(resumed, said)
            answers = self._answers(run, stored) if isinstance(stored, _Open) else stored.answers
        finally:
            self._conversation.give_back(run)
        calls = said[-1].tool_calls
        return {"messages": [_message(call["id"], answer) for call, answer in zip(calls, answers, strict=True)]}

    def _taken(self, config: RunnableConfig) -> Resumed:
        thread = config.get("configurable", {}).get("thread_id")
        if not isinstance(thread, str):
            raise ConfigurationError("the graph needs a checkpointer and a thread_id: the thread is what a run belongs to")
        return self._conversation.take(
            thread,
            "(LangGraph)",
            flow_version=self._flow_version,
            owner=self._owner,
            lease=self._lease,
            max_turns=self._max_turns,
        )

    def _decided(self, resumed: Resumed, said: Sequence[AIMessage]) -> "tuple[Run, _Open | _Closed]":
        """The step of the last message: stored before, stored under another id by a try that no checkpoint knows, or new."""
        run, message = resumed.run, said[-1]
        calls = [ToolCall(str(call["id"]), call["name"], call["args"]) for call in message.tool_calls]
        steps = {json.loads(one.text)["id"]: one.step for one in resumed.messages if one.role == "assistant"}
        step = steps.get(message.id)
        if step is None:
            kept = max((steps.get(one.id, 0) for one in said), default=0)
            tried = _calls_of(resumed, kept + 1)
            if len(tried) == len(calls) and all(map(ToolCall.asks_the_same, tried, calls)):
                step = kept + 1
            else:
                return self._stored(run, kept, message, calls)
        if step == run.step:
            return run, _Open(_calls_of(resumed, step))
        return run, _Closed([one.answer for one in resumed.stored_calls if one.step == step and one.answer is not None])

    def _stored(self, run: Run, kept: int, message: AIMessage, calls: Sequence[ToolCall]) -> "tuple[Run, _Open]":
        text = json.dumps({"id": message.id, "role": "assistant", "content": message.content}, ensure_ascii=False)
        with self._sessions() as session:
            if run.step > kept:  # the graph was taken back behind what the journal knows: effects stay facts
                run = self._journal.rewind(session, run, to_step=kept).run
            run = self._journal.decide(session, run, text, calls)
        return run, _Open(list(calls))

    def _answers(self, run: Run, opened: "_Open") -> list[ToolAnswer]:
        answers = self._gate.answers(run, opened.calls, store_pending=False)
        refused: list[str] = []
        while any(one.outcome is Outcome.WAITING_FOR_APPROVAL for one in answers):
            said = interrupt({"approvals": self._asked(run, opened.calls), "refused": refused})
            refused = self._decide(run, opened.calls, said)
            answers = self._gate.answers(run, opened.calls, store_pending=False)
        self._conversation.tell(run, opened.calls, answers)
        return answers

    def _asked(self, run: Run, calls: Sequence[ToolCall]) -> list[dict[str, str | None]]:
        ids = {call.id for call in calls}
        with self._sessions() as session:
            pending = self._face().pending(session, workflow=run.workflow, limit=len(ids) + 50)
        return [
            {"approval_id": one.approval_id, "call_id": one.call, "action": one.action, "target": one.target}
            for one in reversed(pending)
            if one.call in ids
        ]

    def _decide(self, run: Run, calls: Sequence[ToolCall], said: object) -> list[str]:
        """Carry out what a person said, each word for its own call; returns why some of it was not.

        Raising would not do: LangGraph keeps what it was resumed with, and would give the same to the node for ever.
        """
        if not isinstance(said, list):
            return [_ANSWER]
        return [why for one in said if (why := self._decide_one(run, calls, one)) is not None]

    def _decide_one(self, run: Run, calls: Sequence[ToolCall], one: object) -> str | None:
        if not isinstance(one, dict) or not {"approval_id", "call_id", "approve", "by"} <= one.keys():
            return _ANSWER
        try:
            with self._sessions() as session:
                found = self._face().get(session, one["approval_id"])
                if found.workflow != run.workflow or found.call != one["call_id"] or found.call not in {its.id for its in calls}:
                    return (
                        f"{found.approval_id} is not the approval of call {one['call_id']!a}; an approval speaks for its own call"
                    )
                self._face().decide(session, found.approval_id, one["approve"] is True, by=one["by"], reason=one.get("reason"))
        except ApprovalError:
            return None  # it has expired, or was superseded or revoked: the answer to the call says so
        except AcuseError as error:
            return str(error)
        return None

    def _face(self) -> Approvals:
        if self._approvals is None:
            raise ConfigurationError("a tool needs approvals; give GatedTools the Approvals that the gate has")
        return self._approvals


class _Open:
    """A step whose calls go through the gate."""

    def __init__(self, calls: list[ToolCall]) -> None:
        self.calls = calls


class _Closed:
    """A step that was left behind: its answers stand."""

    def __init__(self, answers: list[ToolAnswer]) -> None:
        self.answers = answers


def _calls_of(resumed: Resumed, step: int) -> list[ToolCall]:
    return [one.call for one in resumed.stored_calls if one.step == step]


def _message(call_id: str | None, answer: ToolAnswer) -> ToolMessage:
    answer = replace(answer, call_id=str(call_id))
    status = "error" if answer.is_error else "success"
    artifact = {"outcome": answer.outcome.value, "operation_id": answer.operation_id}
    return ToolMessage(answer.content, tool_call_id=answer.call_id, status=status, artifact=artifact)
