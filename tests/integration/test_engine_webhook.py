"""A provider that tells us by itself what it did: before its answer, instead of it, and several times at once."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from bench import LEASE, Bench
from scripted_provider import SEEN, UNHURRIED, Hold, lose_reply, vanish

from acuse.protocol import Finding, Found, State, Unavailable
from acuse.store import recover
from acuse.store.dispatch import Dispatched
from acuse_adapters.engine import Book


async def test_a_webhook_that_comes_before_the_answer_changes_nothing_that_the_answer_says(bench: Bench) -> None:
    # Given a request in the air, and a webhook that overtakes its answer
    bench.promise(UNHURRIED)
    held = Hold()
    bench.provider.will(held)
    one = bench.stage()
    carrying = asyncio.create_task(bench.carry(one))
    await held.arrived.wait()
    named = f"N-{one.hex[-6:]}"
    await bench.book().record(one, "webhook", "event-1", 1, Found(named), bench.ask("select clock_timestamp()"))
    assert bench.state(one) is State.DISPATCHING

    held.released.set()
    await carrying

    assert (bench.state(one), bench.row(one).result_id, bench.provider.called(one)) == (State.CONFIRMED, named, 1)
    assert [entry.source for entry in bench.rows("evidence", one)] == ["webhook"]
    assert bench.rows("incident", one) == []


async def test_of_the_same_delivery_several_times_at_once_one_counts(bench: Bench) -> None:
    one = bench.stage()
    bench.provider.will(lose_reply)
    await bench.carry(one)
    before, now = bench.row(one).version, bench.ask("select clock_timestamp()")

    recorded = await asyncio.gather(*(bench.book().record(one, "webhook", "event-1", 1, Found("N-1"), now) for _ in range(5)))

    assert sorted(it.fresh for it in recorded if it is not None) == [False] * 4 + [True]
    assert len(bench.rows("evidence", one)) == 1
    assert bench.row(one).version == before + 1


@pytest.mark.case("R076")
async def test_a_webhook_alone_takes_a_doubt_out_of_the_review(bench: Bench) -> None:
    # Given a doubt that nobody can look up: it waits for a person
    one = bench.stage()
    bench.provider.will(lose_reply)
    await bench.carry(one)
    await bench.again(one)
    assert bench.row(one).held is not None
    bench.drop_messages()

    await bench.book().record(one, "webhook", "event-1", 1, Found("N-1"), bench.ask("select clock_timestamp()"))

    with bench.sync.begin() as connection:
        recover.hand_over_due(connection, 10_000)
    assert bench.messages(one) == 1
    await bench.carry(one)
    assert (bench.state(one), bench.provider.called(one)) == (State.CONFIRMED, 1)


async def told(bench: Bench, one: UUID, finding: Finding, event: str = "event-1") -> None:
    await bench.book().record(one, "webhook", event, 1, finding, bench.ask("select clock_timestamp()"))


async def wrongly_absent(bench: Bench) -> UUID:
    """An operation whose request took effect, and that was prepared again because a look-up said that it did not."""
    bench.promise(SEEN)
    one = bench.stage()
    bench.provider.will(vanish)
    await bench.carry(one)
    bench.pass_time(one, 10)
    await bench.again(one)
    assert (bench.state(one), bench.row(one).attempts) == (State.PREPARED, 1)
    return one


@pytest.mark.invariant(5)
async def test_what_a_webhook_told_of_is_not_sent_again_although_its_absence_was_proved(bench: Bench) -> None:
    one = await wrongly_absent(bench)
    await told(bench, one, Found("N-1"))

    await bench.carry(one)

    assert (bench.state(one), bench.row(one).result_id, bench.provider.called(one)) == (State.CONFIRMED, "N-1", 1)
    last = bench.rows("ledger", one)[-1]
    assert (last.kind, last.from_status, last.to_status, last.by) == ("confirm", "prepared", "confirmed", "evidence")


@pytest.mark.invariant(5)
async def test_a_webhook_between_claim_and_dispatch_keeps_the_request_back(bench: Bench) -> None:
    one = await wrongly_absent(bench)

    class Overtaken(Book):
        async def dispatch(self, *words: Any, **options: Any) -> Dispatched:
            await told(bench, one, Found("N-1"))
            return await super().dispatch(*words, **options)

    await bench.again(one, engine=bench.another(Overtaken(bench.database, LEASE)))

    assert (bench.state(one), bench.provider.called(one)) == (State.CONFIRMED, 1)


async def test_a_webhook_that_is_contradicted_lets_nothing_out_and_tells_a_person(bench: Bench) -> None:
    one = await wrongly_absent(bench)
    await told(bench, one, Found("N-1"))
    await told(bench, one, Found("N-2", content_matches=False), "event-2")

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, bench.provider.called(one)) == ("prepared", 1)
    assert row.due_at > bench.ask("select clock_timestamp()")
    assert [it.kind for it in bench.rows("incident", one)] == ["content_differs"]


async def test_what_says_nothing_new_wakes_nobody(bench: Bench) -> None:
    # Given what was never sent, and a doubt that waits for a person
    fresh = bench.stage(target="case-2")
    one = bench.stage()
    bench.provider.will(lose_reply)
    await bench.carry(one)
    await bench.again(one)
    held = bench.row(one).held

    await told(bench, one, Unavailable("delivered later"))
    await told(bench, fresh, Found("N-9"))

    assert (bench.row(one).held, bench.row(one).due_at, bench.row(fresh).due_at) == (held, None, None)


async def test_a_poison_operation_that_is_told_of_is_decided_although_it_was_parked(bench: Bench) -> None:
    one = bench.stage()
    bench.provider.will(lose_reply)
    await bench.carry(one)
    bench.do(
        "update acuse.operation set handovers = 20, held = 'parked: handed over 20 times', version = version + 1 where id = :id",
        one,
    )

    await told(bench, one, Found("N-1"))
    await bench.carry(one)

    assert (bench.state(one), bench.provider.called(one)) == (State.CONFIRMED, 1)
