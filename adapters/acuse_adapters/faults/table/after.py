"""What follows: the dependants, and the word to the host."""

from typing import Final

from acuse_adapters.engine import Moment
from acuse_adapters.faults.line import Trap
from acuse_adapters.faults.strike import Act, AtCall, OnLine
from acuse_adapters.faults.table.row import Row
from acuse_adapters.faults.table.said import KEPT, LOST_REPLY, REFUSES, SETTLE_COMMITS, SETTLE_COMMITTED, at, line
from acuse_adapters.faults.words import Boundary as B  # noqa: N817
from acuse_adapters.faults.words import Contract as C  # noqa: N817
from acuse_adapters.faults.words import Fault as F  # noqa: N817
from acuse_adapters.faults.words import Window as W  # noqa: N817

__all__ = ["IN_DOUBT", "REFUSED", "RELEASE", "SETTLED_MESSAGE"]

RELEASE: Final = tuple(
    Row(B.RELEASE, fault, strike, W.RECEIPT, (C.UPSERT_GUARDED,), KEPT, variant, dependant=True)
    for fault, variant, strike in (
        (F.KILL, "after", line(SETTLE_COMMITTED, Act.KILL)),
        (F.KILL, "found, not decided", at(Moment.RECORDED, Act.KILL, LOST_REPLY)),
        (F.TERM, "", at(Moment.SETTLED, Act.TERM)),
        (F.CUT, "", line(SETTLE_COMMITS)),
        (F.COMMIT_REPLY_LOST, "", line(SETTLE_COMMITTED)),
        (F.DATABASE_RESTART, "", at(Moment.SETTLED, Act.RESTART_DATABASE)),
        (F.REDIS_RESTART, "", at(Moment.SETTLED, Act.RESTART_REDIS)),
        (F.REDIS_WIPED, "", at(Moment.SETTLED, Act.WIPE_REDIS)),
        (F.DELIVERED_TWICE, "", at(Moment.SETTLED, Act.DELIVER_AGAIN)),
        (F.DELIVERED_TWICE, "before it is settled", at(Moment.ANSWERED, Act.DELIVER_AGAIN)),
        (F.STALLED_WORKER, "", at(Moment.ANSWERED, Act.STOP)),
    )
)

SETTLED_MESSAGE: Final = tuple(
    Row(B.SETTLED_MESSAGE, fault, strike, W.RECEIPT, (C.UPSERT_GUARDED,), KEPT, variant, told=True)
    for fault, variant, strike in (
        (F.KILL, "of the worker", line(SETTLE_COMMITTED, Act.KILL)),
        (F.KILL, "of the relay", OnLine("relay", "database", Trap(b"faults-host", b"COMMIT"), Act.KILL)),
        (F.KILL, "of the relay, at its push", OnLine("relay", "redis", Trap(b"faults-host", b"RPUSH"), Act.KILL)),
        (F.COMMIT_REPLY_LOST, "", line(SETTLE_COMMITTED)),
        (F.CUT, "", line(SETTLE_COMMITS)),
        (F.DATABASE_RESTART, "", line(SETTLE_COMMITS, Act.RESTART_DATABASE)),
        (F.STALLED_WORKER, "", at(Moment.ANSWERED, Act.STOP)),
    )
)

REFUSED: Final = (
    Row(
        B.RELEASE,
        F.KILL,
        line(SETTLE_COMMITTED, Act.KILL, REFUSES),
        W.REFUSED,
        (C.UPSERT_GUARDED,),
        KEPT,
        "refused",
        dependant=True,
    ),
    Row(B.RELEASE, F.CUT, line(SETTLE_COMMITS, script=REFUSES), W.REFUSED, (C.UPSERT_GUARDED,), KEPT, "refused", dependant=True),
    Row(
        B.SETTLED_MESSAGE,
        F.KILL,
        line(SETTLE_COMMITTED, Act.KILL, REFUSES),
        W.REFUSED,
        (C.UPSERT_GUARDED,),
        KEPT,
        "of the worker, refused",
        told=True,
    ),
)

IN_DOUBT: Final = (
    Row(
        B.SETTLED_MESSAGE,
        F.KILL,
        AtCall("after_apply", Act.KILL),
        W.APPLIED,
        (C.NONE,),
        KEPT,
        "of the worker, in doubt",
        told=True,
    ),
)
