"""A broker that is away, read-only or full: commits succeed, rows stay, and the relay goes on by itself."""

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
import redis
from eventually import eventually, running
from sqlalchemy import Engine, text
from stage_factory import outbox, stage_committed
from structlog.testing import capture_logs

from acuse.embedded import EmbeddedValkey
from acuse.errors import ConfigurationError
from acuse.store.engine import sync_engine
from acuse_relay.queue.port import Message, QueueUnavailable
from acuse_relay.queue.redis import RedisQueue
from acuse_relay.relay import Relay

QUEUE = "acuse.crm"


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def valkey() -> Iterator[EmbeddedValkey]:
    """A server of this module alone, to be broken."""
    with EmbeddedValkey.temporary(durable=False) as server:
        yield server


@pytest.fixture
def client(valkey: EmbeddedValkey) -> Iterator[redis.Redis]:
    if not valkey.is_running:
        valkey.start()
    with redis.Redis.from_url(valkey.redis_url) as made:
        yield made
        for mend in (lambda: made.replicaof("NO", "ONE"), lambda: made.config_set("maxmemory", 0)):
            mend()
        made.config_set("maxmemory-policy", "noeviction")
        made.flushall()


@pytest.fixture
def queue(valkey: EmbeddedValkey, client: redis.Redis) -> Iterator[RedisQueue]:
    made = RedisQueue.from_url(valkey.redis_url)
    yield made
    made.close()


Fault = tuple[str, Callable[[EmbeddedValkey, redis.Redis], object], Callable[[EmbeddedValkey, redis.Redis], object]]
FAULTS: list[Fault] = [
    ("no connection", lambda server, _: server.kill(), lambda server, _: server.start()),
    ("READONLY", lambda _, client: client.replicaof("127.0.0.1", 1), lambda _, client: client.replicaof("NO", "ONE")),
    ("OOM", lambda _, client: client.config_set("maxmemory", 1), lambda _, client: client.config_set("maxmemory", 0)),
]


@pytest.mark.case("R016")
@pytest.mark.case("R020")
@pytest.mark.case("R026")
@pytest.mark.invariant(11)
@pytest.mark.parametrize(("reason", "break_it", "mend_it"), FAULTS, ids=["down", "read-only", "full"])
def test_rows_stay_while_the_broker_refuses_and_go_when_it_is_back(
    valkey: EmbeddedValkey,
    client: redis.Redis,
    queue: RedisQueue,
    ledger: Engine,
    tenant: str,
    reason: str,
    break_it: Callable[[EmbeddedValkey, redis.Redis], object],
    mend_it: Callable[[EmbeddedValkey, redis.Redis], object],
) -> None:
    # Given a broker that refuses
    break_it(valkey, client)
    # Then business commits do not notice, and the relay says why it waits and leaves the rows
    staged = stage_committed(ledger, tenant, 5)
    relay = Relay(ledger, queue)
    with pytest.raises(QueueUnavailable, match=reason):
        relay.run_once()
    assert sorted(outbox(ledger), key=str) == sorted(staged, key=str)

    with capture_logs() as logs, running(relay.run):
        eventually(lambda: any(entry["event"] == "relay.failed" for entry in logs))
        staged += stage_committed(ledger, tenant, 5)
        # When it is back, everything goes without anybody's help, once
        mend_it(valkey, client)
        eventually(lambda: outbox(ledger) == [])
    assert queue.depth([QUEUE]) == {QUEUE: 10}
    assert queue.held([QUEUE]) == set(staged)
    assert [entry for entry in logs if entry["event"] == "relay.recovered"]


@pytest.mark.parametrize(("reason", "break_it"), [fault[:2] for fault in FAULTS[1:]], ids=["read-only", "full"])
def test_reading_goes_on_while_writes_are_refused_and_nothing_is_half_pushed(
    valkey: EmbeddedValkey,
    client: redis.Redis,
    queue: RedisQueue,
    reason: str,
    break_it: Callable[[EmbeddedValkey, redis.Redis], object],
) -> None:
    queue.push([Message(QUEUE, "perform", ("l", [f"op_{UUID(int=1).hex}"]))])
    break_it(valkey, client)
    with pytest.raises(QueueUnavailable, match=reason) as caught:
        queue.push([Message(QUEUE, "perform", ("l", ["confidential"])), Message("acuse.email", "perform")])
    assert "confidential" not in str(caught.value)
    assert queue.depth([QUEUE, "acuse.email"]) == {QUEUE: 1, "acuse.email": 0}
    assert queue.held([QUEUE]) == {UUID(int=1)}


@pytest.mark.case("R037")
def test_the_relay_outlives_the_loss_of_its_database_connections(queue: RedisQueue, ledger: Engine, tenant: str) -> None:
    with running(Relay(ledger, queue).run):
        stage_committed(ledger, tenant)
        eventually(lambda: queue.depth([QUEUE])[QUEUE] == 1 and not outbox(ledger))  # else it comes twice
        with ledger.connect() as connection:
            connection.execute(
                text(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
            )
        stage_committed(ledger, tenant)
        eventually(lambda: queue.depth([QUEUE])[QUEUE] == 2)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "allkeys-lfu"])
def test_a_broker_that_may_drop_queues_is_refused(client: redis.Redis, queue: RedisQueue, policy: str) -> None:
    client.config_set("maxmemory-policy", policy)
    queue.check()  # it has no limit, so nothing is ever dropped
    client.config_set("maxmemory", "100mb")
    with pytest.raises(ConfigurationError, match=f"maxmemory-policy is {policy}; set it to noeviction"):
        queue.check()


def test_a_broker_that_may_drop_other_keys_is_warned_about(client: redis.Redis, queue: RedisQueue) -> None:
    client.config_set("maxmemory-policy", "volatile-lru")
    client.config_set("maxmemory", "100mb")
    with capture_logs() as logs:
        queue.check()
    assert [entry["log_level"] for entry in logs] == ["warning"]


def test_a_url_that_is_none_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigurationError, match="redis_url"):
        RedisQueue.from_url("amqp://somewhere")
