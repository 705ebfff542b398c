"""What the relay moves, when, and in what pieces."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID

import pytest
import redis
from eventually import eventually, running
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from stage_factory import outbox, stage, stage_committed

from acuse.identifier import operation_id, uuid_of
from acuse.store.engine import sync_engine
from acuse_relay.queue.fake import FakeQueue
from acuse_relay.queue.port import Message
from acuse_relay.queue.redis import RedisQueue
from acuse_relay.relay import FULL_SCAN_SECONDS, Relay


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url, pool_size=30)
    yield engine
    engine.dispose()


@pytest.fixture
def queue() -> FakeQueue:
    return FakeQueue()


def carried(queue: FakeQueue) -> list[UUID]:
    """The operations in all messages, in order."""
    return [uuid_of(one, prefix="op", field="id") for message in queue.messages for one in message.args[1]]


def send(ledger: Engine, queue: str, message: str, delay: str = "0 s") -> None:
    with ledger.begin() as connection:
        connection.execute(
            text("select acuse.send(:queue, cast(:message as jsonb), clock_timestamp() + cast(:delay as interval))"),
            {"queue": queue, "message": message, "delay": delay},
        )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.case("R025")
@pytest.mark.invariant(1)
def test_nothing_moves_before_the_commit_and_nothing_after_a_rollback(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    relay = Relay(ledger, queue)
    with ledger.connect() as business:
        # Given a business transaction that has staged and is still open
        transaction = business.begin()
        stage(business, tenant)
        # Then the relay sees nothing, and nothing after the rollback
        assert relay.run_once() == 0
        transaction.rollback()
        assert relay.run_once() == 0
        # And of a savepoint that is rolled back, nothing
        with business.begin():
            kept = stage(business, tenant)
            savepoint = business.begin_nested()
            stage(business, tenant)
            savepoint.rollback()
            assert relay.run_once() == 0
    assert relay.run_once() == 1
    assert carried(queue) == [kept]


def test_rows_leave_the_outbox_as_messages_for_perform(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    (crm,) = stage_committed(ledger, tenant, action="crm.close_case.v1")
    (mail,) = stage_committed(ledger, tenant, action="email.send.v1")
    relay = Relay(ledger, queue)
    while relay.run_once():
        pass
    with ledger.connect() as connection:
        ledger_id = connection.execute(text("select value from acuse.meta where key = 'ledger_id'")).scalar_one()
    assert {(m.queue, m.actor, m.args[0], tuple(m.args[1])) for m in queue.messages} == {
        ("acuse.crm", "perform", ledger_id, (operation_id(crm),)),
        ("acuse.email", "perform", ledger_id, (operation_id(mail),)),
    }
    assert outbox(ledger) == []


def test_a_message_of_the_host_travels_as_it_was_stored(ledger: Engine, queue: FakeQueue) -> None:
    send(ledger, "default", '{"id": "m-1", "actor": "told", "args": [1], "kwargs": {"a": "ü"}, "options": {"max_retries": 3}}')
    assert Relay(ledger, queue).run_once() == 1
    assert queue.messages == [Message("default", "told", (1,), {"a": "ü"}, {"max_retries": 3}, "m-1")]


@pytest.mark.parametrize("message", ["{}", "[]", "null", '{"id": "1", "actor": "a", "args": {}, "kwargs": {}, "options": {}}'])
def test_a_message_that_no_relay_could_move_is_refused_in_the_hosts_transaction(ledger: Engine, message: str) -> None:
    with pytest.raises(DBAPIError, match="message_can_be_relayed"):
        send(ledger, "default", message)


def test_a_row_waits_until_it_is_available(ledger: Engine, queue: FakeQueue) -> None:
    send(ledger, "default", '{"id": "1", "actor": "a", "args": [], "kwargs": {}, "options": {}}', delay="1 hour")
    relay = Relay(ledger, queue)
    assert relay.run_once() == 0
    with ledger.begin() as connection:
        connection.execute(text("update acuse.outbox_message set available_at = clock_timestamp()"))
    assert relay.run_once() == 1


def test_a_full_queue_holds_up_no_other_one(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    # Given a queue with as many messages as it may have
    stage_committed(ledger, tenant, 10, action="crm.close_case.v1")
    relay = Relay(ledger, queue, bound=2, batch_size=1)
    while relay.run_once():
        pass
    # When another provider's operation is staged behind them
    (mail,) = stage_committed(ledger, tenant, action="email.send.v1")
    eventually(lambda: relay.run_once() or mail in carried(queue), 2)
    # Then it goes, and the full queue stays at its bound
    assert queue.depth(["acuse.crm", "acuse.email"]) == {"acuse.crm": 2, "acuse.email": 1}
    assert len(outbox(ledger)) == 8


def test_messages_grow_as_the_queue_fills(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    stage_committed(ledger, tenant, 3)
    relay = Relay(ledger, queue, bound=5, batch_size=10)
    relay.run_once()
    stage_committed(ledger, tenant, 16)
    relay.run_once()
    assert [len(message.args[1]) for message in queue.messages] == [1, 1, 1, 8, 8]


def test_a_new_queue_is_found_among_known_ones(ledger: Engine, queue: FakeQueue) -> None:
    clock = Clock()
    relay = Relay(ledger, queue, clock=clock)
    for name in ("m", "a", "z", "Ä", "b", "acuses"):
        send(ledger, name, '{"id": "1", "actor": "a", "args": [], "kwargs": {}, "options": {}}')
        assert relay.run_once() == 1, name
        assert queue.messages[-1].queue == name


@pytest.mark.case("R031")
def test_a_transaction_that_commits_late_behind_the_floor_is_found_by_the_full_scan(
    ledger: Engine, queue: FakeQueue, tenant: str
) -> None:
    clock = Clock()
    relay = Relay(ledger, queue, clock=clock)
    with ledger.connect() as slow:
        # Given a transaction that drew a low id, and higher ones that were moved long after it
        transaction = slow.begin()
        low = stage(slow, tenant)
        slow.execute(
            text("update acuse.outbox_message set available_at = available_at - interval '1 hour' where operation_id = :i"),
            {"i": low},
        )
        high = stage_committed(ledger, tenant, 5)
        assert relay.run_once() == 5
        # When it commits at last
        transaction.commit()
    # Then it is below the floor at first, and found when everything is looked at again
    assert relay.run_once() == 0
    clock.now += FULL_SCAN_SECONDS
    assert relay.run_once() == 1
    assert carried(queue) == [*high, low]


def test_a_large_late_transaction_does_not_wait_for_one_full_scan_per_batch(
    ledger: Engine, queue: FakeQueue, tenant: str
) -> None:
    clock = Clock()
    relay = Relay(ledger, queue, bound=2, batch_size=1, clock=clock)
    stage_committed(ledger, tenant)
    assert relay.run_once() == 1
    queue.wipe()
    stage_committed(ledger, tenant, 6)
    with ledger.begin() as connection:
        connection.execute(text("update acuse.outbox_message set available_at = available_at - interval '1 hour'"))
    clock.now += FULL_SCAN_SECONDS
    moved = []
    for _ in range(3):
        moved.append(relay.run_once())
        queue.wipe()
    assert moved == [2, 2, 2]


@pytest.mark.case("R031")
@pytest.mark.invariant(10)
def test_what_is_relayed_is_what_was_committed_whatever_the_order(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    # Given 50 writers that commit in any order and roll one transaction in twenty back, and one that commits last of all
    chance = random.Random(31)
    plans = [[(chance.randint(1, 3), chance.random() < 0.05) for _ in range(4)] for _ in range(50)]
    plans[7][0] = (2, True)

    def write(plan: list[tuple[int, bool]]) -> list[UUID]:
        committed: list[UUID] = []
        for count, rolled_back in plan:
            with ledger.connect() as connection:
                transaction = connection.begin()
                staged = [stage(connection, tenant) for _ in range(count)]
                if rolled_back:
                    transaction.rollback()
                else:
                    transaction.commit()
                    committed += staged
        return committed

    relay = Relay(ledger, queue, bound=100_000)
    with running(relay.run), ledger.connect() as slow:
        transaction = slow.begin()
        low = stage(slow, tenant)
        with ThreadPoolExecutor(50) as writers:
            committed = {one for ids in writers.map(write, plans) for one in ids}
        eventually(lambda: len(carried(queue)) >= len(committed))
        assert low not in carried(queue)
        transaction.commit()
        # Then everything that was committed is carried once, and nothing else
        eventually(lambda: low in carried(queue))
    assert Counter(carried(queue)) == Counter(committed | {low})
    assert outbox(ledger) == []


def test_many_relays_move_each_row_once_and_keep_the_bound(ledger: Engine, redis_url: str, namespace: str, tenant: str) -> None:
    # Given four relays that start at the same moment over several queues, and a worker that takes messages now and then
    bound, seen, deepest = 40, Counter[UUID](), []
    for action in ("crm.close_case.v1", "email.send.v1"):
        stage_committed(ledger, tenant, 400, action=action)
    names = ["acuse.crm", "acuse.email"]
    start = Barrier(4)

    def relay_until_stopped(stop: object) -> None:
        queue = RedisQueue.from_url(redis_url, namespace=namespace)
        start.wait()
        Relay(ledger, queue, bound=bound, batch_size=3).run(stop)  # type: ignore[arg-type]
        queue.close()

    with redis.Redis.from_url(redis_url) as client, running(*[relay_until_stopped] * 4):
        watch = RedisQueue(client, namespace=namespace)

        def everything_was_seen() -> bool:
            for name in names:
                deepest.append(watch.depth([name])[name])
                for redis_id in client.lpop(f"{namespace}:{name}", 7) or []:
                    body = json.loads(client.hget(f"{namespace}:{name}.msgs", redis_id))
                    client.hdel(f"{namespace}:{name}.msgs", redis_id)
                    seen.update(uuid_of(one, prefix="op", field="id") for one in body["args"][1])
            return seen.total() >= 800

        eventually(everything_was_seen)
    # Then each operation came once, and no queue was ever deeper than its bound
    assert set(seen.values()) == {1}
    assert max(deepest) <= bound
    assert outbox(ledger) == []


class Crash(BaseException):
    """The end of the process, as far as the relay's code can tell."""


