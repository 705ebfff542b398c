"""The drivers of hosts: each opens a transaction and hands out what the host holds then."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import asyncpg
import psycopg
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from pooler import WANTED


class Held(NamedTuple):
    """What the host holds, and what it does with it; for asynchronous drivers all three are awaited."""

    caller: Any
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


UNPREPARED: dict[str, Any] = {"statement_cache_size": 0} if WANTED else {}
"""What a host tells asyncpg behind a pooler in transaction mode."""

Opener: TypeAlias = Callable[[str], AbstractContextManager[Held]]
AsyncOpener: TypeAlias = Callable[[str], AbstractAsyncContextManager[Held]]


def libpq(url: str) -> str:
    """The URL without SQLAlchemy's driver in it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def sqlalchemy_connection(url: str) -> Iterator[Held]:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        yield Held(connection, lambda sql: connection.execute(text(sql)), connection.commit, connection.rollback)


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[Held]:
    with Session(create_engine(url, poolclass=NullPool)) as session:
        yield Held(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)


@contextmanager
def sqlalchemy_scoped_session(url: str) -> Iterator[Held]:
    session = scoped_session(sessionmaker(create_engine(url, poolclass=NullPool)))
    yield Held(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    session.remove()


@contextmanager
def psycopg_connection(url: str) -> Iterator[Held]:
    # A host may have its own row factory, and its own way of marking parameters.
    with psycopg.connect(libpq(url), row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.RawCursor) as connection:
        yield Held(connection, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback)
        connection.rollback()


@contextmanager
def psycopg_cursor(url: str) -> Iterator[Held]:
    with psycopg.connect(libpq(url)) as connection, connection.cursor() as cursor:
        yield Held(cursor, lambda sql: cursor.execute(sql.encode()), connection.commit, connection.rollback)
        connection.rollback()


@asynccontextmanager
async def async_session(url: str) -> AsyncIterator[Held]:
    async with AsyncSession(create_async_engine(url, poolclass=NullPool)) as session:
        yield Held(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)


@asynccontextmanager
async def async_scoped(url: str) -> AsyncIterator[Held]:
    session = async_scoped_session(async_sessionmaker(create_async_engine(url, poolclass=NullPool)), scopefunc=lambda: 1)
    yield Held(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    await session.remove()


@asynccontextmanager
async def async_connection(url: str) -> AsyncIterator[Held]:
    async with create_async_engine(url, poolclass=NullPool).connect() as connection:
        yield Held(connection, lambda sql: connection.execute(text(sql)), connection.commit, connection.rollback)


@asynccontextmanager
async def asyncpg_below_sqlalchemy(url: str) -> AsyncIterator[Held]:
    unprepared = {**UNPREPARED, "prepared_statement_cache_size": 0, "prepared_statement_name_func": lambda: f"p{uuid4().hex}"}
    through_asyncpg = make_url(url).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(through_asyncpg, poolclass=NullPool, connect_args=unprepared if WANTED else {})
    async with AsyncSession(engine) as session:
        yield Held(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)


@asynccontextmanager
async def psycopg_async_connection(url: str) -> AsyncIterator[Held]:
    async with await psycopg.AsyncConnection.connect(libpq(url), row_factory=psycopg.rows.dict_row) as connection:
        yield Held(connection, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback)
        await connection.rollback()


@asynccontextmanager
async def psycopg_async_cursor(url: str) -> AsyncIterator[Held]:
    async with await psycopg.AsyncConnection.connect(libpq(url)) as connection, connection.cursor() as cursor:
        yield Held(cursor, lambda sql: cursor.execute(sql.encode()), connection.commit, connection.rollback)
        await connection.rollback()


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Held]:
    connection = await asyncpg.connect(libpq(url), **UNPREPARED)
    # A host may have taught its connection a JSON and a UUID of its own.
    await connection.set_type_codec("jsonb", encoder=lambda _: "{}", decoder=str, schema="pg_catalog")
    await connection.set_type_codec("uuid", encoder=str, decoder=lambda _: "?", schema="pg_catalog")
    async with _begun(connection) as held:
        yield held
    await connection.close()


@asynccontextmanager
async def asyncpg_pooled(url: str) -> AsyncIterator[Held]:
    async with (
        asyncpg.create_pool(libpq(url), min_size=1, max_size=1, **UNPREPARED) as pool,
        pool.acquire() as connection,
        _begun(connection) as held,
    ):
        yield held


@asynccontextmanager
async def _begun(connection: Any) -> AsyncIterator[Held]:
    current: list[Any] = []

    async def begin() -> None:
        current[:] = [connection.transaction()]
        await current[0].start()

    async def end(how: str) -> None:
        end_it: Callable[[], Awaitable[None]] = getattr(current[0], how)
        await end_it()
        await begin()

    await begin()
    yield Held(connection, connection.execute, lambda: end("commit"), lambda: end("rollback"))
    await current[0].rollback()


SYNC: list[Opener] = [sqlalchemy_connection, sqlalchemy_session, sqlalchemy_scoped_session, psycopg_connection, psycopg_cursor]
ASYNC: list[AsyncOpener] = [
    async_session,
    async_scoped,
    async_connection,
    asyncpg_below_sqlalchemy,
    psycopg_async_connection,
    psycopg_async_cursor,
    asyncpg_connection,
    asyncpg_pooled,
]
