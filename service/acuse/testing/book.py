"""The port between a run of effects and a ledger: in memory, or in the host's own transaction."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from acuse.protocol import Basis, Finding, Outcome, RetryContract, Verdict
from acuse.record import HistoryEntry, OperationRecord
from acuse.store.claim import Claimed
from acuse.store.dispatch import Dispatched
from acuse.store.evidence import View
from acuse.testing.message import HostMessage, Incident

__all__ = ["LEASE", "Book"]

LEASE = timedelta(seconds=60)
"""How long a claim lasts, as in a worker that nobody configures."""


class Book(Protocol):
    """What happened to the operations of one test. They are seen in the order of their staging."""

    @property
    def now(self) -> datetime: ...

    def operations(self) -> Sequence[OperationRecord]: ...

    def bodies(self) -> Sequence[bytes]:
        """The canonical bodies of `operations`, in their order."""
        ...

    def events(self) -> Sequence[tuple[str, bytes]]:
        """Name and canonical body of what was published."""
        ...

    def history(self, operation: str) -> Sequence[HistoryEntry]: ...

    def messages(self) -> Sequence[HostMessage]: ...

    def incidents(self) -> Sequence[Incident]: ...

    def uncommitted(self) -> Sequence[str]:
        """Operations that no worker can see yet."""
        ...

    def advance(self, by: timedelta) -> None:
        """Let time pass, while nobody works."""
        ...

    def next_due(self) -> timedelta | None:
        """In how long something comes due next; None: never."""
        ...

    def hand_over(self) -> None:
        """One round of the recover loop: expired claims, what is due, what waits for nothing any more."""
        ...

    def take(self) -> Sequence[UUID]:
        """Take the operations' messages out of the outbox."""
        ...

    def claim(self, operation: UUID) -> Claimed | None: ...

    def wake_behind(self, operation: UUID) -> None:
        """Wake what waits behind it, if it is final."""
        ...

    def give_back(self, claimed: Claimed) -> None: ...

    def dispatch(self, claimed: Claimed, contract: RetryContract, basis: Basis | None, version: int) -> Dispatched: ...

    def settle(
        self, claimed: Claimed, dispatched: Dispatched, outcome: Outcome, due: timedelta, pause: timedelta | None
    ) -> None: ...

    def view(self, operation: UUID) -> View: ...

    def record(self, claimed: Claimed, attempt: int, finding: Finding, started_at: datetime) -> None: ...

    def apply(self, operation: UUID, version: int, verdict: Verdict) -> bool: ...
