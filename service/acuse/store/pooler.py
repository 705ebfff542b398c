"""What stands between us and PostgreSQL: nothing, or a pooler (pgbouncer), which may run each transaction in another session.

Nothing of Acuse needs a session: settings and locks are the transaction's own, and statements are not prepared
(`acuse.store.engine`). So what is noticed here is for people to know, at start-up and from `acuse doctor`.
"""

from enum import Enum

from sqlalchemy import Connection, Engine, text

__all__ = ["Between", "look_between"]

LOOKS = 4
"""Transactions on each of two connections. A pooler hands out first the session that came back last, so that one tells."""

_SESSION = text("select pg_backend_pid()")


class Between(Enum):
    """What was noticed, in words for people."""

    NOTHING = "straight to PostgreSQL"
    POOLER = "behind a pooler; as far as seen, a session lasts as long as its connection"
    TRANSACTION_POOLER = (
        "behind a pooler in transaction mode: every transaction may run in another session, and Acuse needs none; "
        "a host's own connections must not prepare statements (psycopg: prepare_threshold=None, asyncpg: statement_cache_size=0)"
    )


def look_between(engine: Engine) -> Between:
    """Notice what stands between. Takes two connections of the engine for a few round trips.

    A server tells each connection the number of its process at login, for a cancel to find its way. A pooler makes a number up,
    for the same reason. Two connections that one process served while both were open share sessions by the transaction.
    """
    with engine.connect() as connection:
        if _told(connection) == _serving(connection):
            return Between.NOTHING
        with engine.connect() as other:
            return _mode(connection, other)


def _mode(connection: Connection, other: Connection) -> Between:
    mine, others = set[int](), set[int]()
    turns = [(connection, mine), (other, others)]
    for _ in range(LOOKS):
        for asked, met in turns:
            met.add(_serving(asked))
        turns.reverse()  # or a neighbour that comes as regularly could make it look as if each had a session of its own
        if mine & others or max(len(mine), len(others)) > 1:
            return Between.TRANSACTION_POOLER
    return Between.POOLER


def _told(connection: Connection) -> int:
    driver = connection.connection.driver_connection
    assert driver is not None
    number: int = driver.info.backend_pid
    return number


def _serving(connection: Connection) -> int:
    """The process that serves one transaction."""
    number: int = connection.execute(_SESSION).scalar_one()
    connection.rollback()
    return number
