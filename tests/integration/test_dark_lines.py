"""Connections that die without a word: relay, recover loop and worker notice within their bound and go on by themselves."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from bench import Bench
from black_hole import BlackHole, black_hole
from dramatiq.errors import ConnectionClosed
from eventually import eventually, running
from scripted_provider import UNHURRIED, Hold
from sqlalchemy import Connection, Engine, text
from stage_factory import claim, let_claims_expire, outbox, stage_committed, state_of
from stepper import ACCEPTED, CONTRACT, take, try_dispatch

from acuse.identifier import operation_id, uuid_of
from acuse.protocol import Absent, State
from acuse.store.claim import claim as store_claim
from acuse.store.claim import defer
from acuse.store.dispatch import dispatch
from acuse.store.engine import async_engine, sync_engine
from acuse.store.evidence import record
from acuse.store.settle import settle
from acuse_adapters.actors import EngineLife
from acuse_adapters.broker import make_broker
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
    monkeypatch.setattr("acuse.keepalive.SILENT_SECONDS", 1)


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


@pytest.mark.case("R037")
@pytest.mark.parametrize("step", ["claim", "defer", "dispatch", "settle", "record"])
def test_the_server_ends_the_transaction_of_a_worker_that_went_dark_before_its_commit(
    ledger: Engine, tenant: str, step: str
) -> None:
    staged = Stepped(ledger, tenant)
    with ledger.begin() as connection:
        staged.up_to(step, connection)
        bound = connection.execute(text("select current_setting('idle_in_transaction_session_timeout')")).scalar_one()
    assert bound not in {"0", "0s", "0ms"}


class Stepped:
    """One operation that is taken from step to step, each in a transaction of its own but the last, which is the caller's."""

    def __init__(self, ledger: Engine, tenant: str) -> None:
        self._ledger = ledger
        (one,) = stage_committed(ledger, tenant)
        self._operation = operation_id(one)

    def up_to(self, step: str, connection: Connection) -> None:
        identity = uuid_of(self._operation, prefix="op", field="id")
        if step == "claim":
            assert store_claim(connection, [identity], timedelta(seconds=60))
            return
        claimed = take(self._ledger, self._operation)
        if step == "defer":
            assert defer(connection, claimed, due=timedelta(0))
        elif step == "dispatch":
            assert dispatch(connection, claimed, CONTRACT, key="k", pin={}).open
        else:
            dispatched = try_dispatch(self._ledger, claimed)
            if step == "settle":
                assert settle(connection, claimed, dispatched, ACCEPTED, due=timedelta(0)) == "settled"
            else:
                at = connection.execute(text("select clock_timestamp()")).scalar_one()
                assert record(connection, identity, "webhook", "w-1", 1, Absent(), at)


@pytest.mark.case("R017")
@pytest.mark.invariant(10)
def test_a_worker_whose_line_to_the_broker_goes_dark_fetches_over_a_new_one(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acuse_adapters.broker.REDIS_SECONDS", 0.5)
    direct = RedisQueue.from_url(redis_url, namespace=namespace)
    with black_hole(redis_url, 6379) as (hole, url):
        # Given a consumer as Dramatiq's threads have it
        broker = make_broker(url, namespace, EngineLife(never, nothing_to_close, 0), timedelta(seconds=15))
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
