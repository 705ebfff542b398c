"""Connections that die without a word: relay, recover loop and worker notice within their bound and go on by themselves."""

import asyncio
import sys
from collections.abc import Iterator
from uuid import UUID

import pytest
from bench import Bench
from black_hole import BlackHole, black_hole
from dramatiq.errors import ConnectionClosed
from eventually import eventually, running
from scripted_provider import UNHURRIED, Hold
from sqlalchemy import Engine
from stage_factory import claim, let_claims_expire, outbox, stage_committed, state_of

from acuse.protocol import State
from acuse.store.engine import async_engine, sync_engine
from acuse_adapters.actors import EngineLife, make_broker
from acuse_adapters.engine import Engine as Engine_
from acuse_relay.queue.fake import FakeQueue
from acuse_relay.queue.port import Message
from acuse_relay.queue.redis import RedisQueue
from acuse_relay.recover import Recover
from acuse_relay.relay import Relay

QUEUE = "acuse.crm"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a socket drop what it gets")


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead line is given up after a second."""
    monkeypatch.setattr("acuse.store.engine.SILENT_SECONDS", 1)


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def dark(fresh_database_url: str) -> Iterator[tuple[BlackHole, Engine]]:
    """An engine behind a line that can go dark."""
    with black_hole(fresh_database_url) as (hole, url):
        engine = sync_engine(url)
        yield hole, engine
        engine.dispose()


@pytest.mark.case("R037")
def test_a_relay_whose_line_goes_dark_moves_on_over_a_new_one(
    ledger: Engine, dark: tuple[BlackHole, Engine], tenant: str
) -> None:
    hole, engine = dark
    queue = FakeQueue()
    with running(Relay(engine, queue).run):
        stage_committed(ledger, tenant)
        eventually(lambda: outbox(ledger) == [])
        # When its line goes dark, and then something is staged
        before = hole.lines
        hole.go_dark()
        stage_committed(ledger, tenant)
        # Then it is moved over another one
        eventually(lambda: len(queue.messages) == 2)
        eventually(lambda: outbox(ledger) == [])
    assert hole.lines > before


@pytest.mark.case("R037")
def test_a_recover_loop_whose_line_goes_dark_goes_on_over_a_new_one(
    ledger: Engine, dark: tuple[BlackHole, Engine], tenant: str
) -> None:
    hole, engine = dark
    before, after = stage_committed(ledger, tenant, 2)

    def expires(operation: UUID) -> None:
        with ledger.begin() as connection:
            claim(connection, [operation])
            let_claims_expire(connection, [operation])
        eventually(lambda: state_of(ledger, operation).claim_until is None)

    with running(Recover(engine, FakeQueue(), pause_seconds=0.01).run):
        expires(before)
        lines = hole.lines
        hole.go_dark()
        expires(after)
    assert hole.lines > lines


@pytest.mark.case("R037")
async def test_a_worker_whose_line_goes_dark_during_a_call_saves_the_outcome_over_a_new_one(
    bench: Bench, database_url: str
) -> None:
    bench.promise(UNHURRIED)
    with black_hole(database_url) as (hole, url):
        database = async_engine(url, name=bench.name)
        held = Hold()
        bench.provider.will(held)
        one = bench.stage()
        carrying = asyncio.create_task(bench.carry(one, engine=bench.another(bench.book(database=database))))
        await held.arrived.wait()
        before = hole.lines

        hole.go_dark()
        held.released.set()
        await carrying

        assert hole.lines > before
        row = bench.row(one)
        assert (row.status, row.attempts, bench.provider.called(one)) == (State.CONFIRMED, 1, 1)
        await database.dispose()


@pytest.mark.case("R017")
@pytest.mark.invariant(10)
def test_a_worker_whose_line_to_the_broker_goes_dark_fetches_over_a_new_one(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acuse_adapters.actors.REDIS_SECONDS", 0.5)
    direct = RedisQueue.from_url(redis_url, namespace=namespace)
    with black_hole(redis_url, 6379) as (hole, url):
        # Given a consumer as Dramatiq's threads have it
        broker = make_broker(url, namespace, EngineLife(never, nothing_to_close, 0))
        consumer = broker.consume(QUEUE, prefetch=1, timeout=1)
        assert next(consumer) is None

        # When its line goes dark, and a message comes
        hole.go_dark()
        direct.push([Message(QUEUE, "perform", ("ledger", ["op_1"]))])

        # Then it is told that the connection is gone, which it starts again on, and gets the message
        with pytest.raises(ConnectionClosed):
            next(consumer)
        again = broker.consume(QUEUE, prefetch=1, timeout=1)
        message = next(again)
        assert message is not None
        again.ack(message)
        assert direct.depth([QUEUE]) == {QUEUE: 0}
        broker.client.close()
    direct.close()


async def never() -> Engine_:
    raise AssertionError("no engine is wanted here")


async def nothing_to_close() -> None:
    pass
