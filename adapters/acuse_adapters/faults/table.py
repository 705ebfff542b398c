"""The matrix as data: what is struck, how, for which contracts; and for each pair that is left out, why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from acuse_adapters.engine import Moment
from acuse_adapters.faults.line import Trap
from acuse_adapters.faults.strike import Act, AtBroker, AtCall, AtClock, AtMoment, AtPort, AtStage, OnLine, Strike
from acuse_adapters.faults.words import Boundary as B  # noqa: N817
from acuse_adapters.faults.words import Contract as C  # noqa: N817
from acuse_adapters.faults.words import Fault as F  # noqa: N817
from acuse_adapters.faults.words import Window as W  # noqa: N817
from acuse_adapters.simulators.fault import Fault as Does

__all__ = ["ROWS", "Cell", "Row", "cells"]


@dataclass(frozen=True)
class Row:
    """A boundary, a fault, how it strikes, the window that it hits, and the contracts that it is tried on.

    others: why not on the others. but: contracts for which the same strike hits another window. variant: tells rows of one pair
    apart. dependant, told: what is staged beside. slow: it waits for Dramatiq to give a worker up.
    """

    boundary: B
    fault: F
    strike: Strike
    window: W
    contracts: tuple[C, ...]
    others: str = ""
    variant: str = ""
    but: Mapping[C, W] = field(default_factory=dict, hash=False)
    dependant: bool = False
    told: bool = False
    slow: bool = False


@dataclass(frozen=True)
class Cell:
    """One row on one contract."""

    row: Row
    contract: C

    @property
    def name(self) -> str:
        """`boundary × fault × contract`, with the variant if there is one."""
        fault = f"{self.row.fault} ({self.row.variant})" if self.row.variant else str(self.row.fault)
        return f"{self.row.boundary} × {fault} × {self.contract}"

    @property
    def window(self) -> W:
        """The window that the strike hits."""
        return self.row.but.get(self.contract, self.row.window)


ALL: Final = (C.KEYED, C.KEY_EXPIRED, C.UPSERT_GUARDED, C.UPSERT, C.STRONG, C.LAG_BOUND, C.LAG_UNBOUND, C.NONE)
ANY: Final = (C.KEYED,)
ENDS: Final = (C.KEYED, C.NONE)
"""The contract that can always repeat, and the one that never can."""

ROWS_DECIDE: Final = (
    "nothing of the contract is used before a dispatch: the ledger's rows decide, and one contract stands for all"
)
KEPT: Final = "the outcome is kept, so that no contract is asked: these stand for all"
NO_LOOK: Final = "these look-ups stand for all; without one nothing is looked up"
SAME_WAY: Final = "the worker lives and learns nothing: the row of the stall tries every contract in this window"

STAGE_COMMITS: Final = Trap(b"acuse.stage(", b"COMMIT")
STAGE_COMMITTED: Final = Trap(b"acuse.stage(", b"COMMIT", forwarded=True)
RELAY_PUSHES: Final = Trap(b"RPUSH")
RELAY_PUSHED: Final = Trap(b"RPUSH", forwarded=True)
RELAY_COMMITS: Final = Trap(b"delete from acuse.outbox_message", b"COMMIT")
RELAY_COMMITTED: Final = Trap(b"delete from acuse.outbox_message", b"COMMIT", forwarded=True)
FETCHED: Final = Trap(b"op_", said_by="server")
CLAIM_COMMITS: Final = Trap(b"acuse.claim(", b"COMMIT")
CLAIM_COMMITTED: Final = Trap(b"acuse.claim(", b"COMMIT", forwarded=True)
DISPATCH_COMMITS: Final = Trap(b"acuse.dispatch(", b"COMMIT")
DISPATCH_COMMITTED: Final = Trap(b"acuse.dispatch(", b"COMMIT", forwarded=True)
SETTLE_COMMITS: Final = Trap(b"acuse.settle(", b"COMMIT")
SETTLE_COMMITTED: Final = Trap(b"acuse.settle(", b"COMMIT", forwarded=True)
ACKS: Final = Trap(b"\r\nack\r\n")
ACKED: Final = Trap(b"\r\nack\r\n", forwarded=True)
RECORDS: Final = Trap(b"acuse.record_evidence(", b"COMMIT")
RECORDED: Final = Trap(b"acuse.record_evidence(", b"COMMIT", forwarded=True)

LOST_REPLY: Final = (Does.DROP_REPLY,)
"""Applied, and the worker learns nothing: it looks."""


def _line(trap: Trap, act: Act = Act.CUT, script: tuple[Does, ...] = ()) -> OnLine:
    return OnLine("worker", "database", trap, act, script)


def _at(moment: Moment, act: Act, script: tuple[Does, ...] = ()) -> AtMoment:
    return AtMoment(moment, act, script)


_INTAKE: Final = (
    Row(B.STAGE_COMMIT, F.KILL, AtStage(STAGE_COMMITS, Act.KILL), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "before"),
    Row(B.STAGE_COMMIT, F.KILL, AtStage(STAGE_COMMITTED, Act.KILL), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "after"),
    Row(B.STAGE_COMMIT, F.TERM, AtStage(STAGE_COMMITTED, Act.TERM), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.STAGE_COMMIT, F.CUT, AtStage(STAGE_COMMITS, Act.CUT), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.STAGE_COMMIT, F.COMMIT_REPLY_LOST, AtStage(STAGE_COMMITTED, Act.CUT), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.STAGE_COMMIT, F.DATABASE_RESTART, AtStage(STAGE_COMMITS, Act.RESTART_DATABASE), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
)

_RELAY: Final = (
    Row(B.RELAY_PUSH, F.KILL, OnLine("relay", "redis", RELAY_PUSHES, Act.KILL), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "before"),
    Row(B.RELAY_PUSH, F.KILL, OnLine("relay", "redis", RELAY_PUSHED, Act.KILL), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "after"),
    Row(B.RELAY_PUSH, F.TERM, OnLine("relay", "redis", RELAY_PUSHES, Act.TERM), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.RELAY_PUSH, F.CUT, OnLine("relay", "redis", RELAY_PUSHES, Act.CUT), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "before"),
    Row(B.RELAY_PUSH, F.CUT, OnLine("relay", "redis", RELAY_PUSHED, Act.CUT), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE, "after"),
    Row(
        B.RELAY_PUSH,
        F.DATABASE_RESTART,
        OnLine("relay", "redis", RELAY_PUSHED, Act.RESTART_DATABASE),
        W.BEFORE_DISPATCH,
        ANY,
        ROWS_DECIDE,
    ),
    Row(B.RELAY_PUSH, F.REDIS_RESTART, AtBroker(Act.RESTART_REDIS, fetched=False), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "before"),
    Row(
        B.RELAY_PUSH,
        F.REDIS_RESTART,
        OnLine("relay", "redis", RELAY_PUSHES, Act.RESTART_REDIS),
        W.BEFORE_DISPATCH,
        ANY,
        ROWS_DECIDE,
        "during",
    ),
    Row(B.RELAY_PUSH, F.REDIS_WIPED, OnLine("relay", "redis", RELAY_PUSHED, Act.WIPE_REDIS), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.RELAY_PUSH, F.REDIS_FULL, AtBroker(Act.FILL_REDIS, fetched=False), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(
        B.RELAY_COMMIT,
        F.KILL,
        OnLine("relay", "database", RELAY_COMMITS, Act.KILL),
        W.BEFORE_DISPATCH,
        ENDS,
        ROWS_DECIDE,
        "before",
    ),
    Row(
        B.RELAY_COMMIT,
        F.KILL,
        OnLine("relay", "database", RELAY_COMMITTED, Act.KILL),
        W.BEFORE_DISPATCH,
        ANY,
        ROWS_DECIDE,
        "after",
    ),
    Row(B.RELAY_COMMIT, F.TERM, OnLine("relay", "database", RELAY_COMMITS, Act.TERM), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.RELAY_COMMIT, F.CUT, OnLine("relay", "database", RELAY_COMMITS, Act.CUT), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(
        B.RELAY_COMMIT,
        F.COMMIT_REPLY_LOST,
        OnLine("relay", "database", RELAY_COMMITTED, Act.CUT),
        W.BEFORE_DISPATCH,
        ENDS,
        ROWS_DECIDE,
    ),
    Row(
        B.RELAY_COMMIT,
        F.DATABASE_RESTART,
        OnLine("relay", "database", RELAY_COMMITS, Act.RESTART_DATABASE),
        W.BEFORE_DISPATCH,
        ANY,
        ROWS_DECIDE,
    ),
    Row(
        B.RELAY_COMMIT,
        F.REDIS_WIPED,
        OnLine("relay", "database", RELAY_COMMITS, Act.WIPE_REDIS),
        W.BEFORE_DISPATCH,
        ANY,
        ROWS_DECIDE,
    ),
)

_FETCH: Final = (
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

_CLAIM: Final = (
    Row(B.CLAIM, F.KILL, _line(CLAIM_COMMITS, Act.KILL), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "before its COMMIT", slow=True),
    Row(B.CLAIM, F.KILL, _at(Moment.CLAIMED, Act.KILL), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE, "after"),
    Row(B.CLAIM, F.TERM, _at(Moment.CLAIMED, Act.TERM), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.CLAIM, F.CUT, _line(CLAIM_COMMITS), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.COMMIT_REPLY_LOST, _line(CLAIM_COMMITTED), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.CLAIM, F.DATABASE_RESTART, _at(Moment.CLAIMED, Act.RESTART_DATABASE), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.REDIS_RESTART, _at(Moment.CLAIMED, Act.RESTART_REDIS), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.REDIS_WIPED, _at(Moment.CLAIMED, Act.WIPE_REDIS), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.CLOCK, AtClock(600), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE, "+10"),
    Row(B.CLAIM, F.CLOCK, AtClock(-600), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE, "-10"),
    Row(B.CLAIM, F.DELIVERED_TWICE, _at(Moment.CLAIMED, Act.DELIVER_AGAIN), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.CLAIM, F.FORGED, _at(Moment.CLAIMED, Act.FORGE), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.CLAIM, F.STALLED_WORKER, _at(Moment.CLAIMED, Act.STOP), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
)

PREPARES: Final = (C.UPSERT_GUARDED, C.NONE)
TWO_PREPARES: Final = "one that asks its provider in prepare and one that asks nobody stand for all"

_PREPARE: Final = (
    Row(B.PREPARE, F.KILL, _at(Moment.PREPARED, Act.KILL), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(B.PREPARE, F.TERM, _at(Moment.PREPARED, Act.TERM), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(B.PREPARE, F.CUT, _at(Moment.PREPARED, Act.CUT), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(B.PREPARE, F.DATABASE_RESTART, _at(Moment.PREPARED, Act.RESTART_DATABASE), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(
        B.PREPARE, F.PROVIDER_STALLS, AtPort(), W.BEFORE_DISPATCH, (C.UPSERT_GUARDED,), "nobody else asks its provider in prepare"
    ),
    Row(B.PREPARE, F.DELIVERED_TWICE, _at(Moment.PREPARED, Act.DELIVER_AGAIN), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
    Row(B.PREPARE, F.STALLED_WORKER, _at(Moment.PREPARED, Act.STOP), W.BEFORE_DISPATCH, PREPARES, TWO_PREPARES),
)

_DISPATCH: Final = (
    Row(B.DISPATCH_COMMIT, F.KILL, _line(DISPATCH_COMMITS, Act.KILL), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE, "before"),
    Row(B.DISPATCH_COMMIT, F.KILL, _at(Moment.DISPATCHED, Act.KILL), W.PERHAPS_SENT, ALL, variant="after"),
    Row(B.DISPATCH_COMMIT, F.TERM, _at(Moment.DISPATCHED, Act.TERM), W.KNOWN_UNSENT, ENDS, KEPT),
    Row(B.DISPATCH_COMMIT, F.CUT, _line(DISPATCH_COMMITS), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.DISPATCH_COMMIT, F.COMMIT_REPLY_LOST, _line(DISPATCH_COMMITTED), W.KNOWN_UNSENT, ALL),
    Row(B.DISPATCH_COMMIT, F.DATABASE_RESTART, _at(Moment.DISPATCHED, Act.RESTART_DATABASE), W.RECEIPT, ENDS, KEPT),
    Row(B.DISPATCH_COMMIT, F.REDIS_WIPED, _at(Moment.DISPATCHED, Act.WIPE_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.DISPATCH_COMMIT, F.DELIVERED_TWICE, _at(Moment.DISPATCHED, Act.DELIVER_AGAIN), W.RECEIPT, ENDS, KEPT),
    Row(B.DISPATCH_COMMIT, F.FORGED, _at(Moment.DISPATCHED, Act.FORGE), W.RECEIPT, ANY, KEPT),
    Row(B.DISPATCH_COMMIT, F.STALLED_WORKER, _at(Moment.DISPATCHED, Act.STOP), W.UNSENT_LATE, ALL),
)

_CALL: Final = (
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
    Row(B.REPLY_RECEIVED, F.KILL, _at(Moment.ANSWERED, Act.KILL), W.APPLIED, ALL),
    Row(B.REPLY_RECEIVED, F.TERM, _at(Moment.ANSWERED, Act.TERM), W.RECEIPT, ENDS, KEPT),
    Row(B.REPLY_RECEIVED, F.CUT, _at(Moment.ANSWERED, Act.CUT), W.RECEIPT, ENDS, KEPT),
    Row(B.REPLY_RECEIVED, F.DATABASE_RESTART, _at(Moment.ANSWERED, Act.RESTART_DATABASE), W.RECEIPT, ENDS, KEPT),
    Row(B.REPLY_RECEIVED, F.REDIS_WIPED, _at(Moment.ANSWERED, Act.WIPE_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.REPLY_RECEIVED, F.DELIVERED_TWICE, _at(Moment.ANSWERED, Act.DELIVER_AGAIN), W.RECEIPT, ENDS, KEPT),
    Row(B.REPLY_RECEIVED, F.FORGED, _at(Moment.ANSWERED, Act.FORGE), W.RECEIPT, ANY, KEPT),
    Row(B.REPLY_RECEIVED, F.STALLED_WORKER, _at(Moment.ANSWERED, Act.STOP), W.TOLD_LATE, ALL),
)

_SETTLE: Final = (
    Row(B.SETTLE_COMMIT, F.KILL, _line(SETTLE_COMMITS, Act.KILL), W.APPLIED, (*ENDS, C.KEY_EXPIRED, C.STRONG), NO_LOOK, "before"),
    Row(B.SETTLE_COMMIT, F.KILL, _line(SETTLE_COMMITTED, Act.KILL), W.RECEIPT, ENDS, KEPT, "after"),
    Row(B.SETTLE_COMMIT, F.TERM, _line(SETTLE_COMMITS, Act.TERM), W.RECEIPT, ENDS, KEPT),
    Row(B.SETTLE_COMMIT, F.CUT, _line(SETTLE_COMMITS), W.RECEIPT, ENDS, KEPT),
    Row(B.SETTLE_COMMIT, F.COMMIT_REPLY_LOST, _line(SETTLE_COMMITTED), W.RECEIPT, (*ENDS, C.UPSERT_GUARDED), KEPT),
    Row(B.SETTLE_COMMIT, F.DATABASE_RESTART, _line(SETTLE_COMMITS, Act.RESTART_DATABASE), W.RECEIPT, ENDS, KEPT),
    Row(B.ACK, F.KILL, _at(Moment.SETTLED, Act.KILL), W.RECEIPT, ENDS, KEPT),
    Row(B.ACK, F.TERM, OnLine("worker", "redis", ACKS, Act.TERM), W.RECEIPT, ANY, KEPT),
    Row(B.ACK, F.CUT, OnLine("worker", "redis", ACKS, Act.CUT), W.RECEIPT, ENDS, KEPT, "before"),
    Row(B.ACK, F.CUT, OnLine("worker", "redis", ACKED, Act.CUT), W.RECEIPT, ANY, KEPT, "after"),
    Row(B.ACK, F.REDIS_RESTART, _at(Moment.SETTLED, Act.RESTART_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.ACK, F.REDIS_WIPED, _at(Moment.SETTLED, Act.WIPE_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.ACK, F.REDIS_FULL, _at(Moment.SETTLED, Act.FILL_REDIS), W.RECEIPT, ANY, KEPT),
    Row(B.ACK, F.DELIVERED_TWICE, _at(Moment.SETTLED, Act.DELIVER_AGAIN), W.RECEIPT, ENDS, KEPT),
    Row(B.ACK, F.FORGED, _at(Moment.SETTLED, Act.FORGE), W.RECEIPT, ANY, KEPT),
)

LOOKS: Final = (C.KEYED, C.UPSERT_GUARDED, C.LAG_UNBOUND)

_EVIDENCE: Final = (
    Row(
        B.LOOK_UP,
        F.KILL,
        _at(Moment.LOOKED, Act.KILL, LOST_REPLY),
        W.APPLIED,
        (*LOOKS, C.KEY_EXPIRED, C.STRONG),
        NO_LOOK,
    ),
    Row(B.LOOK_UP, F.TERM, _at(Moment.LOOKED, Act.TERM, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.LOOK_UP, F.CUT, _at(Moment.LOOKED, Act.CUT, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.LOOK_UP, F.DATABASE_RESTART, _at(Moment.LOOKED, Act.RESTART_DATABASE, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.LOOK_UP, F.REDIS_WIPED, _at(Moment.LOOKED, Act.WIPE_REDIS, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.LOOK_UP, F.CLOCK, AtClock(600, AtCall("after_apply", Act.KILL)), W.APPLIED, ALL, variant="+10"),
    Row(B.LOOK_UP, F.CLOCK, AtClock(-600, AtCall("after_apply", Act.KILL)), W.APPLIED, ALL, variant="-10"),
    Row(B.LOOK_UP, F.CLOCK, AtClock(600, _at(Moment.DISPATCHED, Act.KILL)), W.PERHAPS_SENT, ALL, variant="+10, unsent"),
    Row(B.LOOK_UP, F.DELIVERED_TWICE, _at(Moment.LOOKED, Act.DELIVER_AGAIN, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.LOOK_UP, F.FORGED, _at(Moment.LOOKED, Act.FORGE, LOST_REPLY), W.APPLIED_ALIVE, (C.UPSERT_GUARDED,), NO_LOOK),
    Row(B.LOOK_UP, F.STALLED_WORKER, _at(Moment.LOOKED, Act.STOP, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.EVIDENCE_COMMIT, F.KILL, _line(RECORDS, Act.KILL, LOST_REPLY), W.APPLIED, LOOKS, NO_LOOK, "before"),
    Row(B.EVIDENCE_COMMIT, F.KILL, _at(Moment.RECORDED, Act.KILL, LOST_REPLY), W.APPLIED, LOOKS, NO_LOOK, "after"),
    Row(B.EVIDENCE_COMMIT, F.TERM, _at(Moment.RECORDED, Act.TERM, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.EVIDENCE_COMMIT, F.CUT, _line(RECORDS, script=LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(B.EVIDENCE_COMMIT, F.COMMIT_REPLY_LOST, _line(RECORDED, script=LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
    Row(
        B.EVIDENCE_COMMIT,
        F.DATABASE_RESTART,
        _at(Moment.RECORDED, Act.RESTART_DATABASE, LOST_REPLY),
        W.APPLIED_ALIVE,
        (C.UPSERT_GUARDED,),
        NO_LOOK,
    ),
    Row(B.EVIDENCE_COMMIT, F.STALLED_WORKER, _at(Moment.RECORDED, Act.STOP, LOST_REPLY), W.APPLIED_ALIVE, LOOKS, NO_LOOK),
)

_AFTER: Final = tuple(
    Row(B.RELEASE, fault, strike, W.RECEIPT, (C.UPSERT_GUARDED,), KEPT, variant, dependant=True)
    for fault, variant, strike in (
        (F.KILL, "after", _line(SETTLE_COMMITTED, Act.KILL)),
        (F.KILL, "found, not decided", _at(Moment.RECORDED, Act.KILL, LOST_REPLY)),
        (F.TERM, "", _at(Moment.SETTLED, Act.TERM)),
        (F.CUT, "", _line(SETTLE_COMMITS)),
        (F.COMMIT_REPLY_LOST, "", _line(SETTLE_COMMITTED)),
        (F.DATABASE_RESTART, "", _at(Moment.SETTLED, Act.RESTART_DATABASE)),
        (F.REDIS_RESTART, "", _at(Moment.SETTLED, Act.RESTART_REDIS)),
        (F.REDIS_WIPED, "", _at(Moment.SETTLED, Act.WIPE_REDIS)),
        (F.DELIVERED_TWICE, "", _at(Moment.SETTLED, Act.DELIVER_AGAIN)),
        (F.STALLED_WORKER, "", _at(Moment.ANSWERED, Act.STOP)),
    )
) + tuple(
    Row(B.SETTLED_MESSAGE, fault, strike, W.RECEIPT, (C.UPSERT_GUARDED,), KEPT, variant, told=True)
    for fault, variant, strike in (
        (F.KILL, "of the worker", _line(SETTLE_COMMITTED, Act.KILL)),
        (F.KILL, "of the relay", OnLine("relay", "database", Trap(b"faults-host", b"COMMIT"), Act.KILL)),
        (F.COMMIT_REPLY_LOST, "", _line(SETTLE_COMMITTED)),
        (F.CUT, "", _line(SETTLE_COMMITS)),
        (F.DATABASE_RESTART, "", _line(SETTLE_COMMITS, Act.RESTART_DATABASE)),
        (F.STALLED_WORKER, "", _at(Moment.ANSWERED, Act.STOP)),
    )
)

ROWS: Final = (*_INTAKE, *_RELAY, *_FETCH, *_CLAIM, *_PREPARE, *_DISPATCH, *_CALL, *_SETTLE, *_EVIDENCE, *_AFTER)


def cells() -> Iterator[Cell]:
    """Every cell, in the order of an operation's life."""
    return (Cell(row, contract) for row in ROWS for contract in row.contracts)
