"""An operation in doubt, in real units, with the builders that the tables of cases use."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from acuse.protocol import (
    AttemptView,
    Consistency,
    Dated,
    Finding,
    Hours,
    Key,
    Lookup,
    Marker,
    Minutes,
    NaturalUpsert,
    OperationView,
    Replays,
    RetryContract,
    Seconds,
    State,
    Verdict,
    decide,
    team,
)

__all__ = [
    "DAY",
    "GUARDED",
    "KEY",
    "LAGS",
    "LAGS_5_MIN",
    "QUIET",
    "SENT",
    "STRONG",
    "UNGUARDED",
    "UNKNOWN",
    "WINDOW",
    "after",
    "contract",
    "reads",
    "tries",
    "verdict",
]

DAY = date(2026, 11, 30)
SENT = datetime(2026, 11, 30, 10, 41, 7, tzinfo=UTC)
WINDOW = 6760  # 2 h of retention less 20 s of deadline, 2 min in flight and 5 min of margin
QUIET = 140  # deadline and max_in_flight
UNKNOWN = OperationView("op_1", State.UNKNOWN, doubts=1, first_sent_at=SENT)
KEY = Key(header="Idempotency-Key", max_length=255, retention=Hours(2), margin=Minutes(5), replays=Replays.FIRST_ANSWER)
STRONG = Lookup(by="external_id", consistency=Consistency.STRONG)
LAGS = Lookup(by="external_id", consistency=Consistency.EVENTUAL)
LAGS_5_MIN = Lookup(
    by="external_id",
    consistency=Consistency.EVENTUAL,
    visible_within=team(Minutes(5), by="ops", on=DAY, because="longest seen"),
)


def after(seconds: float) -> datetime:
    return SENT + timedelta(seconds=seconds)


def contract(**parts: Any) -> RetryContract:
    whole: dict[str, Any] = {
        "version": "2026-11",
        "verified_on": DAY,
        "source": "https://provider.example/docs",
        "deadline": Seconds(20),
        "again_means": "the customer gets a second ticket",
        "marker": Marker(where="external_id"),
        "max_in_flight": team(Minutes(2), by="ops", on=DAY, because="longest seen"),
    }
    return RetryContract(**whole | parts)


def tries(*sent: float) -> list[AttemptView]:
    return [AttemptView(number, after(at), doubtful=True) for number, at in enumerate(sent, 1)]


def reads(*found: tuple[float, Finding], attempt: int = 1) -> list[Dated]:
    return [Dated(finding, after(at), attempt) for at, finding in found]


def verdict(
    now: float,
    promised: RetryContract,
    findings: Sequence[Dated] = (),
    operation: OperationView = UNKNOWN,
    attempts: Sequence[AttemptView] | None = None,
) -> Verdict:
    return decide(operation, tries(0) if attempts is None else attempts, promised, findings, after(now))


GUARDED = contract(natural_upsert=NaturalUpsert(by="external_id", precondition="If-Match"), lookup=STRONG)
UNGUARDED = contract(natural_upsert=NaturalUpsert(by="external_id"), lookup=LAGS_5_MIN)
