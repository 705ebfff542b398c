"""Moments out of the database. The driver hands out the zone of the session."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, text

__all__ = ["database_now", "in_utc"]

_NOW = text("select clock_timestamp()")


def database_now(connection: Connection) -> datetime:
    """Return the moment, by the clock that decides."""
    now: datetime = connection.execute(_NOW).scalar_one()
    return now


def in_utc(value: Any) -> Any:  # noqa: ANN401 - a column of a row
    """Return a moment in UTC, and anything else as it is."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
