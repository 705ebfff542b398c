"""The doubt: look-up, evidence commit."""

from typing import Final

from acuse_adapters.engine import Moment
from acuse_adapters.faults.door import AtLookUp
from acuse_adapters.faults.line import Trap
from acuse_adapters.faults.strike import Act, AtCall, AtClock
from acuse_adapters.faults.table.row import Row
from acuse_adapters.faults.table.said import ALL, LOST_REPLY, NO_LOOK, at, line
from acuse_adapters.faults.words import Boundary as B  # noqa: N817
from acuse_adapters.faults.words import Contract as C  # noqa: N817
from acuse_adapters.faults.words import Fault as F  # noqa: N817
from acuse_adapters.faults.words import Window as W  # noqa: N817
from acuse_adapters.simulators.fault import Fault as Does

__all__ = ["EVIDENCE"]

RECORDS: Final = Trap(b"acuse.record_evidence(", b"COMMIT")
RECORDED: Final = Trap(b"acuse.record_evidence(", b"COMMIT", forwarded=True)
LOOKS: Final = (C.KEYED, C.UPSERT_GUARDED, C.LAG_UNBOUND)

EVIDENCE: Final = (
    Row(
        B.LOOK_UP,
        F.KILL,
        at(Moment.LOOKED, Act.KILL, LOST_REPLY),
        W.APPLIED,
        (*LOOKS, C.KEY_EXPIRED, C.STRONG),
        NO_LOOK,
    ),
    Row(B.LOOK_UP, F.TERM, at(Moment.LOOKED, Act.TERM, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.LOOK_UP, F.CUT, at(Moment.LOOKED, Act.CUT, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.LOOK_UP, F.DATABASE_RESTART, at(Moment.LOOKED, Act.RESTART_DATABASE, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.LOOK_UP, F.REDIS_WIPED, at(Moment.LOOKED, Act.WIPE_REDIS, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(
        B.LOOK_UP,
        F.PROVIDER_STALLS,
        AtLookUp(looks=2),
        W.APPLIED_ALIVE,
        (C.UPSERT_GUARDED, C.UPSERT, C.STRONG),
        "a key needs no look-up; a lag without a bound is never a proof; the last one has nothing to look with",
    ),
    # Two looks after the bound, and some seconds apart, would be a proof if they found nothing.
    Row(B.LOOK_UP, F.PROVIDER_STALLS, AtLookUp(looks=4), W.APPLIED_ALIVE, (C.LAG_BOUND,)),
    Row(B.LOOK_UP, F.CLOCK, AtClock(600, AtCall("after_apply", Act.KILL)), W.APPLIED, ALL, variant="+10"),
    Row(B.LOOK_UP, F.CLOCK, AtClock(-600, AtCall("after_apply", Act.KILL)), W.APPLIED, ALL, variant="-10"),
    Row(B.LOOK_UP, F.CLOCK, AtClock(600, at(Moment.DISPATCHED, Act.KILL)), W.PERHAPS_SENT, ALL, variant="+10, unsent"),
    Row(B.LOOK_UP, F.DELIVERED_TWICE, at(Moment.LOOKED, Act.DELIVER_AGAIN, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.LOOK_UP, F.FORGED, at(Moment.LOOKED, Act.FORGE, LOST_REPLY), W.APPLIED_ALIVE, (C.UPSERT_GUARDED,), NO_LOOK),
    Row(B.LOOK_UP, F.STALLED_WORKER, at(Moment.LOOKED, Act.STOP, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.EVIDENCE_COMMIT, F.KILL, line(RECORDS, Act.KILL, LOST_REPLY), W.APPLIED, LOOKS, NO_LOOK, "before"),
    Row(B.EVIDENCE_COMMIT, F.KILL, at(Moment.RECORDED, Act.KILL, LOST_REPLY), W.APPLIED, LOOKS, NO_LOOK, "after"),
    Row(B.EVIDENCE_COMMIT, F.TERM, at(Moment.RECORDED, Act.TERM, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.EVIDENCE_COMMIT, F.CUT, line(RECORDS, script=LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.EVIDENCE_COMMIT, F.COMMIT_REPLY_LOST, line(RECORDED, script=LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(
        B.EVIDENCE_COMMIT,
        F.DATABASE_RESTART,
        at(Moment.RECORDED, Act.RESTART_DATABASE, LOST_REPLY),
        W.APPLIED_ALIVE,
        (C.UPSERT_GUARDED,),
        NO_LOOK,
    ),
    Row(
        B.EVIDENCE_COMMIT,
        F.DELIVERED_TWICE,
        at(Moment.RECORDED, Act.DELIVER_AGAIN, (Does.DROP_BEFORE,)),
        W.SENT_ALIVE,
        LOOKS,
        NO_LOOK,
    ),
    Row(
        B.EVIDENCE_COMMIT,
        F.FORGED,
        at(Moment.RECORDED, Act.FORGE, (Does.DROP_BEFORE,)),
        W.SENT_ALIVE,
        (C.UPSERT_GUARDED, C.STRONG),
        NO_LOOK,
        but={C.STRONG: W.OVERTAKEN},
    ),
    Row(B.EVIDENCE_COMMIT, F.STALLED_WORKER, at(Moment.RECORDED, Act.STOP, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
)
