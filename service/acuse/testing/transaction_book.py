"""The book of a test inside the host's own transaction: the very statements of a worker, none of them committed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from acuse.identifier import operation_id
from acuse.protocol import Basis, Dated, Finding, Outcome, RetryContract, Verdict
from acuse.record import HistoryEntry, OperationRecord
from acuse.store import claim as claims
from acuse.store import dispatch as dispatches
from acuse.store import evidence, read, recover, rehearse
from acuse.store.claim import Claimed
from acuse.store.dispatch import Dispatched
from acuse.store.evidence import View
from acuse.store.settle import settle
from acuse.testing.book import LEASE
from acuse.testing.message import HostMessage, Incident

__all__ = ["TransactionBook"]

_MANY: Final = 10_000


class TransactionBook:
    """Implements `Book` on one connection. What was there before the book was opened is left alone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._mark = rehearse.mark(connection)
        self._passed = timedelta(0)
        self._at = self._mark.at
        self._read_at: dict[UUID, list[timedelta]] = {}  # when each finding was recorded, in time that has passed

    @property
    def now(self) -> datetime:
        return rehearse.now(self._connection)

    def operations(self) -> Sequence[OperationRecord]:
        return read.staged_after(self._connection, self._mark.seq)

    def bodies(self) -> Sequence[bytes]:
        return rehearse.bodies(self._connection, self._mark)

    def events(self) -> Sequence[tuple[str, bytes]]:
        return rehearse.events(self._connection, self._mark)

    def history(self, operation: str) -> Sequence[HistoryEntry]:
        return read.history(self._connection, operation, None)

    def messages(self) -> Sequence[HostMessage]:
        return [_host_message(it) for it in rehearse.messages(self._connection, self._mark)]

    def incidents(self) -> Sequence[Incident]:
        found = rehearse.incidents(self._connection, self._mark)
        return [Incident(operation_id(identity), kind, detail) for identity, kind, detail in found]

    def uncommitted(self) -> Sequence[str]:
        return ()  # the transaction is the test's, and will never be committed

    def advance(self, by: timedelta) -> None:
        # What has passed by itself does not count, so that a slow machine, or a person in a debugger, changes nothing.
        now = self.now
        older = by - (now - self._at)
        rehearse.age(self._connection, self._mark, older)
        self._passed += older
        self._at = now

    def next_due(self) -> timedelta | None:
        self.advance(timedelta(0))
        return rehearse.next_due(self._connection, self._mark)

    def hand_over(self) -> None:
        self.advance(timedelta(0))
        recover.expire_claims(self._connection, _MANY)
        recover.hand_over_due(self._connection, _MANY)
        recover.hand_over_free(self._connection, _MANY, timedelta(0))

    def take(self) -> Sequence[UUID]:
        return rehearse.take(self._connection, self._mark)

    def claim(self, operation: UUID) -> Claimed | None:
        return next(iter(claims.claim(self._connection, [operation], LEASE)), None)

    def wake_behind(self, operation: UUID) -> None:
        for one in claims.finished_of(self._connection, [operation]):
            claims.wake_next(self._connection, one)

    def give_back(self, claimed: Claimed) -> None:
        claims.defer(self._connection, claimed, due=timedelta(0), progress=True)

    def dispatch(self, claimed: Claimed, contract: RetryContract, basis: Basis | None, version: int) -> Dispatched:
        key = operation_id(claimed.id)
        return dispatches.dispatch(self._connection, claimed, contract, key=key, pin={}, basis=basis, version=version)

    def settle(self, claimed: Claimed, dispatched: Dispatched, outcome: Outcome, due: timedelta, pause: timedelta | None) -> None:
        settle(self._connection, claimed, dispatched, outcome, due=due, pause=pause)

    def view(self, operation: UUID) -> View:
        view = evidence.view(self._connection, operation)
        assert view is not None
        recorded = self._read_at.get(operation, [])
        ages = [self._passed - at for at in recorded]
        findings = [Dated(it.finding, it.started_at - age, it.attempt) for it, age in zip(view.findings, ages, strict=True)]
        return replace(view, findings=tuple(findings))

    def record(self, claimed: Claimed, attempt: int, finding: Finding, started_at: datetime) -> None:
        source = f"fence-{claimed.fence}"
        evidence.record(self._connection, claimed.id, "lookup", source, attempt, finding, started_at)
        self._read_at.setdefault(claimed.id, []).append(self._passed)

    def apply(self, operation: UUID, version: int, verdict: Verdict) -> bool:
        return evidence.apply_verdict(self._connection, operation, version, verdict) is not None


def _host_message(it: rehearse.Message) -> HostMessage:
    # Nobody but an operation or an approval has its own id, and what became of it, for the id of a message.
    whole = it.whole
    told = whole["id"].partition("-")[0] in (whole["kwargs"].get("operation_id"), whole["kwargs"].get("approval_id"))
    return HostMessage(it.queue, whole["actor"], tuple(whole["args"]), whole["kwargs"], whole["id"], told, it.available_at)
