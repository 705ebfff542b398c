"""What the host's own Dramatiq actors are told, through the real relay, a real broker and a real worker."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage
from eventually import eventually, running
from host import CloseCase, SendEmail
from sqlalchemy import Engine
from stepper import ACCEPTED, end, send

from acuse import Approvals, Ledger, Outbox, State
from acuse.store.engine import sync_engine
from acuse_relay.queue.port import Message
from acuse_relay.queue.redis import RedisQueue
from acuse_relay.relay import Relay


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url)
    yield engine
    engine.dispose()


class CrashingQueue(RedisQueue):
    """Pushes, and its process dies before it can commit, once."""

    crashed = False

    def push(self, messages: list[Message]) -> None:  # type: ignore[override]
        super().push(messages)
        if not self.crashed:
            self.crashed = True
            raise RuntimeError("the relay died after the push")


class Host:
    """A backend with a broker, a worker, and two actors that write down what they are told."""

    def __init__(self, redis_url: str, namespace: str) -> None:
        self.heard: list[tuple[str, str, dict[str, Any]]] = []
        self.broker = RedisBroker(url=redis_url, namespace=namespace, middleware=[CurrentMessage()])

        def write_down(**facts: Any) -> None:
            message = CurrentMessage.get_current_message()
            assert message is not None
            self.heard.append((message.actor_name, message.message_id, facts))

        self.settled = dramatiq.actor(broker=self.broker, actor_name="settled", queue_name="onboarding")(write_down)
        self.decided = dramatiq.actor(broker=self.broker, actor_name="decided", queue_name="people")(write_down)
        self.worker = dramatiq.Worker(self.broker, worker_threads=1, worker_timeout=10)

    def close(self) -> None:
        self.worker.stop()
        self.broker.close()
        self.broker.client.close()


@pytest.fixture
def host(redis_url: str, namespace: str) -> Iterator[Host]:
    made = Host(redis_url, namespace)
    made.worker.start()
    yield made
    made.close()


def test_a_hosts_own_actors_hear_of_the_end_and_of_each_decision_under_ids_that_stay_the_same(
    ledger: Engine, host: Host, redis_url: str, namespace: str, tenant: str
) -> None:
    # Given an operation that is staged before anybody has approved it, and a host that wants to hear of both
    outbox, approvals = Outbox(tenant=tenant), Approvals(tenant=tenant)
    with ledger.begin() as connection:
        said = CloseCase(case="case-1")
        asked = approvals.request(
            connection, said, workflow="w", call="t", expires_in=timedelta(hours=1), callback=host.decided
        ).approval_id
        one = outbox.stage(connection, said, workflow="w", call="t", approval=asked, on_settled=host.settled).operation_id
    queue = CrashingQueue.from_url(redis_url, namespace=namespace)
    relay = Relay(ledger, queue)
    # When the relay dies in between, goes on, and a person approves
    with pytest.raises(RuntimeError, match="died after the push"):
        relay.run_once()
    with running(Relay(ledger, queue).run):
        eventually(lambda: len(host.heard) == 2)
        assert {(actor, identity) for actor, identity, _ in host.heard} == {("decided", f"{asked}-pending")}
        with ledger.begin() as connection:
            approvals.decide(connection, asked, True, by="ann")
        end(ledger, send(ledger, one), ACCEPTED)
        eventually(lambda: len(host.heard) == 4)
    queue.close()
    # Then each is heard once for each time that its message was delivered, and the id tells which are the same
    version = Ledger(ledger).get(one).version
    assert {(actor, identity) for actor, identity, _ in host.heard[2:]} == {
        ("decided", f"{asked}-granted"),
        ("settled", f"{one}-{version}"),
    }
    facts = {actor: facts for actor, _, facts in host.heard[2:]}
    assert (facts["settled"]["state"], facts["settled"]["result_id"]) == ("confirmed", "R-1")
    assert (facts["decided"]["approval_id"], facts["decided"]["state"], facts["decided"]["call"]) == (asked, "granted", "t")


def test_an_expiry_is_told_when_its_time_has_come(
    ledger: Engine, host: Host, redis_url: str, namespace: str, tenant: str
) -> None:
    approvals = Approvals(tenant=tenant)
    with ledger.begin() as connection:
        asked = approvals.request(
            connection,
            SendEmail(case="case-1"),
            workflow="w",
            call="t",
            expires_in=timedelta(milliseconds=300),
            callback=host.decided,
        ).approval_id
    queue = RedisQueue.from_url(redis_url, namespace=namespace)
    with running(Relay(ledger, queue).run):
        eventually(lambda: len(host.heard) == 2)
    queue.close()
    assert [facts["state"] for _, _, facts in host.heard] == ["pending", "expired"]
    with ledger.connect() as connection:
        assert approvals.get(connection, asked).state == "expired"


def test_waiting_for_what_waits_for_a_person_says_the_truth_at_its_deadline(ledger: Engine, tenant: str) -> None:
    outbox, approvals = Outbox(tenant=tenant), Approvals(tenant=tenant)
    with ledger.begin() as connection:
        asked = approvals.request(connection, SendEmail(case="case-1"), workflow="w", call="t")
        one = outbox.stage(connection, SendEmail(case="case-1"), workflow="w", call="t", approval=asked.approval_id)

    record = Ledger(ledger).wait(one.operation_id, timeout=0.02)

    assert (record.state, record.waiting) == (State.PREPARED, "approval")
    assert record.why == "Nothing was sent: it waits for its approval."
    assert record.what_next == f"It is sent when a person grants {asked.approval_id}."
