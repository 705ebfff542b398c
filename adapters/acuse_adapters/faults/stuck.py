"""Waiting for a fact, with an end to the patience."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
from sqlalchemy.exc import DBAPIError

__all__ = ["PATIENCE_SECONDS", "Stuck", "until"]

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.05


class Stuck(Exception):  # noqa: N818  # names state the fact
    """A strike could not be made, or a cell never came to rest. The text says where."""


def until(fact: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:  # noqa: ANN401
    """Return what `fact` returns as soon as it is true. A database or a broker that is away is asked again. Raises `Stuck`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(DBAPIError, redis.ConnectionError):
            if value := fact():
                return value
        time.sleep(POLL_SECONDS)
    raise Stuck(f"waited {seconds:.0f} s in vain: {what}")
