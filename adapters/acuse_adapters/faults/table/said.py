"""What many rows say: whom they are tried on, why not on others, and how a worker is struck."""

from typing import Final

from acuse_adapters.engine import Moment
from acuse_adapters.faults.line import Trap
from acuse_adapters.faults.strike import Act, AtMoment, OnLine
from acuse_adapters.faults.words import Contract as C  # noqa: N817
from acuse_adapters.simulators.fault import Fault as Does

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
LOST_REPLY: Final = (Does.DROP_REPLY,)
"""Applied, and the worker learns nothing: it looks."""
REFUSES: Final = (Does.REFUSE_AT_DOT,)
SETTLE_COMMITS: Final = Trap(b"acuse.settle(", b"COMMIT")
SETTLE_COMMITTED: Final = Trap(b"acuse.settle(", b"COMMIT", forwarded=True)


def line(trap: Trap, act: Act = Act.CUT, script: tuple[Does, ...] = ()) -> OnLine:
    """A worker at words that it says to the database."""
    return OnLine("worker", "database", trap, act, script)


def at(moment: Moment, act: Act, script: tuple[Does, ...] = ()) -> AtMoment:
    """A worker at a moment of its own."""
    return AtMoment(moment, act, script)
