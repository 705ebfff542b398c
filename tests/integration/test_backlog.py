"""Twenty thousand operations after an outage drain through a broker that holds few; behind a slow provider none is doubled."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from uuid import UUID

import dramatiq
import pytest
import redis
from dramatiq.brokers.redis import RedisBroker
from eventually import eventually
from outbox_rows import QUEUE, fill
from sqlalchemy import Engine, text
from stage_factory import outbox

from acuse.identifier import uuid_of
from acuse.store.engine import sync_engine
from acuse_relay.queue.port import Message
from acuse_relay.queue.redis import RedisQueue
from acuse_relay.recover import Recover
from acuse_relay.relay import Relay

BACKLOG, KEYS, BOUND, BATCH = 20_000, 50, 100, 20

Handle = Callable[[list[str]], None]


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def queue(redis_url: str, namespace: str) -> Iterator["Watched"]:
    with redis.Redis.from_url(redis_url) as client:
        yield Watched(client, namespace=namespace)


class Watched(RedisQueue):
    """Remembers what was pushed, and how deep the queue was then."""

    def __init__(self, client: redis.Redis, *, namespace: str) -> None:
        super().__init__(client, namespace=namespace)
        self.pushed: list[UUID] = []
        self.deepest = 0

    def push(self, messages: Sequence[Message]) -> None:
        super().push(messages)
        self.pushed += [uuid_of(one, prefix="op", field="id") for message in messages for one in message.args[1]]
        self.deepest = max(self.deepest, self.depth([QUEUE])[QUEUE])


def broker_of(redis_url: str, namespace: str, handle: Handle | None = None) -> RedisBroker:
    """A worker's side of the broker, with an actor that only notes what came."""
    broker = RedisBroker(url=redis_url, namespace=namespace, middleware=[])  # type: ignore[no-untyped-call]

    def perform(_ledger: str, operations: list[str]) -> None:
        if handle is not None:
            handle(operations)

    dramatiq.actor(actor_name="perform", queue_name=QUEUE, broker=broker)(perform)
    return broker


@pytest.mark.case("R028")
def test_a_backlog_drains_through_a_bounded_broker_and_in_order_of_each_key(
    ledger: Engine, queue: Watched, redis_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Given 20,000 operations of four tenants, each of one of fifty ordering keys, and four workers that come back
    keys: dict[UUID, tuple[str, int]] = {}
    staged: defaultdict[tuple[str, int], list[UUID]] = defaultdict(list)
    for tenant in ("a", "b", "c", "d"):
        for number, operation in enumerate(fill(ledger, tenant, BACKLOG // 4)):
            keys[operation] = (tenant, number % KEYS)
            staged[keys[operation]].append(operation)
    seen = Counter[str]()
    workers = [
        dramatiq.Worker(broker_of(redis_url, namespace, seen.update), queues={QUEUE}, worker_timeout=20, worker_threads=2)
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    try:
        # When the relay resumes
        relay = Relay(ledger, queue, bound=BOUND, batch_size=BATCH)
        eventually(lambda: relay.run_once() == 0 and len(queue.pushed) >= BACKLOG, 100)
        eventually(lambda: seen.total() >= BACKLOG, 60)
    finally:
        for worker in workers:
            worker.stop()
    # Then every operation came once, no more were ever in the broker than it may hold, and it refused nothing
    assert set(seen.values()) == {1}
    assert len(seen) == BACKLOG
    assert queue.deepest <= BOUND
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    # And what is of one key went in its order
    went: defaultdict[tuple[str, int], list[UUID]] = defaultdict(list)
    for operation in queue.pushed:
        went[keys[operation]].append(operation)
    assert went == staged


def handed_over(ledger: Engine, count: int) -> None:
    """Operations that were staged, and are in the outbox since."""
    with ledger.begin() as connection:
        connection.execute(
            text(
                """with o as (
                     insert into acuse.operation (id, tenant, effect_key, action, provider, account, target, digest, handed_at,
                                                  created_at, updated_at)
                     select acuse.uuid7(), 't', 'key ' || i, 'crm.close_case.v1', 'crm', 'default', 'case ' || i, sha256('x'),
                            now(), now(), now() from generate_series(1, :count) i returning id)
                   insert into acuse.outbox_message (queue, tenant, operation_id, available_at)
                   select 'acuse.crm', 't', id, now() from o"""
            ),
            {"count": count},
        )


@pytest.mark.parametrize("fetched", [0, 1000], ids=["all wait", "a worker has fetched a third"])
def test_behind_a_slow_provider_with_a_long_queue_nothing_is_handed_over_again(
    ledger: Engine, queue: Watched, redis_url: str, namespace: str, fetched: int
) -> None:
    # Given 3,000 operations that have been in the broker for long, some of them with a worker that is slow
    count = 3000
    handed_over(ledger, count)
    relay = Relay(ledger, queue, bound=count, batch_size=1)
    while relay.run_once():
        pass
    broker = broker_of(redis_url, namespace)
    consumer = broker.consume(QUEUE, prefetch=max(fetched, 1), timeout=100)
    if fetched:
        assert next(consumer) is not None
        assert len(broker.client.smembers(f"{namespace}:__acks__.{broker.broker_id}.{QUEUE}")) == fetched
    # When the loop looks for lost messages, again and again
    for _ in range(3):
        done = Recover(ledger, queue, lost_after=timedelta(0), free_after=timedelta(0)).run_once()
        assert (done.handed_over, done.lost_unknown) == (0, False)
    # Then nothing was added anywhere
    assert outbox(ledger) == []
    assert queue.depth([QUEUE]) == {QUEUE: count}
    assert queue.held([QUEUE]) == set(queue.pushed)
    broker.close()
