"""Moments out of the database. The driver hands out the zone of the session."""

from datetime import UTC, datetime
from typing import Any

__all__ = ["in_utc"]


def in_utc(value: Any) -> Any:  # noqa: ANN401 - a column of a row
    """Return a moment in UTC, and anything else as it is."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
