"""An agent's loop on the journal and the gate, for any model: it may be killed anywhere and goes on where it was.

Ask the model, store what it decided, answer its calls, store the answers, ask again. A stored decision is never asked for again.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from acuse.agents import Journal, Keeping, Message, Outcome, Resumed, Run, RunExists, ToolAnswer, ToolCall, ToolGate
from acuse.agents.journal import LEASE, MAX_TURNS
from acuse.store.caller import Caller

__all__ = ["AgentLoop", "Decision", "End", "Ended"]

_PENDING: Final = (Outcome.WAITING_FOR_APPROVAL,)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the model said. message: the JSON of its message, as it goes back to it. tokens_used: of the context window."""

    message: str
    calls: tuple[ToolCall, ...]
    text: str = ""
    tokens_used: int | None = None


class End(StrEnum):
    """Why the loop came back."""

    FINISHED = "finished"  # the model called nothing more
    WAITING = "waiting"  # a person has to approve something; run it again when that is decided
    EXHAUSTED = "exhausted"  # no turns are left


@dataclass(frozen=True, slots=True)
class Ended:
    """text: the model's last words, if it said them to this process; message: its last message as it is stored, in any case.

    waiting: the answers that wait for a person.
    """

    end: End
    text: str = ""
    waiting: tuple[ToolAnswer, ...] = ()
    message: str = ""


class AgentLoop:
    """Runs an agent to its end, or until a person is needed. Stateless but for what it is made of.

    sessions: `engine.begin` or the like. ask: the model, given the conversation. Whatever `ask` raises leaves the run as it was
    stored: run it again.
    """

    def __init__(
        self,
        sessions: Callable[[], AbstractContextManager[Caller]],
        journal: Journal,
        gate: ToolGate,
        ask: Callable[[Sequence[Message]], Decision],
    ) -> None:
        self._sessions = sessions
        self._journal = journal
        self._gate = gate
        self._ask = ask

    def run(
        self,
        run_id: str,
        task: str,
        *,
        flow_version: str,
        owner: str,
        lease: timedelta = LEASE,
        max_turns: int = MAX_TURNS,
        workflow: str | None = None,
    ) -> Ended:
        """Begin the run, or go on with it where it is. See `Journal.start` for the parameters.

        Raises `RunOwned` while another lease lasts, `FlowVersionMismatch`, `RunLost`, `RunEnded`, and what the model raises.
        """
        resumed = self._opened(run_id, task, flow_version, owner, lease, max_turns, workflow)
        words = ""
        with Keeping(self._journal, self._sessions, resumed.run) as kept:
            while True:
                kept.check()
                step = self._step(resumed)
                if isinstance(step, Ended):
                    return replace(step, text=words) if step.end is End.FINISHED else step
                run, words = step
                resumed = self._read(run)

    def _opened(
        self, run_id: str, task: str, flow_version: str, owner: str, lease: timedelta, max_turns: int, workflow: str | None
    ) -> Resumed:
        try:
            with self._sessions() as session:
                run = self._journal.start(
                    session,
                    run_id,
                    flow_version=flow_version,
                    task=task,
                    owner=owner,
                    lease=lease,
                    max_turns=max_turns,
                    workflow=workflow,
                )
        except RunExists:
            with self._sessions() as session:
                return self._journal.resume(session, run_id, flow_version=flow_version, owner=owner, lease=lease)
        return self._read(run)

    def _read(self, run: Run) -> Resumed:
        with self._sessions() as session:
            return self._journal.read(session, run.run_id)

    def _step(self, resumed: Resumed) -> tuple[Run, str] | Ended:
        run = resumed.run
        match resumed.next:
            case "answer":
                answers = self._gate.answers(run, resumed.calls, store_pending=False)
                waiting = tuple(one for one in answers if one.outcome in _PENDING)
                if waiting:
                    with self._sessions() as session:
                        self._journal.release(session, run)
                    return Ended(End.WAITING, waiting=waiting)
                return self._told(run, resumed.calls, answers), ""
            case "ask":
                return self._asked(run, resumed.messages)
        with self._sessions() as session:
            self._journal.finish(session, run)
        return Ended(End.FINISHED, message=resumed.messages[-1].text)

    def _asked(self, run: Run, messages: Sequence[Message]) -> tuple[Run, str] | Ended:
        if run.turns_left <= 0:
            with self._sessions() as session:
                self._journal.finish(session, run, exhausted=True)
            return Ended(End.EXHAUSTED)
        said = self._ask(messages)
        with self._sessions() as session:
            return self._journal.decide(session, run, said.message, said.calls, tokens_used=said.tokens_used), said.text

    def _told(self, run: Run, calls: Sequence[ToolCall], answers: Sequence[ToolAnswer]) -> Run:
        """What is still in progress or in doubt is told as that: the model must not wait for ever, and must not repeat it."""
        with self._sessions() as session:
            for call, answer in zip(calls, answers, strict=True):
                if not answer.outcome.final or not answer.recorded:
                    run = self._journal.answer(session, run, call, answer)
        return run
