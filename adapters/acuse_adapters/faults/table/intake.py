"""Until the intent is with the broker: stage, relay."""

from typing import Final

from acuse_adapters.faults.line import Trap
from acuse_adapters.faults.strike import Act, AtBroker, AtStage, OnLine
from acuse_adapters.faults.table.row import Row
from acuse_adapters.faults.table.said import ANY, ENDS, ROWS_DECIDE
from acuse_adapters.faults.words import Boundary as B  # noqa: N817
from acuse_adapters.faults.words import Fault as F  # noqa: N817
from acuse_adapters.faults.words import Window as W  # noqa: N817

__all__ = ["INTAKE", "RELAY"]

STAGE_COMMITS: Final = Trap(b"acuse.stage(", b"COMMIT")
STAGE_COMMITTED: Final = Trap(b"acuse.stage(", b"COMMIT", forwarded=True)
RELAY_PUSHES: Final = Trap(b"RPUSH")
RELAY_PUSHED: Final = Trap(b"RPUSH", forwarded=True)
RELAY_COMMITS: Final = Trap(b"delete from acuse.outbox_message", b"COMMIT")
RELAY_COMMITTED: Final = Trap(b"delete from acuse.outbox_message", b"COMMIT", forwarded=True)

INTAKE: Final = (
    Row(B.STAGE_COMMIT, F.KILL, AtStage(STAGE_COMMITS, Act.KILL), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "before"),
    Row(B.STAGE_COMMIT, F.KILL, AtStage(STAGE_COMMITTED, Act.KILL), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE, "after"),
    Row(B.STAGE_COMMIT, F.TERM, AtStage(STAGE_COMMITTED, Act.TERM), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.STAGE_COMMIT, F.CUT, AtStage(STAGE_COMMITS, Act.CUT), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
    Row(B.STAGE_COMMIT, F.COMMIT_REPLY_LOST, AtStage(STAGE_COMMITTED, Act.CUT), W.BEFORE_DISPATCH, ENDS, ROWS_DECIDE),
    Row(B.STAGE_COMMIT, F.DATABASE_RESTART, AtStage(STAGE_COMMITS, Act.RESTART_DATABASE), W.BEFORE_DISPATCH, ANY, ROWS_DECIDE),
)

RELAY: Final = (
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
