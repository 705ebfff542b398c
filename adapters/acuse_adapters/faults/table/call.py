"""From the dispatch to the acknowledgement: the call itself, and saving what came of it."""

from typing import Final

from acuse_adapters.engine import Moment
from acuse_adapters.faults.door import AtPort
from acuse_adapters.faults.line import Trap
from acuse_adapters.faults.strike import Act, AtCall, OnLine
from acuse_adapters.faults.table.row import Row
from acuse_adapters.faults.table.said import (
    ALL,
    ANY,
    ENDS,
    KEPT,
    LOST_REPLY,
    NO_LOOK,
    REFUSES,
    ROWS_DECIDE,
    SAME_WAY,
    SETTLE_COMMITS,
    SETTLE_COMMITTED,
    at,
    line,
)
from acuse_adapters.faults.words import Boundary as B  # noqa: N817
from acuse_adapters.faults.words import Contract as C  # noqa: N817
from acuse_adapters.faults.words import Fault as F  # noqa: N817
from acuse_adapters.faults.words import Window as W  # noqa: N817
from acuse_adapters.simulators.fault import Fault as Does

__all__ = ["CALL", "DISPATCH", "SETTLE"]

DISPATCH_COMMITS: Final = Trap(b"acuse.dispatch(", b"COMMIT")
DISPATCH_COMMITTED: Final = Trap(b"acuse.dispatch(", b"COMMIT", forwarded=True)
ACKS: Final = Trap(b"\r\nack\r\n")
ACKED: Final = Trap(b"\r\nack\r\n", forwarded=True)

