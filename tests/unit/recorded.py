"""Operations and their history as the ledger would tell them, for what only reads them."""

from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from typing import Any

from acuse.protocol import (
    Consistency,
    Hours,
    Key,
    Lookup,
    Marker,
    Minutes,
    NaturalUpsert,
    Replays,
    RetryContract,
    State,
    team,
    vendor,
)
from acuse.record import HistoryEntry, OperationRecord

SENT = datetime(2026, 11, 30, 10, 41, 7, tzinfo=UTC)
NOW = SENT + timedelta(minutes=12)
OPERATION = "op_" + "0" * 31 + "4"

_DEFAULTS: dict[str, Any] = {
    "operation_id": OPERATION,
    "tenant": "t",
    "state": State.UNKNOWN,
    "version": 7,
    "read_at": NOW,
    "effect_key": "k",
    "generation": 0,
    "action": "ticket.create.v1",
    "provider": "ticket",
    "account": "default",
    "target": "case-318",
    "digest": "00" * 32,
    "distinct": False,
    "doubts": 1,
    "attempts": 1,
    "fence": 1,
    "first_sent_at": SENT,
    "handovers": 0,
    "waits_for": (),
    "created_at": SENT,
    "updated_at": SENT,
}


def record(**given: Any) -> OperationRecord:
    """An operation that is unknown since 12 minutes, but for what is given."""
    names = [field.name for field in fields(OperationRecord)]
    return OperationRecord(**{name: given.get(name, _DEFAULTS.get(name)) for name in names})


def _entry(kind: Any, at: datetime, what: str, why: str | None, attempt: int, actor: str | None, detail: Any) -> HistoryEntry:
    by = "worker" if kind == "attempt" else "evidence"
    return HistoryEntry(
        kind=kind,
        at=at,
        version=1,
        what=what,
        by=by,
        actor=actor,
        why=why,
        from_state=None,
        to_state=None,
        attempt=attempt,
        detail=detail,
    )


def tried(
    number: int, at: datetime, outcome: str = "ambiguous", why: str | None = "the connection closed before an answer"
) -> HistoryEntry:
    """An attempt; `outcome` is `sent` while nobody knows."""
    return _entry("attempt", at, outcome, why, number, None, {"doubtful": outcome in ("ambiguous", "sent")})


def read(at: datetime, finding: str = "absent", attempt: int = 1, **detail: Any) -> HistoryEntry:
    """A look-up that began at `at`."""
    return _entry("evidence", at, finding, detail.get("reason"), attempt, "lookup", {"started_at": at, **detail})


def contract(**given: Any) -> RetryContract:
    """A helpdesk: a key for two hours, a search that may lag; but for what is given."""
    on = date(2026, 11, 30)
    promises: dict[str, Any] = {
        "version": "2026-11",
        "verified_on": on,
        "source": "https://provider.example/docs",
        "deadline": timedelta(seconds=20),
        "max_in_flight": team(Minutes(2), by="ops", on=on, because="longest seen"),
        "key": Key(
            header="Idempotency-Key",
            max_length=255,
            retention=vendor(Hours(2)),
            margin=Minutes(5),
            replays=Replays.SUCCESS_ONLY,
            on_concurrent=409,
        ),
        "marker": Marker(where="external_id"),
        "lookup": Lookup(by="external_id", consistency=Consistency.EVENTUAL),
        "again_means": "the customer gets a second ticket",
    }
    return RetryContract(**(promises | given))


def bare_contract() -> RetryContract:
    """A provider that offers nothing."""
    return contract(key=None, marker=None, lookup=None, max_in_flight=None, again_means="the recipient gets the same email twice")


def upsert_contract() -> RetryContract:
    """A provider whose write is addressed by the host's id, with a strong look-up."""
    return contract(
        key=None,
        natural_upsert=NaturalUpsert(by="case id", precondition="If-Match"),
        lookup=Lookup(by="operation_id", consistency=Consistency.STRONG),
        again_means="the case is closed a second time",
    )
