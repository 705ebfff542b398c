"""A run as its owner holds it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

__all__ = ["Run", "RunStatus"]


class RunStatus(StrEnum):
    """Where a run is. It never leaves an end again."""

    RUNNING = "running"  # -> finished, cancelled, exhausted
    FINISHED = "finished"
    CANCELLED = "cancelled"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The handle of one owner, as the last write left it: each write returns the next one.

    workflow: what its operations belong to. fence: its token; a higher one means that somebody else has taken the run.
    state_version: raised by what changes the conversation; a write under an older one changes nothing.
    turns, max_turns: decisions stored over its whole life, and how many there may be. step: decisions in the conversation as it
    is; the same, unless it was rewound. deaths: owners lost since something was last stored.
    tokens_used: of the context window as it was at the last decision. lease: seconds.
    """

    id: str
    tenant: str
    run_id: str
    workflow: str
    flow_version: str
    status: RunStatus
    turns: int
    max_turns: int
    step: int
    deaths: int
    tokens_used: int
    state_version: int
    owner: str | None
    fence: int
    lease: float
    lease_until: datetime | None

    @property
    def turns_left(self) -> int:
        """How often the model may still be asked."""
        return self.max_turns - self.turns
