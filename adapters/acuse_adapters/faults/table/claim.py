"""Until the dispatch: broker fetch, claim, prepare."""

from typing import Final

from acuse_adapters.engine import Moment
from acuse_adapters.faults.door import AtPort
from acuse_adapters.faults.line import Trap
from acuse_adapters.faults.strike import Act, AtBroker, AtClock, OnLine
from acuse_adapters.faults.table.row import Row
from acuse_adapters.faults.table.said import ANY, ENDS, ROWS_DECIDE, at, line
from acuse_adapters.faults.words import Boundary as B  # noqa: N817
from acuse_adapters.faults.words import Contract as C  # noqa: N817
from acuse_adapters.faults.words import Fault as F  # noqa: N817
from acuse_adapters.faults.words import Window as W  # noqa: N817

__all__ = ["CLAIM", "FETCH", "PREPARE"]

FETCHED: Final = Trap(b"op_", said_by="server")
CLAIM_COMMITS: Final = Trap(b"acuse.claim(", b"COMMIT")
CLAIM_COMMITTED: Final = Trap(b"acuse.claim(", b"COMMIT", forwarded=True)
PREPARES: Final = (C.UPSERT_GUARDED, C.NONE)
TWO_PREPARES: Final = "one that asks its provider in prepare and one that asks nobody stand for all"

FETCH: Final = (
    Row(
        B.BROKER_FETCH,
        F.KILL,
        OnLine("worker", "redis", FETCHED, Act.KILL),
        W.BEFORE_DISPATCH,
        ANY,
        ROWS_DECIDE,
        slow=True,
    ),
    Row(B.BROKER_FETCH, F.CUT, OnLine("worker", "redis", FETCHED, Act.CUT), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.BROKER_FETCH, F.TERM, OnLine("worker", "redis", FETCHED, Act.TERM), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.BROKER_FETCH, F.REDIS_RESTART, AtBroker(Act.RESTART_REDIS), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.BROKER_FETCH, F.REDIS_WIPED, AtBroker(Act.WIPE_REDIS), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.BROKER_FETCH, F.REDIS_FULL, AtBroker(Act.FILL_REDIS), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.BROKER_FETCH, F.DELIVERED_TWICE, AtBroker(Act.DELIVER_AGAIN), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.BROKER_FETCH, F.FORGED, AtBroker(Act.FORGE), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
)

CLAIM: Final = (
    Row(B.CLAIM, F.KILL, line(CLAIM_COMMITS, Act.KILL), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "before its COMMIT", slow=True),
    Row(B.CLAIM, F.KILL, at(Moment.CLAIMED, Act.KILL), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE, "after"),
    Row(B.CLAIM, F.TERM, at(Moment.CLAIMED, Act.TERM), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.CLAIM, F.CUT, line(CLAIM_COMMITS), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.COMMIT_REPLY_LOST, line(CLAIM_COMMITTED), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.CLAIM, F.DATABASE_RESTART, at(Moment.CLAIMED, Act.RESTART_DATABASE), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.REDIS_RESTART, at(Moment.CLAIMED, Act.RESTART_REDIS), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.REDIS_WIPED, at(Moment.CLAIMED, Act.WIPE_REDIS), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.CLOCK, AtClock(600), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE, "+10"),
    Row(B.CLAIM, F.CLOCK, AtClock(-600), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE, "-10"),
    Row(B.CLAIM, F.DELIVERED_TWICE, at(Moment.CLAIMED, Act.DELIVER_AGAIN), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.CLAIM, F.FORGED, at(Moment.CLAIMED, Act.FORGE), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.STALLED_WORKER, at(Moment.CLAIMED, Act.STOP), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
)

PREPARE: Final = (
    Row(B.PREPARE, F.KILL, at(Moment.PREPARED, Act.KILL), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(B.PREPARE, F.TERM, at(Moment.PREPARED, Act.TERM), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(B.PREPARE, F.CUT, at(Moment.PREPARED, Act.CUT), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(B.PREPARE, F.DATABASE_RESTART, at(Moment.PREPARED, Act.RESTART_DATABASE), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(
        B.PREPARE, F.PROVIDER_STALLS, AtPort(), W.BEFORE_DISPATCH, (C.UPSERT_GUARDED,), "nobody else asks its provider in prepare"
    ),
    Row(B.PREPARE, F.DELIVERED_TWICE, at(Moment.PREPARED, Act.DELIVER_AGAIN), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(B.PREPARE, F.STALLED_WORKER, at(Moment.PREPARED, Act.STOP), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
)
