"""The queue on Redis, held against the real RedisBroker of the installed Dramatiq."""

import json
import time
import uuid
from collections.abc import Iterator

import dramatiq
import pytest
import redis
from dramatiq.brokers.redis import RedisBroker
from eventually import eventually

from acuse.identifier import operation_id
from acuse_relay.queue.port import Message, QueueUnavailable
from acuse_relay.queue.redis import RedisQueue

QUEUE = "acuse.crm"


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as made:
        yield made


@pytest.fixture
def queue(redis_url: str, namespace: str) -> Iterator[RedisQueue]:
    made = RedisQueue.from_url(redis_url, namespace=namespace)
    yield made
    made.close()


@pytest.fixture
def broker(redis_url: str, namespace: str) -> Iterator[RedisBroker]:
    made = RedisBroker(url=redis_url, namespace=namespace, middleware=[])
    made.declare_queue(QUEUE)
    yield made
    made.close()
    made.client.close()


def work(*operations: uuid.UUID, **fields: object) -> Message:
    return Message(QUEUE, "perform", ("ledger", [operation_id(one) for one in operations]), **fields)  # type: ignore[arg-type]


def only_body(client: redis.Redis, namespace: str) -> tuple[bytes, bytes]:
    ((redis_id, body),) = client.hgetall(f"{namespace}:{QUEUE}.msgs").items()
    assert client.lrange(f"{namespace}:{QUEUE}", 0, -1) == [redis_id]
    return redis_id, body


def test_what_is_pushed_is_byte_for_byte_what_the_broker_would_write(
    client: redis.Redis, queue: RedisQueue, broker: RedisBroker, namespace: str
) -> None:
    # Given the same message written by the broker, and then by us
    message = Message(QUEUE, "perform", ("l", ["op_1", "é"]), {"a": None, "b": [1.5]}, {"max_retries": 0}, "m-1")
    broker.enqueue(
        dramatiq.Message(QUEUE, message.actor, message.args, dict(message.kwargs), dict(message.options), message.message_id)
    )
    theirs_id, theirs = only_body(client, namespace)
    client.delete(f"{namespace}:{QUEUE}", f"{namespace}:{QUEUE}.msgs")
    queue.push([message])
    ours_id, ours = only_body(client, namespace)

    # Then only the id in Redis and the time of writing differ
    def without_id_and_time(body: bytes, redis_id: bytes) -> bytes:
        stamp = str(json.loads(body)["message_timestamp"]).encode()
        return body.replace(redis_id, b"ID").replace(stamp, b"TIME")

    assert ours_id != theirs_id
    assert without_id_and_time(ours, ours_id) == without_id_and_time(theirs, theirs_id)


def test_pushing_touches_no_other_key(client: redis.Redis, queue: RedisQueue, namespace: str) -> None:
    queue.push([work(uuid.uuid4())])
    assert {key.decode() for key in client.scan_iter(f"{namespace}*")} == {f"{namespace}:{QUEUE}", f"{namespace}:{QUEUE}.msgs"}


def test_the_same_message_pushed_twice_gets_two_ids_in_redis(client: redis.Redis, queue: RedisQueue, namespace: str) -> None:
    message = work(uuid.uuid4())
    queue.push([message])
    queue.push([message])
    assert len(client.hkeys(f"{namespace}:{QUEUE}.msgs")) == 2


def test_a_real_worker_consumes_and_acknowledges_what_was_pushed(queue: RedisQueue, broker: RedisBroker) -> None:
    performed: list[tuple[str, list[str]]] = []

    @dramatiq.actor(broker=broker, actor_name="perform", queue_name=QUEUE)
    def perform(ledger: str, operations: list[str]) -> None:
        performed.append((ledger, operations))

    ids = [uuid.uuid4() for _ in range(5)]
    worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=10)
    worker.start()
    try:
        queue.push([work(one) for one in ids])
        eventually(lambda: len(performed) == 5)
        eventually(lambda: queue.depth([QUEUE])[QUEUE] == 0)
    finally:
        worker.stop()
    assert performed == [("ledger", [operation_id(one)]) for one in ids]  # in order, with one thread


