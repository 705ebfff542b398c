"""A worker and its connections: it never takes more than its pool, and one that it does not get costs no effect."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
from bench import Bench, until
from scripted_provider import UNHURRIED, Hold
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import NullPool
from structlog.testing import capture_logs

from acuse.protocol import State
from acuse.store.engine import async_engine

POOL = 5
CALLS = 120


@pytest.fixture
async def small_pool(database_url: str, tenant: str) -> AsyncIterator[AsyncEngine]:
    made = async_engine(database_url, pool_size=POOL, name=f"small {tenant}")
    yield made
    await made.dispose()


def connections(bench: Bench, name: str) -> int:
    return int(bench.ask("select count(*) from pg_stat_activity where application_name = :name", name=name))


@pytest.mark.case("R052")
async def test_many_messages_at_once_take_no_more_connections_than_the_pool_has(bench: Bench, small_pool: AsyncEngine) -> None:
    # Given sixteen messages at once, and a pool of five
    bench.promise(UNHURRIED)
    staged = [bench.stage(target=f"case-{n}") for n in range(CALLS)]
    worker = bench.another(bench.book(database=small_pool), concurrency=64)
    seen: list[int] = []

    async def count(_: object) -> None:
        if len(bench.provider.calls) % 20 == 0:
            seen.append(connections(bench, f"small {bench.tenant}"))

    bench.provider.on_call = count

    await asyncio.gather(*(bench.carry(*staged[n::16], engine=worker) for n in range(16)))

    assert {bench.state(one) for one in staged} == {State.CONFIRMED}
    assert len(bench.provider.calls) == CALLS == sum(bench.provider.objects.values())
    assert 0 < max(seen) <= POOL
    assert connections(bench, f"small {bench.tenant}") <= POOL


@pytest.mark.case("R052")
async def test_a_pool_that_stays_empty_before_the_dispatch_leaves_the_operation_prepared(
    bench: Bench, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acuse.store.engine.POOL_TIMEOUT_SECONDS", 0.05)
    one = bench.stage()
    pool = async_engine(database_url, pool_size=1)
    worker = bench.another(bench.book(database=pool))
    with capture_logs() as logs:
        taken = await pool.connect()
        await taken.close()

        async def somebody_takes_the_last_connection(_: object) -> None:
            nonlocal taken
            taken = await pool.connect()

        bench.provider.on_prepare = somebody_takes_the_last_connection
        carrying = asyncio.create_task(bench.carry(one, engine=worker))
        await until(lambda: [it for it in logs if it["event"] == "database_step_repeated"], "the worker waits")
        await taken.close()
        await carrying
    row = bench.row(one)
    assert (row.status, row.attempts, row.doubts, row.claim_until, bench.provider.calls) == ("prepared", 0, 0, None, [])
    assert row.handovers == 0  # no failure of this operation

    bench.provider.on_prepare = bench.provider.on_call
    await bench.again(one, engine=worker)
    assert (bench.state(one), bench.provider.called(one)) == (State.CONFIRMED, 1)
    await pool.dispose()


@contextmanager
def role_with_few_connections(engine: Engine, url: str, limit: int) -> Iterator[str]:
    """A URL under which the server takes no more than so many connections, whatever it takes of others."""
    name, password = f"few_{secrets.token_hex(4)}", secrets.token_hex(8)
    with engine.begin() as connection:
        connection.execute(text(f"create role {name} login password '{password}' connection limit {limit}"))
        for kind in ("tables", "functions", "sequences"):
            connection.execute(text(f"grant all on all {kind} in schema acuse to {name}"))
        connection.execute(text(f"grant usage on schema acuse to {name}"))
    yield make_url(url).set(username=name, password=password).render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.execute(
            text("select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = :name"), {"name": name}
        )
        connection.execute(text(f"drop owned by {name}"))
        connection.execute(text(f"drop role {name}"))


@pytest.mark.case("R052")
@pytest.mark.session("it counts those of one role; a pooler has its own")
async def test_a_server_without_a_connection_to_spare_after_the_call_gets_the_outcome_later(
    bench: Bench, engine: Engine, database_url: str
) -> None:
    with role_with_few_connections(engine, database_url, 2) as url, capture_logs() as logs:
        # Given a request that the provider has carried out, by a worker that has lost its connections meanwhile
        bench.promise(UNHURRIED)
        database = async_engine(url, pool_size=2)
        worker = bench.another(bench.book(database=database))
        held = Hold()
        bench.provider.will(held)
        one = bench.stage()
        carrying = asyncio.create_task(bench.carry(one, engine=worker))
        await held.arrived.wait()
        await database.dispose()

        # When others have all the connections that the server gives
        others = create_engine(url, poolclass=NullPool)
        taken = [others.connect(), others.connect()]
        held.released.set()
        await until(lambda: len([it for it in logs if it["event"] == "database_step_repeated"]) >= 2, "two refusals")
        assert bench.state(one) is State.DISPATCHING
        for connection in taken:
            connection.close()

        # Then the outcome is written as soon as there is one, and nothing is sent again
        await carrying
        row = bench.row(one)
        assert (row.status, row.attempts, bench.provider.called(one), bench.provider.made(one)) == ("confirmed", 1, 1, 1)
        await database.dispose()
