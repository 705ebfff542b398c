"""A provider that tells us by itself what it did: before its answer, instead of it, and several times at once."""

import asyncio

import pytest
from bench import Bench
from scripted_provider import UNHURRIED, Hold, lose_reply

from acuse.protocol import Found, State
from acuse.store import recover


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
@pytest.mark.xfail(
    strict=True,
    reason="record_evidence raises the version and wakes nobody: what waits for a person, or for a later look, is not decided "
    "again; it needs due_at = now and held = null on an operation without a claim, as a late receipt in settle has it. "
    "There is no intake of webhooks yet that would keep those that match nothing",
)
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
