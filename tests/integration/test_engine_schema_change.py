"""Somebody changes a table under running processes: they go on by themselves."""

from collections.abc import AsyncIterator, Iterator

import pytest
from bench import Bench
from scripted_provider import UNHURRIED, Behaviour, accept, lose_reply
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine

from acuse.protocol import State
from acuse.store.engine import async_engine, sync_engine
from acuse_relay.queue.fake import FakeQueue
from acuse_relay.relay import Relay

OFTEN = 12
"""More than the number of executions after which a driver or the server would keep a plan."""

CHANGES = """
    alter table acuse.operation add column remark text;
    alter table acuse.outbox_message add column remark text;
    alter table acuse.attempt add column remark text, alter column number type bigint;
    alter table acuse.ledger alter column attempt type bigint;
    alter table acuse.account alter column failures type bigint;
    alter table acuse.outbox_message alter column queue type varchar(200);
"""


@pytest.fixture
async def one_connection(fresh_database_url: str) -> AsyncIterator[AsyncEngine]:
    """So that every statement meets what the ones before have left on the connection."""
    made = async_engine(fresh_database_url, pool_size=1)
    yield made
    await made.dispose()


@pytest.fixture
def another_connection(fresh_database_url: str) -> Iterator[Engine]:
    made = sync_engine(fresh_database_url, pool_size=1)
    yield made
    made.dispose()


@pytest.mark.case("R041")
async def test_a_worker_and_a_relay_outlive_a_change_of_their_tables(
    fresh_bench: Bench, one_connection: AsyncEngine, another_connection: Engine
) -> None:
    bench, queue = fresh_bench.promise(UNHURRIED), FakeQueue()
    worker = bench.another(bench.book(database=one_connection))
    relay = Relay(another_connection, queue)

    async def work() -> list[State]:
        script: list[Behaviour] = [accept, lose_reply] * (OFTEN // 2)
        bench.provider.will(*script)
        staged = []
        for n in range(OFTEN):
            staged.append(bench.stage(target=f"case-{n}"))
            assert relay.run_once() == 1
            await bench.carry(staged[-1], engine=worker)
        for one in staged[1::2]:  # those in doubt
            await bench.again(one, engine=worker)
        assert [bench.provider.called(one) for one in staged] == [1] * OFTEN
        return [bench.state(one) for one in staged]

    # Given a worker and a relay that have run each of their statements often
    assert set(await work()) == {State.CONFIRMED}
    backend = await backend_of(one_connection)

    # When columns are added and widened
    bench.do(CHANGES)

    # Then the same connection goes on, nothing is stuck, and nothing is sent twice
    assert set(await work()) == {State.CONFIRMED}
    assert await backend_of(one_connection) == backend
    assert len(queue.messages) >= OFTEN
    assert bench.ask("select count(*) from acuse.operation where status <> 'confirmed'") == 0
    assert set(bench.provider.objects.values()) == {1}


async def backend_of(database: AsyncEngine) -> int:
    async with database.connect() as connection:
        return int((await connection.execute(text("select pg_backend_pid()"))).scalar_one())
