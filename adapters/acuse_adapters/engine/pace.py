"""When to come again. The pure waits of the protocol, with the jitter that keeps many workers from coming at once."""

import random
from datetime import timedelta

from acuse.protocol import FIRST_TRY, LONGEST_TRY, NotSent, Outcome, backoff, come_again
from acuse.protocol import account_rest as rest

__all__ = ["FULL_BACKOFF", "after", "not_mine", "rest", "undispatched", "unprepared"]

FULL_BACKOFF = 10
"""Tries after which the back-off has reached its longest."""

NOT_MINE = timedelta(seconds=30)


def after(outcome: Outcome, attempts: int) -> timedelta:
    """Return when to come again after an outcome that does not settle."""
    return _jittered(come_again(outcome, attempts))


def unprepared(failure: NotSent, handovers: int) -> timedelta:
    """Return when to come again after a failed prepare, the claim being the n-th since the last progress."""
    if failure.retry_after is not None:
        return _jittered(max(failure.retry_after, FIRST_TRY))
    return undispatched(handovers)


def undispatched(handovers: int) -> timedelta:
    """Return when to come again after a claim that led to no dispatch through nobody's gate."""
    return _jittered(backoff(handovers - 1, first=FIRST_TRY, longest=LONGEST_TRY))


def not_mine() -> timedelta:
    """Return when to offer an operation again whose action this worker does not know: another version may."""
    return _jittered(NOT_MINE)


def _jittered(wait: timedelta) -> timedelta:
    return wait * random.uniform(0.8, 1.2)  # noqa: S311  # jitter, not a secret
