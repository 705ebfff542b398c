"""The broker as a worker has it: what a dead worker fetched, and what nobody can read, does not stay with anybody."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import dramatiq
import pytest
from dramatiq.common import current_millis
from dramatiq.middleware import Middleware
from eventually import eventually

from acuse_adapters.broker import WorkerBroker, make_broker
from acuse_relay.queue.port import Message
from acuse_relay.queue.redis import RedisQueue

QUEUE = "acuse.crm"
DEAD_AFTER = timedelta(seconds=15)


@pytest.fixture
def queue(redis_url: str, namespace: str) -> Iterator[RedisQueue]:
    with closing(RedisQueue.from_url(redis_url, namespace=namespace)) as made:
        yield made


@pytest.fixture
def brokers(redis_url: str, namespace: str) -> Iterator[list[WorkerBroker]]:
    """Those of two workers."""
    made = [make_broker(redis_url, namespace, Middleware(), DEAD_AFTER) for _ in range(2)]
    yield made
    for broker in made:
        broker.client.close()


def hint(number: int) -> Message:
    return Message(QUEUE, "perform", ("ledger", [f"op_{number}"]))


def fetched(consumer: dramatiq.Consumer) -> list[Any]:
    """What comes until nothing more does."""
    return list(iter(lambda: next(consumer), None))


def in_hand(broker: WorkerBroker) -> int:
    return int(broker.client.scard(f"{broker.namespace}:__acks__.{broker.broker_id}.{QUEUE}"))


def last_heard(broker: WorkerBroker) -> float:
    """Milliseconds since the epoch, by the worker's clock."""
    return float(broker.client.zscore(f"{broker.namespace}:__heartbeats__", broker.broker_id) or 0)


@pytest.mark.invariant(10)
def test_what_nobody_can_read_is_dropped_and_takes_nothing_along(queue: RedisQueue, brokers: list[WorkerBroker]) -> None:
    broker, _ = brokers
    # Given messages between which somebody has put some that are none
    queue.push([hint(1)])
    forged = {
        "a": b"\xff no json",
        "b": b"[]",
        "c": json.dumps({"queue_name": QUEUE, "actor_name": "perform", "args": [], "kwargs": {}, "options": {}}).encode(),
        "d": json.dumps(
            {
                "queue_name": QUEUE,
                "actor_name": "perform",
                "args": [],
                "kwargs": {},
                "options": {},  # without the id by which it is acknowledged
                "message_id": "m",
                "message_timestamp": 1,
            }
        ).encode(),
    }
    broker.client.hset(f"{broker.namespace}:{QUEUE}.msgs", mapping=forged)
    broker.client.rpush(f"{broker.namespace}:{QUEUE}", *forged, "an id without a message")
    queue.push([hint(2)])

    # When all are fetched
    consumer = broker.consume(QUEUE, prefetch=20, timeout=1)
    messages = fetched(consumer)

    # Then only what can be read came, and only that is counted until it is acknowledged
    assert [message.args[1] for message in messages] == [["op_1"], ["op_2"]]
    assert (in_hand(broker), queue.depth([QUEUE])) == (2, {QUEUE: 2})
    for message in messages:
        consumer.ack(message)
    assert (in_hand(broker), queue.depth([QUEUE])) == (0, {QUEUE: 0})


@pytest.mark.invariant(10)
def test_what_a_dead_worker_fetched_goes_to_another_after_the_time_of_the_setting(
    queue: RedisQueue, brokers: list[WorkerBroker]
) -> None:
    dead, other = brokers
    queue.push([hint(1), hint(2)])
    assert len(fetched(dead.consume(QUEUE, prefetch=8, timeout=1))) == 2
    consumer = other.consume(QUEUE, prefetch=8, timeout=1)
    assert fetched(consumer) == []

    # When one was not heard of for so long, and no longer
    ago = current_millis() - DEAD_AFTER.total_seconds() * 1000 - 1
    dead.client.zadd(f"{dead.namespace}:__heartbeats__", {dead.broker_id: ago})

    # Then what it had comes to the other
    taken: list[Any] = []
    eventually(lambda: taken.extend(fetched(consumer)) or len(taken) == 2)
    assert in_hand(dead) == 0


@pytest.mark.invariant(10)
def test_a_worker_is_heard_of_also_while_it_fetches_nothing(redis_url: str, namespace: str) -> None:
    broker = make_broker(redis_url, namespace, Middleware(), timedelta(milliseconds=20))
    broker.emit_before("worker_boot", None)
    broker.emit_after("worker_boot", None)
    try:
        eventually(lambda: last_heard(broker))
        first = last_heard(broker)
        eventually(lambda: last_heard(broker) > first)
    finally:
        broker.emit_before("worker_shutdown", None)
        broker.emit_after("worker_shutdown", None)
        broker.client.close()
