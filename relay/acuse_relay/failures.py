"""Failures in a row of a loop that must not end: logged, waited out with jitter, forgotten when work succeeds again."""

from collections.abc import Callable
from random import random
from threading import Event

import structlog
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from acuse_relay.queue.port import QueueUnavailable

__all__ = ["Failures", "pause_after"]

_log = structlog.get_logger("acuse.relay")

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
"""A broker that is back is noticed within this; one that is away is asked no more often."""


def pause_after(failures: int, draw: Callable[[], float] = random) -> float:
    """Seconds to wait after so many failures in a row (1, 2, …): doubled each time up to the longest.

    `draw`, from 0 to 1, takes 50 to 100 % of that. It keeps many relays from coming back at the same moment.
    """
    longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(max(failures, 1) - 1, 16))
    return longest * (0.5 + draw() / 2)


class Failures:
    """Counts the failures in a row of one loop. `name` stands in its log lines."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.in_a_row = 0

    def over(self) -> None:
        """Work succeeded."""
        if self.in_a_row:
            _log.info(f"{self._name}.recovered", failures=self.in_a_row)
            self.in_a_row = 0

    def wait_out(self, error: Exception, stop: Event) -> None:
        """Log the failure and wait, or until `stop` is set."""
        self.in_a_row += 1
        expected = isinstance(error, QueueUnavailable | SQLAlchemyError)
        # What nobody expected is a mistake of ours: it gets its traceback, and the loop goes on all the same.
        _log.warning(f"{self._name}.failed", error=brief(error), failures=self.in_a_row, exc_info=None if expected else error)
        stop.wait(pause_after(self.in_a_row))


def brief(error: Exception) -> str:
    """Name an error in one line without a value: SQLAlchemy's text quotes parameters, the server's details quote a row."""
    if isinstance(error, DBAPIError):
        lines = str(error.orig).splitlines() or [""]
        return f"{type(error.orig).__name__}: {lines[0]}"
    return str(error) if isinstance(error, QueueUnavailable) else type(error).__name__
