"""A run as somebody new finds it, and where it goes on."""

from dataclasses import dataclass
from typing import Literal

from acuse.agents.answer import ToolAnswer
from acuse.agents.call import ToolCall
from acuse.agents.run import Run
from acuse.protocol import State

__all__ = ["Fact", "Message", "Resumed", "StoredCall"]


@dataclass(frozen=True, slots=True)
class Message:
    """What stands in the conversation, byte for byte as it was stored.

    role: `user` (the task, and what was told later), `assistant` (a decision, in the host's own form) or `tool` (an answer).
    step: of the decision that it is or follows. call_id, is_error: of an answer.
    """

    role: Literal["user", "assistant", "tool"]
    text: str
    step: int
    call_id: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call with what is on record of it.

    begun: its tool may have run. operation_id, state: what stands for it in the ledger, and how that was when it was read.
    """

    call: ToolCall
    turn: int
    step: int
    position: int
    nature: str | None
    begun: bool
    operation_id: str | None
    state: State | None
    answer: ToolAnswer | None


@dataclass(frozen=True, slots=True)
class Fact:
    """An operation of the workflow of which no call in the conversation tells."""

    operation_id: str
    action: str
    target: str
    state: State
    result_id: str | None


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run with its conversation, and where it goes on.

    messages: as they go back to the model, in order; the answers of the last turn are among them only once all are there.
    calls: all calls of the last turn, if one of them has no answer yet; give them to `ToolGate.answers`. facts: see `Fact`.
    """

    run: Run
    messages: tuple[Message, ...]
    stored_calls: tuple[StoredCall, ...]
    facts: tuple[Fact, ...] = ()

    @property
    def turns(self) -> int:
        """Decisions stored over the run's whole life."""
        return self.run.turns

    @property
    def tokens_used(self) -> int:
        """Of the context window as it was at the last decision."""
        return self.run.tokens_used

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All calls of the last turn if some are dangling, else none."""
        return tuple(one.call for one in self._last) if self.dangling else ()

    @property
    def dangling(self) -> tuple[ToolCall, ...]:
        """Calls that have no answer yet."""
        return tuple(one.call for one in self._last if one.answer is None)

    @property
    def next(self) -> Literal["answer", "ask", "finish"]:
        """Answer the dangling calls, ask the model for the next turn, or finish: it has decided and called nothing."""
        if self.dangling:
            return "answer"
        return "finish" if self.messages[-1].role == "assistant" else "ask"

    @property
    def _last(self) -> tuple[StoredCall, ...]:
        return tuple(one for one in self.stored_calls if one.step == self.run.step)