DISPATCH: Final = (
    Row(B.DISPATCH_COMMIT, F.KILL, line(DISPATCH_COMMITS, Act.KILL), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE, "before"),
    Row(B.DISPATCH_COMMIT, F.KILL, at(Moment.DISPATCHED, Act.KILL), W.PERHAPS_SENT, ALL, variant="after"),
    Row(B.DISPATCH_COMMIT, F.TERM, at(Moment.DISPATCHED, Act.TERM), W.KNOWN_UNSENT, ENDS, KEPT),
    Row(B.DISPATCH_COMMIT, F.CUT, line(DISPATCH_COMMITS), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.DISPATCH_COMMIT, F.COMMIT_REPLY_LOST, line(DISPATCH_COMMITTED), W.KNOWN_UNSENT, ALL),
    Row(B.DISPATCH_COMMIT, F.DATABASE_RESTART, at(Moment.DISPATCHED, Act.RESTART_DATABASE), W.RECEIPT, ENDS, KEPT),
    Row(B.DISPATCH_COMMIT, F.REDIS_WIPED, at(Moment.DISPATCHED, Act.WIPE_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.DISPATCH_COMMIT, F.DELIVERED_TWICE, at(Moment.DISPATCHED, Act.DELIVER_AGAIN), W.RECEIPT, ENDS, KEPT),
    Row(B.DISPATCH_COMMIT, F.FORGED, at(Moment.DISPATCHED, Act.FORGE), W.RECEIPT, ANY, KEPT),
    Row(B.DISPATCH_COMMIT, F.STALLED_WORKER, at(Moment.DISPATCHED, Act.STOP), W.UNSENT_LATE, ALL),
)

CALL: Final = (
    Row(
        B.CONNECT,
        F.CUT,
        AtPort(refuse=True),
        W.KNOWN_UNSENT,
        (C.KEYED, C.UPSERT_GUARDED, C.UPSERT, C.NONE),
        "a refused connection is proof that nothing left, whatever is promised",
    ),
    Row(
        B.CONNECT,
        F.PROVIDER_STALLS,
        AtPort(),
        W.PERHAPS_SENT_ALIVE,
        (C.KEYED, C.KEY_EXPIRED, C.UPSERT, C.LAG_UNBOUND, C.NONE),
        "a guarded upsert stalls in prepare already; a bound changes nothing here",
        but={C.LAG_UNBOUND: W.KNOWN_UNSENT, C.NONE: W.KNOWN_UNSENT},  # SMTP: not a byte of the letter goes before the greeting
    ),
    Row(B.BYTES_SENT, F.KILL, AtCall(act=Act.KILL, script=(Does.STALL,)), W.SENT, ALL),
    Row(B.BYTES_SENT, F.TERM, AtCall(act=Act.TERM, script=(Does.STALL,)), W.SENT_ALIVE, ENDS, SAME_WAY),
    Row(
        B.BYTES_SENT,
        F.CUT,
        AtCall(script=(Does.DROP_BEFORE,)),
        W.SENT_ALIVE,
        (C.KEYED, C.UPSERT_GUARDED, C.UPSERT, C.LAG_BOUND, C.NONE),
        SAME_WAY,
        # SMTP: before the final dot nothing is taken, and the adapter knows it.
        but={C.LAG_BOUND: W.SENT_ALIVE, C.NONE: W.SENT_ALIVE},
    ),
    Row(B.BYTES_SENT, F.DATABASE_RESTART, AtCall("before_apply", Act.RESTART_DATABASE), W.HELD_LONG, ENDS, KEPT),
    Row(B.BYTES_SENT, F.PROVIDER_STALLS, AtCall(script=(Does.STALL,)), W.SENT_ALIVE, ALL),
    Row(B.BYTES_SENT, F.DELIVERED_TWICE, AtCall("before_apply", Act.DELIVER_AGAIN), W.HELD_LONG, ENDS, KEPT),
    Row(
        B.BYTES_SENT,
        F.STALLED_WORKER,
        AtCall("before_apply", Act.STOP),
        W.HELD_LONG,  # it wakes past its deadline: whether it still reads the answer is chance
        (C.KEYED, C.KEY_EXPIRED, C.UPSERT_GUARDED, C.NONE),
        "with the reply in hand every contract is tried",
    ),
    Row(B.PROVIDER_APPLIED, F.KILL, AtCall("after_apply", Act.KILL), W.APPLIED, ALL),
    Row(B.PROVIDER_APPLIED, F.TERM, AtCall("after_apply", Act.TERM), W.APPLIED_ALIVE, (*ENDS, C.STRONG), SAME_WAY),
    Row(B.PROVIDER_APPLIED, F.CUT, AtCall(script=LOST_REPLY), W.APPLIED_ALIVE, ALL),
    Row(B.PROVIDER_APPLIED, F.DATABASE_RESTART, AtCall("after_apply", Act.RESTART_DATABASE), W.HELD_LONG, ENDS, KEPT),
    Row(B.PROVIDER_APPLIED, F.REDIS_WIPED, AtCall("after_apply", Act.WIPE_REDIS), W.HELD_LONG, ENDS, KEPT),
    Row(B.PROVIDER_APPLIED, F.PROVIDER_STALLS, AtCall(script=(Does.STALL_APPLIED,)), W.APPLIED_ALIVE, ALL),
    Row(B.PROVIDER_APPLIED, F.DELIVERED_TWICE, AtCall("after_apply", Act.DELIVER_AGAIN), W.HELD_LONG, ENDS, KEPT),
    Row(B.REPLY_RECEIVED, F.KILL, at(Moment.ANSWERED, Act.KILL), W.APPLIED, ALL),
    Row(B.REPLY_RECEIVED, F.TERM, at(Moment.ANSWERED, Act.TERM), W.RECEIPT, ENDS, KEPT),
    Row(B.REPLY_RECEIVED, F.CUT, at(Moment.ANSWERED, Act.CUT), W.RECEIPT, ENDS, KEPT),
    Row(B.REPLY_RECEIVED, F.DATABASE_RESTART, at(Moment.ANSWERED, Act.RESTART_DATABASE), W.RECEIPT, ENDS, KEPT),
    Row(B.REPLY_RECEIVED, F.REDIS_WIPED, at(Moment.ANSWERED, Act.WIPE_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.REPLY_RECEIVED, F.DELIVERED_TWICE, at(Moment.ANSWERED, Act.DELIVER_AGAIN), W.RECEIPT, ENDS, KEPT),
    Row(B.REPLY_RECEIVED, F.FORGED, at(Moment.ANSWERED, Act.FORGE), W.RECEIPT, ANY, KEPT),
    Row(B.REPLY_RECEIVED, F.STALLED_WORKER, at(Moment.ANSWERED, Act.STOP), W.TOLD_LATE, ALL),
    Row(
        B.REPLY_RECEIVED,
        F.STALLED_WORKER,
        at(Moment.ANSWERED, Act.STOP, REFUSES),
        W.REFUSED_LATE,
        (C.KEYED, C.UPSERT_GUARDED, C.NONE),
        variant="refused",
    ),
)

SETTLE: Final = (
    Row(B.SETTLE_COMMIT, F.KILL, line(SETTLE_COMMITS, Act.KILL), W.APPLIED, (*ENDS, C.KEY_EXPIRED, C.STRONG), NO_LOOK, "before"),
    Row(B.SETTLE_COMMIT, F.KILL, line(SETTLE_COMMITTED, Act.KILL), W.RECEIPT, ENDS, KEPT, "after"),
    Row(B.SETTLE_COMMIT, F.TERM, line(SETTLE_COMMITS, Act.TERM), W.RECEIPT, ENDS, KEPT),
    Row(B.SETTLE_COMMIT, F.CUT, line(SETTLE_COMMITS), W.RECEIPT, ENDS, KEPT),
    Row(B.SETTLE_COMMIT, F.CUT, line(SETTLE_COMMITS, script=REFUSES), W.REFUSED, ENDS, KEPT, "refused"),
    Row(B.SETTLE_COMMIT, F.COMMIT_REPLY_LOST, line(SETTLE_COMMITTED), W.RECEIPT, (*ENDS, C.UPSERT_GUARDED), KEPT),
    Row(B.SETTLE_COMMIT, F.DATABASE_RESTART, line(SETTLE_COMMITS, Act.RESTART_DATABASE), W.RECEIPT, ENDS, KEPT),
    Row(B.ACK, F.KILL, at(Moment.SETTLED, Act.KILL), W.RECEIPT, ENDS, KEPT),
    Row(B.ACK, F.TERM, OnLine("worker", "redis", ACKS, Act.TERM), W.RECEIPT, ANY, KEPT),
    Row(B.ACK, F.CUT, OnLine("worker", "redis", ACKS, Act.CUT), W.RECEIPT, ENDS, KEPT, "before"),
    Row(B.ACK, F.CUT, OnLine("worker", "redis", ACKED, Act.CUT), W.RECEIPT, ANY, KEPT, "after"),
    Row(B.ACK, F.REDIS_RESTART, at(Moment.SETTLED, Act.RESTART_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.ACK, F.REDIS_WIPED, at(Moment.SETTLED, Act.WIPE_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.ACK, F.REDIS_FULL, at(Moment.SETTLED, Act.FILL_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.ACK, F.DELIVERED_TWICE, at(Moment.SETTLED, Act.DELIVER_AGAIN), W.RECEIPT, ENDS, KEPT),
    Row(B.ACK, F.FORGED, at(Moment.SETTLED, Act.FORGE), W.RECEIPT, ANY, KEPT),
)
