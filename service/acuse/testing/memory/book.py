"""The book of a test, in memory."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from acuse.errors import NotFound
from acuse.identifier import operation_id, uuid_of
from acuse.protocol import Basis, Finding, Outcome, RetryContract, Verdict
from acuse.record import HistoryEntry, OperationRecord
from acuse.store.claim import Claimed
from acuse.store.dispatch import Dispatched
from acuse.store.evidence import View, verdict_values
from acuse.store.settle import outcome_values
from acuse.testing.book import LEASE
from acuse.testing.memory import evidence, steps
from acuse.testing.memory.ending import wake_next
from acuse.testing.memory.record import history_of, record_of
from acuse.testing.memory.tables import Tables
from acuse.testing.message import HostMessage, Incident

__all__ = ["MemoryBook"]


class MemoryBook:
    """Implements `Book` over the tables in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @property
    def now(self) -> datetime:
        return self._tables.now

    def operations(self) -> Sequence[OperationRecord]:
        return [record_of(self._tables, one) for one in self._tables.operations.values()]

    def bodies(self) -> Sequence[bytes]:
        return [one.body for one in self._tables.operations.values()]

    def events(self) -> Sequence[tuple[str, bytes]]:
        return [(it.name, it.body) for it in self._tables.events.values()]

    def history(self, operation: str) -> Sequence[HistoryEntry]:
        one = self._tables.operations.get(uuid_of(operation, prefix="op", field="operation_id"))
        if one is None:
            raise NotFound(what="operation", id=operation)
        return history_of(one)

    def messages(self) -> Sequence[HostMessage]:
        return self._tables.messages

    def incidents(self) -> Sequence[Incident]:
        return self._tables.incidents

    def uncommitted(self) -> Sequence[str]:
        operations = self._tables.operations.values()
        return [operation_id(one.id) for one in operations if one.transaction is not None and one.transaction.open]

    def advance(self, by: timedelta) -> None:
        self._tables.now += by

    def next_due(self) -> timedelta | None:
        # A claim ends when its time is over, which is a moment after its last.
        over = timedelta(microseconds=1)
        pending = [one for one in self._tables.operations.values() if one.pending]
        ends = [one.claim_until + over for one in pending if one.claim_until is not None]
        dues = [one.due_at for one in pending if one.due_at is not None and one.claim_until is None]
        return min((at - self._tables.now for at in dues + ends), default=None)

    def hand_over(self) -> None:
        steps.expire_claims(self._tables)
        steps.hand_over_due(self._tables)
        steps.hand_over_free(self._tables)

    def take(self) -> Sequence[UUID]:
        taken = sorted(self._tables.ready, key=lambda one: self._tables.operations[one].seq)
        self._tables.ready.clear()
        return taken

    def claim(self, operation: UUID) -> Claimed | None:
        return steps.claim(self._tables, operation, LEASE)

    def wake_behind(self, operation: UUID) -> None:
        one = self._tables.operations[operation]
        if one.state.final:
            wake_next(self._tables, one)

    def give_back(self, claimed: Claimed) -> None:
        steps.give_back(self._tables, claimed)

    def dispatch(self, claimed: Claimed, contract: RetryContract, basis: Basis | None, version: int) -> Dispatched:
        return steps.dispatch(self._tables, claimed, contract, basis, version)

    def settle(self, claimed: Claimed, dispatched: Dispatched, outcome: Outcome, due: timedelta, pause: timedelta | None) -> None:
        steps.settle(self._tables, claimed, dispatched, outcome_values(outcome, dispatched.earlier_doubts), due, pause)

    def view(self, operation: UUID) -> View:
        return evidence.view(self._tables, operation)

    def record(self, claimed: Claimed, attempt: int, finding: Finding, started_at: datetime) -> None:
        source = f"fence-{claimed.fence}"
        evidence.record(self._tables, claimed.id, "lookup", source, attempt, finding, started_at)

    def apply(self, operation: UUID, version: int, verdict: Verdict) -> bool:
        return evidence.apply_verdict(self._tables, operation, version, verdict_values(verdict))
