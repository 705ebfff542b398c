"""Every driver stages in the caller's own transaction: commit and rows are one thing, rollback leaves nothing."""

import asyncpg
import psycopg
import pytest
from drivers import ASYNC, SYNC, UNPREPARED, AsyncOpener, Opener, libpq
from host import CaseClosed, CloseCase, Counts, SendEmail, counts, routes
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from acuse import AsyncOutbox, ConfigurationError, EffectConflict, Outbox, State


@pytest.fixture(scope="module", autouse=True)
def business_table(database_url: str) -> None:
    with create_engine(database_url, poolclass=NullPool).begin() as connection:
        connection.execute(text("create table business_change (tenant text)"))


def changes(engine: Engine, tenant: str) -> int:
    with engine.connect() as connection:
        asked = text("select count(*) from business_change where tenant = :tenant")
        return int(connection.execute(asked, {"tenant": tenant}).scalar_one())


@pytest.mark.invariant(1)
@pytest.mark.parametrize("opener", SYNC, ids=lambda opener: opener.__name__)
def test_the_change_and_its_operations_exist_together_or_not_at_all(
    opener: Opener, database_url: str, engine: Engine, tenant: str
) -> None:
    outbox, insert = Outbox(routes=routes, tenant=tenant), f"insert into business_change values ('{tenant}')"
    with opener(database_url) as host:
        # Given a change, an operation and an event that are rolled back
        host.execute(insert)
        outbox.stage(host.caller, CloseCase(case="case-1"), workflow="w")
        outbox.publish(host.caller, CaseClosed(case="case-2"), workflow="w")
        host.rollback()
        assert (changes(engine, tenant), counts(engine, tenant)) == (0, Counts.none())
        # When the transaction runs again, with one operation inside a savepoint that is rolled back
        host.execute(insert)
        staged = outbox.stage(host.caller, CloseCase(case="case-1"), workflow="w")
        host.execute("savepoint a")
        dropped = outbox.stage(host.caller, CloseCase(case="case-3"), workflow="w")
        host.execute("rollback to savepoint a")
        assert (staged.created, dropped.created) == (True, True)
        # Then nobody else sees anything before the commit, and afterwards everything but the savepoint's
        assert (changes(engine, tenant), counts(engine, tenant)) == (0, Counts.none())
        host.commit()
        assert (changes(engine, tenant), counts(engine, tenant)) == (1, Counts.of(1))


@pytest.mark.invariant(1)
@pytest.mark.parametrize("opener", ASYNC, ids=lambda opener: opener.__name__)
async def test_the_change_and_its_operations_exist_together_or_not_at_all_asynchronously(
    opener: AsyncOpener, database_url: str, engine: Engine, tenant: str
) -> None:
    outbox, insert = AsyncOutbox(routes=routes, tenant=tenant), f"insert into business_change values ('{tenant}')"
    async with opener(database_url) as host:
        await host.execute(insert)
        await outbox.stage(host.caller, CloseCase(case="case-1"), workflow="w")
        await outbox.publish(host.caller, CaseClosed(case="case-2"), workflow="w")
        await host.rollback()
        assert (changes(engine, tenant), counts(engine, tenant)) == (0, Counts.none())
        await host.execute(insert)
        staged = await outbox.stage(host.caller, CloseCase(case="case-1"), workflow="w")
        await host.execute("savepoint a")
        dropped = await outbox.stage(host.caller, CloseCase(case="case-3"), workflow="w")
        await host.execute("rollback to savepoint a")
        assert (staged.created, dropped.created) == (True, True)
        assert (changes(engine, tenant), counts(engine, tenant)) == (0, Counts.none())
        await host.commit()
        assert (changes(engine, tenant), counts(engine, tenant)) == (1, Counts.of(1))


@pytest.mark.invariant(2)
@pytest.mark.parametrize("opener", ASYNC, ids=lambda opener: opener.__name__)
async def test_every_asynchronous_driver_answers_the_same(opener: AsyncOpener, database_url: str, tenant: str) -> None:
    outbox = AsyncOutbox(routes=routes, tenant=tenant)
    async with opener(database_url) as host:
        first = await outbox.stage(host.caller, CloseCase(case="case-ä😀"), workflow="w")
        again = await outbox.stage(host.caller, CloseCase(case="case-ä😀"), workflow="w")
        assert (first.created, again.created, again.operation_id) == (True, False, first.operation_id)
        assert (again.state, again.in_doubt, again.result_id) == (State.PREPARED, False, None)
        with pytest.raises(EffectConflict) as conflict:
            await outbox.stage(host.caller, CloseCase(case="case-ä😀", resolution="dropped"), workflow="w")
        assert (conflict.value.operation_id, conflict.value.paths) == (first.operation_id, ("$.payload.resolution",))
        published = await outbox.publish(host.caller, CaseClosed(case="case-5"), workflow="w")
        assert published.created
        assert [staged.created for staged in published.operations] == [True, True]


