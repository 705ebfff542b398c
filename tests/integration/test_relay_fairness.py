"""Tenants share what a queue takes: none waits for another's backlog."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from eventually import eventually, running
from outbox_rows import Clock, fill, reads_of, taken, waiting
from sqlalchemy import Engine, text
from stage_factory import stage_committed

from acuse.identifier import uuid_of
from acuse.store.engine import sync_engine
from acuse_relay.queue.fake import FakeQueue
from acuse_relay.relay import FULL_SCAN_SECONDS, Relay


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url, pool_size=10)
    yield engine
    engine.dispose()


@pytest.fixture
def queue() -> FakeQueue:
    return FakeQueue()


def test_an_operation_behind_another_tenant_s_backlog_is_in_the_first_batch(ledger: Engine, queue: FakeQueue) -> None:
    # Given one tenant with 5,000 rows, another with a single one behind them, and room for one message
    fill(ledger, "large", 5000)
    (single,) = fill(ledger, "small")
    relay = Relay(ledger, queue, bound=1, batch_size=50)

    # Then it leaves with the first, next to the front, and the room is used all the same
    assert relay.run_once() == 50
    assert single in taken(queue)[:2]

    # And the large one goes on alone
    assert relay.run_once() == 50
    (late,) = fill(ledger, "late")
    assert len(taken(queue)) == 50
    relay.run_once()
    assert late in taken(queue)


def test_what_a_tenant_does_not_need_goes_to_the_others_in_the_same_batch(ledger: Engine, queue: FakeQueue) -> None:
    few, some, many = fill(ledger, "few", 3), fill(ledger, "some", 20), fill(ledger, "many", 500)
    Relay(ledger, queue, bound=2, batch_size=30).run_once()

    moved = taken(queue)
    assert len(moved) == 60
    assert set(few) | set(some) <= set(moved)
    assert [one for one in moved if one in set(many)] == many[:37]


@pytest.mark.parametrize("room", [1, 3])
def test_of_many_tenants_each_gets_its_turn_within_as_many_batches_as_they_fill(
    ledger: Engine, queue: FakeQueue, room: int
) -> None:
    # Given more tenants than there is room for rows, most of them with a backlog, and some who come later
    names = [f"t{number:02}" for number in range(20)]
    for name in names:
        fill(ledger, name, 3 if name < "t10" else 40)
    names += (singles := ["T", "t05x", "~", "ü", "\U00010000"])  # in no order that a language would sort them by
    for name in singles:
        fill(ledger, name)
    relay, batches = Relay(ledger, queue, bound=room, batch_size=1), 0

    # Then each has its first row in the broker within ceil(T / R) batches
    tenants_of = of(ledger)
    seen: set[str] = set()
    while len(seen) < len(names):
        assert relay.run_once() == room
        batches += 1
        seen |= {tenants_of[one] for one in taken(queue)}
        assert batches <= -(-len(names) // room)

    # And one who comes in the middle of a round is served within the next
    (late,) = fill(ledger, "t07x")
    for _ in range(-(-(len(names) + 1) // room)):
        relay.run_once()
        if late in taken(queue):
            break
    else:
        pytest.fail("its turn did not come")


def of(ledger: Engine) -> dict[UUID, str]:
    """The tenant of each row that waits."""
    with ledger.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(text("select operation_id, tenant from acuse.outbox_message"))}


def test_all_that_waits_leaves_once_and_in_order_of_each_tenant(ledger: Engine, queue: FakeQueue) -> None:
    staged = {name: fill(ledger, name, count) for name, count in {"a": 400, "b": 7, "c": 150, "d": 1}.items()}
    relay, moved = Relay(ledger, queue, bound=3, batch_size=11), []
    while relay.run_once():
        moved += taken(queue)

    assert sorted(moved) == sorted(one for ids in staged.values() for one in ids)
    for ids in staged.values():
        assert [one for one in moved if one in set(ids)] == ids
    assert waiting(ledger) == 0


def test_messages_of_hosts_keep_going_beside_what_tenants_are_told(ledger: Engine, queue: FakeQueue) -> None:
    # Given a host's queue in which one tenant's settled messages fill the room many times over
    with ledger.begin() as connection:
        told = """insert into acuse.outbox_message (queue, tenant, message, available_at)
            select 'default', 'large', jsonb_build_object('id', 'told-' || i, 'actor', 'told', 'args', '[]'::jsonb,
                   'kwargs', '{}'::jsonb, 'options', '{}'::jsonb), clock_timestamp() from generate_series(1, 500) i"""
        connection.execute(text(told))
        sent = """select acuse.send('default', '{"id": "own", "actor": "a", "args": [], "kwargs": {}, "options": {}}')"""
        connection.execute(text(sent))
    Relay(ledger, queue, bound=4).run_once()
    assert "own" in [message.message_id for message in queue.messages]
    assert len(queue.messages) == 4


def test_what_waits_for_an_operation_keeps_its_tenant_wherever_it_is_handed_over(ledger: Engine, tenant: str) -> None:
    # Given rows that every hand-over writes: stage, cancel of a workflow, wake-ups
    (first,) = stage_committed(ledger, tenant, on_settled="default/told")
    stage_committed(ledger, tenant, after=[{"id": str(first)}])
    with ledger.begin() as connection:
        connection.execute(text("select acuse.cancel(:tenant, :id, 'a', 'b')"), {"tenant": tenant, "id": first})
    with ledger.connect() as connection:
        tenants = connection.execute(text("select tenant, count(*) from acuse.outbox_message group by tenant")).all()
    assert tenants == [(tenant, 4)]


def test_two_relays_serve_each_tenant_within_twice_as_many_batches(ledger: Engine, queue: FakeQueue) -> None:
    for number in range(12):
        fill(ledger, f"t{number:02}", 30)
    (single,) = fill(ledger, "t05x")
    relays = [Relay(ledger, queue, bound=2, batch_size=1) for _ in range(2)]
    for turn in range(2 * 7):
        assert relays[turn % 2].run_once() == 2
        if single in taken(queue):
            break
    else:
        pytest.fail("its turn did not come")


def test_two_relays_at_once_move_each_row_once_and_starve_nobody(ledger: Engine, queue: FakeQueue) -> None:
    large, moved = fill(ledger, "large", 2000), []
    small = [fill(ledger, f"s{number}")[0] for number in range(30)]
    relays = [Relay(ledger, queue, bound=4, batch_size=10).run for _ in range(2)]

    def everything_was_seen() -> bool:
        for message in list(queue.messages):
            queue.acknowledge(message)
            moved.extend(uuid_of(one, prefix="op", field="id") for one in message.args[1])
        return len(moved) >= 2030

    with running(*relays):
        eventually(everything_was_seen, 60)
    assert sorted(moved) == sorted(large + small)
    # Each of the small ones was among the first few batches of each relay, and not behind the large one
    assert max(moved.index(one) for one in small) < 500


def test_a_late_commit_of_a_tenant_is_found_while_others_crowd_the_queue(ledger: Engine, queue: FakeQueue) -> None:
    # Given a crowded queue, and a row that becomes visible far below every floor
    clock = Clock()
    relay = Relay(ledger, queue, bound=1, batch_size=10, clock=clock)
    fill(ledger, "large", 200)
    fill(ledger, "small", 1)
    for _ in range(3):
        relay.run_once()
        taken(queue)
    (late,) = fill(ledger, "small", ago="1 hour")
    relay.run_once()
    assert late not in taken(queue)
    # Then the next full look finds it
    clock.now += FULL_SCAN_SECONDS
    relay.run_once()
    assert late in taken(queue)


def test_dead_rows_of_what_was_moved_are_not_read_again_while_an_old_snapshot_is_open(
    ledger: Engine, queue: FakeQueue, fresh_database_url: str
) -> None:
    other = sync_engine(fresh_database_url)
    with other.connect() as old:
        # Given a snapshot that keeps every row that is moved from now on as a dead one
        fill(ledger, "a", 1)
        old.execution_options(isolation_level="REPEATABLE READ").execute(text("select count(*) from acuse.operation"))
        fill(ledger, "large", 3000)
        fill(ledger, "other", 1500)
        # When everything is moved, in many batches
        relay = Relay(ledger, queue, bound=1, batch_size=100, clock=Clock())
        read = reads_of(ledger)
        while relay.run_once():
            taken(queue)
        assert waiting(ledger) == 0
    other.dispose()
    # Then none has read much more than what it moved, though some 4,500 dead rows were there in the end
    assert len(read) > 45
    assert max(read[1:]) < 500, read
