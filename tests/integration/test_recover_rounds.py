"""What the recover loop hands over again, and what it leaves alone."""

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from eventually import eventually, running
from sqlalchemy import Connection, Engine, text
from stage_factory import claim, dispatch, let_claims_expire, outbox, stage, stage_committed, state_of

from acuse.store.engine import sync_engine
from acuse.store.recover import expire_claims, hand_over_due
from acuse.store.relay import take_census
from acuse_relay.metrics import Meter
from acuse_relay.queue.fake import FakeQueue
from acuse_relay.queue.redis import RedisQueue
from acuse_relay.recover import Recover, Recovered
from acuse_relay.relay import Relay

AT_ONCE = timedelta(0)


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def queue() -> FakeQueue:
    return FakeQueue()


def a_round(ledger: Engine, queue: object, **options: object) -> Recovered:
    """The first round of a new loop does everything."""
    options = {"lost_after": AT_ONCE, "free_after": AT_ONCE, **options}
    return Recover(ledger, queue, **options).run_once()  # type: ignore[arg-type]


def move_all(ledger: Engine, queue: object) -> None:
    relay = Relay(ledger, queue)  # type: ignore[arg-type]
    while relay.run_once():
        pass


@pytest.mark.invariant(6)
def test_an_expired_claim_makes_dispatching_unknown_and_on_prepared_just_ends(
    ledger: Engine, queue: FakeQueue, tenant: str
) -> None:
    # Given a worker that has sent one operation and only claimed another, and does not come back
    sent, claimed = stage_committed(ledger, tenant, 2)
    move_all(ledger, queue)
    with ledger.begin() as connection:
        fences = claim(connection, [sent, claimed])
        assert dispatch(connection, sent, fences[sent]) == "open"
    assert a_round(ledger, queue) == Recovered()  # as long as its claim lasts it is left alone
    with ledger.begin() as connection:
        let_claims_expire(connection, [sent, claimed])
    # When the claims have expired
    meter = Meter()
    assert a_round(ledger, queue, meter=meter).expired == 2
    # Then what may have left is unknown, what cannot have is prepared, and both are handed over
    doubtful, untouched = state_of(ledger, sent), state_of(ledger, claimed)
    assert (doubtful.status, doubtful.outcome_code, doubtful.doubts, doubtful.claim_until) == (
        "unknown",
        "claim_expired",
        1,
        None,
    )
    assert (untouched.status, untouched.doubts, untouched.claim_until) == ("prepared", 0, None)
    assert Counter(outbox(ledger)) == Counter([sent, claimed])
    assert meter.registry.get_sample_value("acuse_recovered_total", {"kind": "expired"}) == 2


@pytest.mark.case("R050")
@pytest.mark.invariant(6)
def test_what_a_worker_left_in_the_air_is_found_on_its_row_alone_also_after_the_loop_that_swept_it_died(
    ledger: Engine, queue: FakeQueue, tenant: str
) -> None:
    # Given an operation in the air whose worker is gone, without a trace but that row
    (sent,) = stage_committed(ledger, tenant)
    move_all(ledger, queue)
    with ledger.begin() as connection:
        assert dispatch(connection, sent, claim(connection, [sent])[sent]) == "open"
        let_claims_expire(connection, [sent])
    queue.wipe()
    # And a recover loop that has just swept it, has not committed, and is killed
    with ledger.connect() as dying:
        dying.begin()
        assert [one.id for one in expire_claims(dying, 10)] == [sent]
        assert a_round(ledger, queue).expired == 0
        pid = dying.execute(text("select pg_backend_pid()")).scalar_one()
        with ledger.connect() as other:
            other.execute(text("select pg_terminate_backend(:pid, 5000)"), {"pid": pid})
        dying.invalidate()
    assert state_of(ledger, sent).status == "dispatching"
    # Then the next round finds it, whoever makes it, and its age is seen
    assert a_round(ledger, queue).expired == 1
    assert (state_of(ledger, sent).status, outbox(ledger)) == ("unknown", [sent])
    with ledger.begin() as connection:
        assert take_census(connection).oldest_unresolved["crm"] > 0


