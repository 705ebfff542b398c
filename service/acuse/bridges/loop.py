"""An agent's loop on the journal and the gate, for any model: it may be killed anywhere and goes on where it was.

Ask the model, store what it decided, answer its calls, store the answers, ask again. A stored decision is never asked for again.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from acuse.agents import Journal, Keeping, Message, Outcome, Resumed, Run, ToolAnswer, ToolCall, ToolGate
from acuse.agents.journal import LEASE, MAX_TURNS
from acuse.bridges.conversation import Conversation
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
        self._conversation = Conversation(sessions, journal)

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
        resumed = self._conversation.take(
            run_id, task, flow_version=flow_version, owner=owner, lease=lease, max_turns=max_turns, workflow=workflow
        )
        words = ""
        with Keeping(self._journal, self._sessions, resumed.run) as kept:
            while True:
                kept.check()
                step = self._step(resumed)
                if isinstance(step, Ended):
                    return replace(step, text=words) if step.end is End.FINISHED else step
                run, words = step
                resumed = self._conversation.read(run.run_id)

    def _step(self, resumed: Resumed) -> tuple[Run, str] | Ended:
        run = resumed.run
        match resumed.next:
            case "answer":
                answers = self._gate.answers(run, resumed.calls, store_pending=False)
                waiting = tuple(one for one in answers if one.outcome in _PENDING)
                if waiting:
                    self._conversation.give_back(run)
                    return Ended(End.WAITING, waiting=waiting)
                return self._conversation.tell(run, resumed.calls, answers), ""
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
