"""What staging answers."""

from dataclasses import dataclass

from acuse.protocol import State

__all__ = ["Published", "Staged"]


@dataclass(frozen=True, slots=True)
class Staged:
    """The operation that stands for an intent; true once the caller's transaction is committed.

    operation_id: `op_…`. created: this call made it; else it was there before, and `state` and `result_id` are its own.
    in_doubt: another call of the same workflow asked for the same, and that one's end is not known yet: nothing was staged, and
    `operation_id` is the other one.
    """

    operation_id: str
    created: bool
    in_doubt: bool
    state: State
    result_id: str | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """An event and the operations that its routes made, in the order of the plan.

    event_id: `evt_…`. created: this call made it; else the event was published before, and the operations are those of then.
    """

    event_id: str
    created: bool
    operations: tuple[Staged, ...] = ()