@pytest.mark.invariant(6)
def test_time_alone_takes_nothing_out_of_unknown(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    (operation,) = stage_committed(ledger, tenant)
    for _ in range(3):
        with ledger.begin() as connection:
            fences = claim(connection, [operation])
            if state_of(ledger, operation).status == "prepared":
                dispatch(connection, operation, fences[operation])
        with ledger.begin() as connection:
            let_claims_expire(connection, [operation])
        a_round(ledger, queue)
        move_all(ledger, queue)
        queue.wipe()
        assert state_of(ledger, operation).status == "unknown"


def test_an_operation_that_is_due_is_handed_over_when_its_time_has_come(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    soon, later = stage_committed(ledger, tenant, 2)
    move_all(ledger, queue)
    with ledger.begin() as connection:
        fences = claim(connection, [soon, later])
        for operation, due in ((soon, "-1 ms"), (later, "1 hour")):
            connection.execute(
                text("select acuse.defer(:id, :fence, cast(:due as interval), null, null, true)"),
                {"id": operation, "fence": fences[operation], "due": due},
            )
    assert a_round(ledger, queue).due == 1
    assert outbox(ledger) == [soon]


def test_a_waiting_operation_whose_wake_up_was_lost_is_handed_over(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    # Given one that waits for another, which is cancelled while its wake-up is lost
    (first,) = stage_committed(ledger, tenant)
    (second,) = stage_committed(ledger, tenant, after=[{"id": str(first)}])
    move_all(ledger, queue)
    with ledger.begin() as connection:
        assert dispatch(connection, second, claim(connection, [second])[second]) == "dependency_waiting"
    queue.wipe()
    assert a_round(ledger, queue).free == 0
    move_all(ledger, queue)  # the first was lost and handed over; the second waits
    with ledger.begin() as connection:
        connection.execute(text("select acuse.cancel(:tenant, :id, 'a', 'b')"), {"tenant": tenant, "id": first})
        connection.execute(text("delete from acuse.outbox_message"))
    # Then the loop finds that it waits for nothing any more
    assert a_round(ledger, queue).free == 1
    assert outbox(ledger) == [second]


@pytest.mark.case("R019")
@pytest.mark.invariant(10)
def test_a_wiped_broker_loses_nothing(ledger: Engine, redis_url: str, namespace: str, tenant: str) -> None:
    # Given operations in a broker that forgets everything
    import redis

    queue = RedisQueue.from_url(redis_url, namespace=namespace)
    staged = stage_committed(ledger, tenant, 30)
    move_all(ledger, queue)
    with redis.Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter(f"{namespace}*"))
    # Then all are handed over again, once each
    assert a_round(ledger, queue).lost == 30
    assert Counter(outbox(ledger)) == Counter(staged)
    assert a_round(ledger, queue).lost == 0
    move_all(ledger, queue)
    assert queue.held(["acuse.crm"]) == set(staged)
    queue.close()


def test_behind_a_slow_provider_nothing_is_staged_twice(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    # Given a full queue, a long outbox behind it, and a worker that has taken its time with all of it
    staged = stage_committed(ledger, tenant, 50)
    relay = Relay(ledger, queue, bound=5, batch_size=4)
    while relay.run_once():
        pass
    waiting = outbox(ledger)
    assert len(waiting) == 30
    # When the loop comes round, again and again
    for _ in range(3):
        assert a_round(ledger, queue).lost == 0
    # Then nothing was added anywhere
    assert outbox(ledger) == waiting
    assert set(waiting) | queue.held(["acuse.crm"]) == set(staged)


class RelayedMeanwhile(FakeQueue):
    """Answers what it holds, and lets the relay move the outbox between the two reads of the recover loop."""

    relay: Relay | None = None

    def held(self, queues: Collection[str]) -> set[UUID]:
        held = super().held(queues)
        if self.relay is not None:
            self.relay.run_once()
        return held


def test_the_ledger_is_read_before_the_broker(ledger: Engine, tenant: str) -> None:
    # Given one operation whose message is lost, and one that is still in the outbox
    queue = RelayedMeanwhile()
    (lost,) = stage_committed(ledger, tenant)
    move_all(ledger, queue)
    queue.wipe()
    (waiting,) = stage_committed(ledger, tenant)
    # When the relay pushes the second just after the broker has answered
    queue.relay = Relay(ledger, queue)
    assert a_round(ledger, queue).lost == 1
    # Then it does not look lost, as it would had the broker been asked first
    assert outbox(ledger) == [lost]
    assert queue.held(["acuse.crm"]) == {waiting}


def test_nothing_is_judged_lost_while_the_broker_cannot_be_asked(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    stage_committed(ledger, tenant, 3)
    move_all(ledger, queue)
    queue.failure = "away"
    assert a_round(ledger, queue) == Recovered(lost_unknown=True)
    assert outbox(ledger) == []


def test_what_was_lost_is_found_behind_any_number_of_messages_that_wait(
    ledger: Engine, queue: FakeQueue, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acuse_relay.recover.PAGE", 3)
    monkeypatch.setattr("acuse_relay.recover.BATCH", 2)
    stage_committed(ledger, tenant, 10)
    move_all(ledger, queue)
    late = stage_committed(ledger, tenant, 3, action="email.send.v1")
    move_all(ledger, queue)
    for message in [one for one in queue.messages if one.queue == "acuse.email"]:
        queue.acknowledge(message)
    assert a_round(ledger, queue).lost == 3
    assert Counter(outbox(ledger)) == Counter(late)


def test_an_operation_that_was_claimed_after_the_look_is_not_handed_over(ledger: Engine, tenant: str) -> None:
    (operation,) = stage_committed(ledger, tenant)

    class ClaimedMeanwhile(FakeQueue):
        def held(self, queues: Collection[str]) -> set[UUID]:
            with ledger.begin() as connection:
                assert claim(connection, [operation])
            return set()

    queue = ClaimedMeanwhile()
    move_all(ledger, queue)
    assert a_round(ledger, queue).lost == 0
    assert outbox(ledger) == []


def test_two_loops_hand_over_what_was_lost_once(ledger: Engine, tenant: str) -> None:
    # Given another loop and a relay that do it all between this loop's looks and its own handing over
    class OtherLoopMeanwhile(FakeQueue):
        def held(self, queues: Collection[str]) -> set[UUID]:
            held = super().held(queues)
            assert a_round(ledger, FakeQueue()).lost == 4
            move_all(ledger, self)
            return held

    queue = OtherLoopMeanwhile()
    staged = stage_committed(ledger, tenant, 4)
    move_all(ledger, queue)
    queue.wipe()
    # Then this one sees that they have changed since it read them
    assert a_round(ledger, queue).lost == 0
    assert outbox(ledger) == []
    assert FakeQueue.held(queue, ["acuse.crm"]) == set(staged)


def test_more_than_one_batch_is_done_in_one_round(
    ledger: Engine, queue: FakeQueue, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acuse_relay.recover.BATCH", 2)
    staged = stage_committed(ledger, tenant, 7)
    move_all(ledger, queue)
    with ledger.begin() as connection:
        claim(connection, staged)
        let_claims_expire(connection, staged)
    assert a_round(ledger, queue).expired == 7


def test_months_are_made_ahead_and_no_open_transaction_is_in_the_way(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    with ledger.connect() as business:
        # Given a business transaction that has staged and stays open
        transaction = business.begin()
        stage(business, tenant)
        # When partitions are made that the migration has not made
        with ledger.begin() as connection:
            connection.execute(text("set local lock_timeout = '2 s'"))
            assert connection.execute(text("select acuse.ensure_partitions(15)")).scalar_one() == 12
        # Then others stage on meanwhile
        stage_committed(ledger, tenant)
        transaction.commit()
    assert a_round(ledger, queue).partitions == 0


def test_a_new_partition_refuses_rewriting_as_the_others_do(ledger: Engine, tenant: str) -> None:
    with ledger.begin() as connection:
        connection.execute(text("select acuse.ensure_partitions(14)"))
        last = connection.execute(
            text("select max(inhrelid::regclass::text) from pg_inherits where inhparent = 'acuse.ledger'::regclass")
        ).scalar_one()
        described = connection.execute(
            text("select array_agg(tgname::text order by tgname) from pg_trigger where tgrelid = cast(:name as regclass)"),
            {"name": last},
        ).scalar_one()
        keys = connection.execute(
            text("select count(*) from pg_index where indrelid = cast(:name as regclass) and indisunique"), {"name": last}
        ).scalar_one()
    assert described == ["append_only", "never_truncated"]
    assert keys == 2


def test_the_loop_outlives_a_failure_and_recovers_what_is_due(ledger: Engine, queue: FakeQueue, tenant: str) -> None:
    (operation,) = stage_committed(ledger, tenant)
    move_all(ledger, queue)
    recover = Recover(ledger, queue, pause_seconds=0.01, lost_after=timedelta(hours=1))
    with running(recover.run):
        with ledger.connect() as connection:
            connection.execute(
                text(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
            )
        with ledger.begin() as connection:
            claim(connection, [operation])
            let_claims_expire(connection, [operation])
        eventually(lambda: outbox(ledger) == [operation])


def test_a_round_hands_over_what_was_due_when_it_began_and_ends(
    ledger: Engine, queue: FakeQueue, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given many of one tenant that are due, one of another that came due last, and workers that put all off again at once
    monkeypatch.setattr("acuse_relay.recover.BATCH", 3)
    staged = [*stage_committed(ledger, tenant, 9), *stage_committed(ledger, f"{tenant}-other", 1)]
    come_due = text(
        """update acuse.operation set due_at = clock_timestamp(), handed_at = null, version = version + 1
           where handed_at is not null"""
    )

    def put_off_again(connection: Connection, limit: int, before: datetime | None = None) -> int:
        done = hand_over_due(connection, limit, before)
        connection.execute(come_due)
        return done

    with ledger.begin() as connection:
        connection.execute(come_due)
    monkeypatch.setattr("acuse_relay.recover.store.hand_over_due", put_off_again)
    # Then each is handed over once in the round
    assert a_round(ledger, queue).due == 10
    assert Counter(outbox(ledger)[10:]) == Counter(staged)


def test_what_waits_is_judged_by_pages_and_the_next_round_goes_on_behind_them(
    ledger: Engine, queue: FakeQueue, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acuse_relay.recover.BATCH", 2)
    # Given seven that wait for one that is prepared, and behind them one whose wake-up was lost
    (first,) = stage_committed(ledger, tenant)
    waiting = stage_committed(ledger, tenant, 7, after=[{"id": str(first)}])
    (free,) = stage_committed(ledger, tenant)
    with ledger.begin() as connection:
        connection.execute(
            text(
                "update acuse.operation set waiting = 'dependency', handed_at = null, version = version + 1 where id = any(:ids)"
            ),
            {"ids": [*waiting, free]},
        )
        connection.execute(text("delete from acuse.outbox_message"))
    # When one page is judged a round, the rounds go on although the time for the next look has not come
    recover = Recover(ledger, queue, free_after=AT_ONCE, lost_after=timedelta(hours=1), clock=lambda: 0.0)
    found = [recover.run_once().free for _ in range(5)]
    assert found == [0, 0, 0, 1, 0]
    assert outbox(ledger) == [free]