def test_a_fetched_message_counts_and_is_held_until_it_is_acknowledged(queue: RedisQueue, broker: RedisBroker) -> None:
    waiting, fetched = uuid.uuid4(), uuid.uuid4()
    queue.push([work(fetched), work(waiting)])
    message = next(broker.consume(QUEUE, prefetch=1, timeout=10))
    assert message is not None
    consumer = broker.consume(QUEUE)
    assert queue.depth([QUEUE, "acuse.other"]) == {QUEUE: 2, "acuse.other": 0}
    assert queue.held([QUEUE]) == {waiting, fetched}
    consumer.ack(message)
    assert queue.depth([QUEUE]) == {QUEUE: 1}
    assert queue.held([QUEUE]) == {waiting}


def test_a_dead_letter_is_not_held(queue: RedisQueue, broker: RedisBroker) -> None:
    queue.push([work(uuid.uuid4())])
    consumer = broker.consume(QUEUE, timeout=10)
    message = next(consumer)
    assert message is not None
    consumer.nack(message)
    assert queue.held([QUEUE]) == set()
    assert queue.depth([QUEUE]) == {QUEUE: 0}


def test_what_a_silent_worker_fetched_is_not_held(
    client: redis.Redis, queue: RedisQueue, broker: RedisBroker, namespace: str
) -> None:
    # Given a worker that fetched and was killed: nobody hears of it any more
    queue.push([work(uuid.uuid4())])
    assert next(broker.consume(QUEUE, timeout=10)) is not None
    client.zadd(f"{namespace}:__heartbeats__", {broker.broker_id: int((time.time() - 61) * 1000)})
    # Then it holds nothing, although its message keeps its place until the broker puts it back
    assert queue.held([QUEUE]) == set()
    assert queue.depth([QUEUE]) == {QUEUE: 1}


@pytest.mark.case("R047")
@pytest.mark.parametrize("minutes", [-10, 10])
def test_whose_clock_is_wrong_judges_workers_no_differently(
    broker: RedisBroker, client: redis.Redis, queue: RedisQueue, namespace: str, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    # Given a worker that lives and one that was killed, each with a message in hand
    alive, dead = uuid.uuid4(), uuid.uuid4()
    queue.push([work(alive)])
    assert next(broker.consume(QUEUE, timeout=10)) is not None
    other = RedisBroker(client=client, namespace=namespace, middleware=[])
    queue.push([work(dead)])
    assert next(other.consume(QUEUE, timeout=10)) is not None
    client.zadd(f"{namespace}:__heartbeats__", {other.broker_id: int((time.time() - 61) * 1000)})
    # When the clock of the process that asks is minutes off
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + minutes * 60)
    # Then what the first holds is held, and what the second held is not
    assert queue.held([QUEUE]) == {alive}


def test_a_body_that_no_list_names_is_neither_held_nor_takes_room(client: redis.Redis, queue: RedisQueue, namespace: str) -> None:
    queue.push([work(uuid.uuid4()) for _ in range(3)])
    client.delete(f"{namespace}:{QUEUE}")  # by hand; it happens
    assert queue.depth([QUEUE]) == {QUEUE: 0}
    assert queue.held([QUEUE]) == set()


@pytest.mark.invariant(10)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"\xff",
        b"[]",
        b'{"actor_name":"perform"}',
        b'{"actor_name":"perform","args":["l",7]}',
        b'{"actor_name":"perform","args":["l",["op_x",null]]}',
        b'{"actor_name":"perform","args":["l"]}',
        b"[" * 100_000,
        b'{"actor_name":"other","args":["l",["op_00000000000000000000000000000001"]]}',
    ],
)
def test_a_forged_message_holds_nothing_and_stops_nobody(
    client: redis.Redis, queue: RedisQueue, namespace: str, body: bytes
) -> None:
    genuine = uuid.uuid4()
    queue.push([work(genuine)])
    client.hset(f"{namespace}:{QUEUE}.msgs", "forged", body)
    client.rpush(f"{namespace}:{QUEUE}", "forged")
    assert queue.held([QUEUE]) == {genuine}


def test_a_key_of_another_type_is_said_and_not_guessed(client: redis.Redis, queue: RedisQueue, namespace: str) -> None:
    client.set(f"{namespace}:{QUEUE}", "mine")
    with pytest.raises(QueueUnavailable, match="refuses"):
        queue.push([work(uuid.uuid4())])
    with pytest.raises(QueueUnavailable, match="refuses"):
        queue.depth([QUEUE])
