"""One statement on whatever connection the caller holds, in the caller's own transaction. It is never committed here.

Drivers that need not be installed are recognised by the module of their classes and never imported.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from acuse.errors import ConfigurationError, RetryTransaction, SchemaMismatch
from acuse.store.failure import sqlstate_of
from acuse.store.handshake import SCHEMA
from acuse.store.statement import Statement

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

__all__ = ["AsyncCaller", "AsyncpgLike", "Caller", "Row", "StandIn", "run", "run_async"]

Row: TypeAlias = tuple[Any, ...]


class StandIn:
    """A connection that is none, for a host's tests without a server: it answers our statements itself (see `acuse.testing`)."""

    def answer(self, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
        """Return the rows that a database would return for `statement`."""
        raise NotImplementedError


Caller: TypeAlias = Session | scoped_session[Any] | Connection | psycopg.Connection[Any] | psycopg.Cursor[Any] | StandIn
"""What a synchronous face takes."""


class AsyncpgLike(Protocol):
    """`asyncpg.Connection`, or the one that an asyncpg pool lends."""

    def is_in_transaction(self) -> bool: ...

    async def fetch(self, query: str, *args: Any) -> Sequence[Any]: ...  # noqa: ANN401 - as asyncpg has it


AsyncCaller: TypeAlias = (
    "AsyncSession | async_scoped_session[Any] | AsyncConnection | psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any]"
    " | AsyncpgLike | StandIn"
)
"""What an asynchronous face takes."""

_KINDS: Final = "a SQLAlchemy Session, scoped_session or Connection, or a psycopg Connection or Cursor"
_ASYNC_KINDS: Final = (
    "a SQLAlchemy AsyncSession, async_scoped_session or AsyncConnection, a psycopg AsyncConnection or AsyncCursor, "
    "or an asyncpg Connection"
)
_RETRIABLE: Final = ("40001", "40P01")  # serialization failure, deadlock
_NO_SCHEMA: Final = "3F000"
_NO_RIGHT: Final = "42501"
_PREPARE: Final = False  # behind a pooler the next transaction may run in a session that does not know the prepared statement


def run(caller: Caller, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
    """Run `statement` where the caller is, and return its rows.

    Raises `TypeError` for something else than a `Caller`, `ConfigurationError` for a connection that commits each statement by
    itself, `RetryTransaction`, and whatever else the driver raises.
    """
    if isinstance(caller, StandIn):
        return caller.answer(statement, values)
    if isinstance(caller, Session | scoped_session):
        caller = caller.connection()
    if isinstance(caller, psycopg.Cursor):
        caller = caller.connection  # with a cursor of our own: the caller's may hold rows that are not read yet
    if isinstance(caller, Connection):
        return _on_sqlalchemy(caller, statement, values)
    if isinstance(caller, psycopg.Connection):
        _refuse_autocommit(_commits_by_itself(caller))
        with _translated(), psycopg.Cursor(caller, row_factory=tuple_row) as cursor:
            return cursor.execute(statement.psycopg, values, prepare=_PREPARE).fetchall()
    raise _unusable(caller, _KINDS)


async def run_async(caller: AsyncCaller, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
    """`run`, for asynchronous connections."""
    if isinstance(caller, StandIn):
        return caller.answer(statement, values)
    if _is_async_session(caller):
        caller = await caller.connection()
    if isinstance(caller, psycopg.AsyncCursor):
        caller = caller.connection
    if _is_async_connection(caller):
        return await caller.run_sync(_on_sqlalchemy, statement, values)
    if isinstance(caller, psycopg.AsyncConnection):
        _refuse_autocommit(_commits_by_itself(caller))
        with _translated():
            async with psycopg.AsyncCursor(caller, row_factory=tuple_row) as cursor:
                await cursor.execute(statement.psycopg, values, prepare=_PREPARE)
                return await cursor.fetchall()
    if _is_asyncpg(caller):
        _refuse_autocommit(not caller.is_in_transaction())
        with _translated():
            return [tuple(row) for row in await caller.fetch(statement.asyncpg, *statement.in_order(values))]
    raise _unusable(caller, _ASYNC_KINDS)


def _on_sqlalchemy(connection: Connection, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
    # Every PostgreSQL driver below SQLAlchemy says so in this attribute; asking the server would be a statement more.
    _refuse_autocommit(getattr(connection.connection.dbapi_connection, "autocommit", False) is True)
    with _translated():
        return [tuple(row) for row in connection.execute(statement.sqlalchemy, dict(values))]


def _commits_by_itself(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    # Inside `with connection.transaction():` an autocommit connection is in a transaction like any other.
    return connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _refuse_autocommit(commits_by_itself: bool) -> None:
    if commits_by_itself:
        raise ConfigurationError(
            "this connection commits each statement by itself, so that nothing would be in one transaction with your change; "
            "begin a transaction on it first"
        )


def _is_async_session(caller: object) -> "TypeGuard[AsyncSession | async_scoped_session[Any]]":
    # SQLAlchemy's asyncio needs greenlet, which a host without it does not have; whoever holds one of these has loaded it.
    asyncio = sys.modules.get("sqlalchemy.ext.asyncio")
    return asyncio is not None and isinstance(caller, asyncio.AsyncSession | asyncio.async_scoped_session)


def _is_async_connection(caller: object) -> "TypeGuard[AsyncConnection]":
    asyncio = sys.modules.get("sqlalchemy.ext.asyncio")
    return asyncio is not None and isinstance(caller, asyncio.AsyncConnection)


def _is_asyncpg(caller: object) -> TypeGuard[AsyncpgLike]:
    # A pool lends a proxy that is no subclass of asyncpg.Connection.
    return any(kind.__module__.partition(".")[0] == "asyncpg" for kind in type(caller).__mro__) and hasattr(
        caller, "is_in_transaction"
    )


def _unusable(caller: object, kinds: str) -> TypeError:
    return TypeError(
        f"expected the connection of your own transaction: {kinds}; got {type(caller).__module__}.{type(caller).__qualname__}"
    )


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        state = sqlstate_of(error)
        if state in _RETRIABLE:
            raise RetryTransaction(sqlstate=state) from error
        if state == _NO_SCHEMA:
            raise SchemaMismatch(found=None, wanted=SCHEMA) from error
        if state == _NO_RIGHT:
            raise ConfigurationError(
                "this role may not use the ledger; grant it usage on schema acuse and execute on the functions in it, "
                "and for reading select on its tables"
            ) from error
        raise
