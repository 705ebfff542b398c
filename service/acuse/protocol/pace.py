"""When to come again after an outcome that does not settle, and how long an account rests. Whoever schedules adds jitter."""

from datetime import timedelta

from acuse.protocol.backoff import backoff
from acuse.protocol.outcome import Concerns, NotSent, Outcome

__all__ = ["FIRST_TRY", "LONGEST_TRY", "account_rest", "come_again"]

FIRST_TRY = timedelta(milliseconds=500)
LONGEST_TRY = timedelta(minutes=5)

LOOK_AFTER = timedelta(seconds=1)
"""The first look after an ambiguous answer: most late answers have been applied by then."""

ACCOUNT_PAUSE = timedelta(seconds=5)
"""How long an account rests after a fault of its own (401, suspended): the pause is taken again while the fault lasts."""

LONGEST_REST = timedelta(minutes=15)
"""A whole account rests no longer than this on one answer's word."""


def come_again(outcome: Outcome, attempts: int) -> timedelta:
    """Return when to come again after an outcome that does not settle; `attempts` counts this one."""
    if isinstance(outcome, NotSent):
        if outcome.retry_after is not None:
            return max(outcome.retry_after, FIRST_TRY)
        return backoff(attempts - 1, first=FIRST_TRY, longest=LONGEST_TRY)
    return LOOK_AFTER


def account_rest(failure: NotSent) -> timedelta | None:
    """Return how long the whole account is to rest after a failure; None: not at all.

    A provider's Retry-After is meant for everybody who comes with the same credentials, unless it speaks of one request.
    """
    if failure.account_fault:
        return min(failure.retry_after or ACCOUNT_PAUSE, LONGEST_REST)
    if not failure.retry_after or failure.concerns is Concerns.OPERATION:
        return None
    return min(failure.retry_after, LONGEST_REST)
