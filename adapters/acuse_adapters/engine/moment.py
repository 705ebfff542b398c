"""Named moments in the life of an attempt, for tests that stop the world there. In production they cost an await of nothing."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

__all__ = ["Moment", "Moments", "nothing"]


class Moment(StrEnum):
    """Where a test may hold or kill a worker."""

    CLAIMED = "claimed"
    PREPARED = "prepared"  # the pin is in hand; nothing is dispatched
    DISPATCHED = "dispatched"  # committed; no byte has left
    ANSWERED = "answered"  # the outcome is in hand; nothing is saved
    SETTLED = "settled"  # saved; the message is not acknowledged yet
    LOOKED = "looked"  # the finding is in hand; nothing is recorded
    RECORDED = "recorded"  # the finding is committed; nothing is decided


Moments = Callable[[Moment, Any], Awaitable[None]]


async def nothing(_moment: Moment, _what: Any) -> None:  # noqa: ANN401  # a claimed operation, or several
    """Do nothing."""