@pytest.mark.invariant(2)
@pytest.mark.parametrize("opener", SYNC, ids=lambda opener: opener.__name__)
def test_every_synchronous_driver_answers_the_same(opener: Opener, database_url: str, tenant: str) -> None:
    outbox = Outbox(routes=routes, tenant=tenant)
    with opener(database_url) as host:
        first = outbox.stage(host.caller, CloseCase(case="case-ä😀"), workflow="w")
        again = outbox.stage(host.caller, CloseCase(case="case-ä😀"), workflow="w")
        assert (first.created, again.created, again.operation_id) == (True, False, first.operation_id)
        with pytest.raises(EffectConflict) as conflict:
            outbox.stage(host.caller, CloseCase(case="case-ä😀", resolution="dropped"), workflow="w")
        assert (conflict.value.operation_id, conflict.value.paths) == (first.operation_id, ("$.payload.resolution",))
        published = outbox.publish(host.caller, CaseClosed(case="case-5"), workflow="w")
        assert [staged.created for staged in published.operations] == [True, True]


def test_a_cursor_keeps_the_rows_that_its_owner_has_not_read_yet(database_url: str, tenant: str) -> None:
    with psycopg.connect(libpq(database_url)) as connection, connection.cursor() as cursor:
        cursor.execute("select generate_series(1, 3)")
        Outbox(tenant=tenant).stage(cursor, CloseCase(case="case-1"), workflow="w")
        assert cursor.fetchall() == [(1,), (2,), (3,)]
        connection.rollback()


def test_a_connection_that_commits_each_statement_by_itself_is_refused(database_url: str, engine: Engine, tenant: str) -> None:
    outbox = Outbox(tenant=tenant)
    with psycopg.connect(libpq(database_url), autocommit=True) as connection:
        with pytest.raises(ConfigurationError, match="begin a transaction"):
            outbox.stage(connection, CloseCase(case="case-1"), workflow="w")
        with connection.transaction(force_rollback=True):
            assert outbox.stage(connection, CloseCase(case="case-1"), workflow="w").created
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection, pytest.raises(ConfigurationError, match="begin a transaction"):
        outbox.stage(connection, CloseCase(case="case-1"), workflow="w")
    with Session(autocommit) as session, pytest.raises(ConfigurationError, match="begin a transaction"):
        outbox.stage(session, CloseCase(case="case-1"), workflow="w")
    assert counts(engine, tenant) == Counts.none()


async def test_an_asynchronous_connection_outside_a_transaction_is_refused(
    database_url: str, async_engine: AsyncEngine, engine: Engine, tenant: str
) -> None:
    outbox = AsyncOutbox(tenant=tenant)
    raw = await asyncpg.connect(libpq(database_url), **UNPREPARED)
    with pytest.raises(ConfigurationError, match="begin a transaction"):
        await outbox.stage(raw, CloseCase(case="case-1"), workflow="w")
    await raw.close()
    async with await psycopg.AsyncConnection.connect(libpq(database_url), autocommit=True) as connection:
        with pytest.raises(ConfigurationError, match="begin a transaction"):
            await outbox.stage(connection, CloseCase(case="case-1"), workflow="w")
    async with async_engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(ConfigurationError, match="begin a transaction"):
            await outbox.stage(connection, CloseCase(case="case-1"), workflow="w")
    assert counts(engine, tenant) == Counts.none()


def test_something_that_is_no_connection_is_refused_with_the_kinds_that_are(engine: Engine) -> None:
    with pytest.raises(TypeError, match=r"Session, scoped_session or Connection.*got sqlalchemy.engine.base.Engine"):
        Outbox().stage(engine, CloseCase(case="case-1"), workflow="w")  # type: ignore[arg-type]


async def test_a_synchronous_connection_is_no_asynchronous_one(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(TypeError, match=r"AsyncSession.*asyncpg Connection"):
        await AsyncOutbox().stage(connection, CloseCase(case="case-1"), workflow="w")  # type: ignore[arg-type]


async def test_a_synchronous_outbox_works_inside_run_sync(async_engine: AsyncEngine, tenant: str) -> None:
    def stage(connection: Connection) -> bool:
        return Outbox(tenant=tenant).stage(connection, SendEmail(case="case-1"), workflow="w", call="t").created

    async with async_engine.connect() as connection:
        assert await connection.run_sync(stage)
