"""Our own connections: READ COMMITTED whatever the database says, a name that people can find, a clear error for a bad URL.

One whose server has vanished is given up within seconds (`acuse.keepalive`).
"""

from typing import TYPE_CHECKING

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from acuse.errors import ConfigurationError
from acuse.keepalive import libpq_keepalive

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["async_engine", "sync_engine"]

POOL_TIMEOUT_SECONDS = 10
"""Longer than any of our transactions takes; before dispatch a wait this long leaves the operation prepared."""


def sync_engine(url: str, *, pool_size: int = 5, name: str = "acuse") -> Engine:
    """Return an engine for loops and commands. Raises `ConfigurationError` for a URL that is not PostgreSQL with psycopg."""
    checked = _checked(url)
    return create_engine(checked, **_options(checked, pool_size, name))


def async_engine(url: str, *, pool_size: int = 5, name: str = "acuse") -> "AsyncEngine":
    """Return an engine for workers. Raises `ConfigurationError` for a URL that is not PostgreSQL with psycopg."""
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 - needs greenlet, which a host may do without

    checked = _checked(url)
    return create_async_engine(checked, **_options(checked, pool_size, name))


def _options(url: URL, pool_size: int, name: str) -> dict[str, object]:
    # What the URL itself says of a vanished server is meant.
    keepalive = {key: value for key, value in libpq_keepalive().items() if key not in url.query}
    return {
        # Every guarded statement re-reads a row after waiting for its lock; REPEATABLE READ would fail it with 40001 instead.
        "isolation_level": "READ COMMITTED",
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": POOL_TIMEOUT_SECONDS,
        "pool_pre_ping": True,
        "hide_parameters": True,  # an error's text goes into logs, and parameters hold what may not
        "connect_args": {
            "application_name": name,
            # A statement that the server keeps fails once a migration has changed the type of a column that it returns ("cached
            # plan must not change result type"), and behind a pooler in transaction mode it is another session's.
            "prepare_threshold": None,
            **keepalive,
        },
    }


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError("database_url is no URL: give postgresql+psycopg://user:password@host:port/database") from None
    if parsed.get_backend_name() != "postgresql":
        raise ConfigurationError(f"database_url names {parsed.get_backend_name()}: Acuse needs PostgreSQL 15 or newer")
    return parsed.set(drivername="postgresql+psycopg")
