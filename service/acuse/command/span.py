"""Spans of time at a terminal: a number and a unit."""

import re
from datetime import timedelta

from acuse.errors import InvalidField

__all__ = ["span"]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def span(text: str, field: str) -> timedelta:
    """Read `90m`. Raises `InvalidField` that names `field`."""
    found = re.fullmatch(r"([1-9]\d{0,5})([smhd])", text)
    if found is None:
        raise InvalidField(field=field, reason="must be a number with s, m, h or d, like 90m")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