class FailingQueue(FakeQueue):
    """Pushes and then does something."""

    def __init__(self, after_push: Callable[[], None]) -> None:
        super().__init__()
        self._after_push = after_push

    def push(self, messages: object) -> None:
        super().push(messages)  # type: ignore[arg-type]
        self._after_push()


def test_a_crash_between_push_and_commit_doubles_a_message_and_loses_none(ledger: Engine, tenant: str) -> None:
    staged = stage_committed(ledger, tenant, 3)

    def crash() -> None:
        raise Crash

    crashing = FailingQueue(crash)
    with pytest.raises(Crash):
        Relay(ledger, crashing).run_once()
    queue = FakeQueue()
    assert Relay(ledger, queue).run_once() == 3
    assert carried(crashing) == carried(queue) == staged


def test_a_connection_that_is_lost_between_push_and_commit_doubles_and_loses_none(ledger: Engine, tenant: str) -> None:
    staged = stage_committed(ledger, tenant, 3)
    kills = iter([True])

    def end_the_session() -> None:
        if next(kills, False):
            with ledger.connect() as other:
                other.execute(
                    text(
                        "select pg_terminate_backend(pid, 5000) from pg_locks where locktype = 'advisory'"
                        " and database = (select oid from pg_database where datname = current_database())"
                    )
                )

    queue = FailingQueue(end_the_session)
    with running(Relay(ledger, queue).run):
        eventually(lambda: outbox(ledger) == [])
    assert Counter(carried(queue)) == Counter(staged * 2)


def test_a_relay_that_stands_still_inside_a_batch_is_ended_by_the_server(
    ledger: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a relay that is stopped while it holds its rows, and a server that waits a tenth of a second instead of 20
    monkeypatch.setattr("acuse.store.relay.STALLED_TRANSACTION_MILLISECONDS", 100)
    staged = stage_committed(ledger, tenant, 3)
    other = FakeQueue()

    def another_relay_moves_the_rows() -> None:
        eventually(lambda: Relay(ledger, other).run_once() == 3)

    with pytest.raises(DBAPIError):
        Relay(ledger, FailingQueue(another_relay_moves_the_rows)).run_once()
    assert carried(other) == staged
