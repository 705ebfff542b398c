"""When to come again. The pure back-off of the protocol, with the jitter that keeps many workers from coming at once."""

import random
from datetime import timedelta

from acuse.protocol import Concerns, NotSent, Outcome, backoff

__all__ = ["ACCOUNT_PAUSE", "FULL_BACKOFF", "LONGEST_REST", "after", "not_mine", "rest", "undispatched", "unprepared"]

FIRST = timedelta(milliseconds=500)
LONGEST = timedelta(minutes=5)

FULL_BACKOFF = 10
"""Tries after which the back-off has reached its longest."""

LOOK_AFTER = timedelta(seconds=1)
"""The first look after an ambiguous answer: most late answers have been applied by then."""

ACCOUNT_PAUSE = timedelta(seconds=5)
"""How long an account rests after a fault of its own (401, suspended): the pause is taken again while the fault lasts."""

LONGEST_REST = timedelta(minutes=15)
"""A whole account rests no longer than this on one answer's word."""

NOT_MINE = timedelta(seconds=30)


def after(outcome: Outcome, attempts: int) -> timedelta:
    """Return when to come again after an outcome that does not settle."""
    if isinstance(outcome, NotSent):
        if outcome.retry_after is not None:
            return _jittered(max(outcome.retry_after, FIRST))
        return _jittered(backoff(attempts - 1, first=FIRST, longest=LONGEST))
    return _jittered(LOOK_AFTER)


def rest(failure: NotSent) -> timedelta | None:
    """Return how long the whole account is to rest after a failure; None: not at all.

    A provider's Retry-After is meant for everybody who comes with the same credentials, unless it speaks of one request.
    """
    if failure.account_fault:
        return min(failure.retry_after or ACCOUNT_PAUSE, LONGEST_REST)
    if not failure.retry_after or failure.concerns is Concerns.OPERATION:
        return None
    return min(failure.retry_after, LONGEST_REST)


def unprepared(failure: NotSent, handovers: int) -> timedelta:
    """Return when to come again after a failed prepare, the claim being the n-th since the last progress."""
    if failure.retry_after is not None:
        return _jittered(max(failure.retry_after, FIRST))
    return undispatched(handovers)


def undispatched(handovers: int) -> timedelta:
    """Return when to come again after a claim that led to no dispatch through nobody's gate."""
    return _jittered(backoff(handovers - 1, first=FIRST, longest=LONGEST))


def not_mine() -> timedelta:
    """Return when to offer an operation again whose action this worker does not know: another version may."""
    return _jittered(NOT_MINE)


def _jittered(wait: timedelta) -> timedelta:
    return wait * random.uniform(0.8, 1.2)  # noqa: S311  # jitter, not a secret
