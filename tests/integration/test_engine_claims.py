"""Claims that ended while their worker stood still: what becomes of the operation, and of the receipt that comes late."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from bench import Bench
from scripted_provider import KEYED, SEEN, Hold, hang_up, refuse, vanish

from acuse.protocol import State
from acuse_adapters.port import Operation


@pytest.mark.invariant(6)
async def test_an_expired_claim_is_unknown_only_where_bytes_may_have_left(bench: Bench) -> None:
    held = Hold()
    bench.provider.will(held)
    sent, waiting = bench.stage(), bench.stage(target="case-2")
    carrying = asyncio.create_task(bench.carry(sent))
    await held.arrived.wait()
    await bench.book().claim([waiting])
    for one in (sent, waiting):
        bench.pass_time(one, 120)

    bench.expire()

    assert (bench.state(sent), bench.state(waiting)) == (State.UNKNOWN, State.PREPARED)
    assert (bench.messages(sent), bench.messages(waiting)) == (2, 2)
    held.released.set()
    await carrying


@pytest.mark.invariant(6)
async def test_time_alone_never_takes_an_operation_out_of_unknown(bench: Bench) -> None:
    # Given a doubt that nobody can look up
    one = bench.stage()
    bench.provider.will(vanish)
    await bench.carry(one)

    # When years pass and messages come again and again
    for _ in range(5):
        bench.pass_time(one, 3600 * 24 * 365)
        bench.expire()
        await bench.again(one)

    # Then it waits for a person, and says why
    row = bench.row(one)
    assert (row.status, row.due_at, bench.provider.called(one)) == ("unknown", None, 1)
    assert "neither a key nor a look-up" in row.held


@pytest.mark.case("R049")
@pytest.mark.invariant(3)
async def test_a_worker_that_wakes_under_its_old_name_changes_nothing_and_its_receipt_is_kept(bench: Bench) -> None:
    # Given worker w-0, stalled in its call past its lease, and its successor of the same name, which holds the claim now
    bench.promise(SEEN)
    held = Hold()
    bench.provider.will(held)
    one = bench.stage()
    stalled = asyncio.create_task(bench.carry(one))
    await held.arrived.wait()
    [old_claim] = [entry for entry in bench.rows("ledger", one) if entry.kind == "dispatched"]
    bench.pass_time(one, 120)
    bench.expire()
    successor = bench.book()
    [claimed] = await successor.claim([one])
    before = bench.row(one)

    # When the old one tries to give the claim back and to dispatch
    stale = replace(claimed, fence=old_claim.fence)
    assert not await bench.book().defer(stale, due=timedelta(0))
    fenced = await bench.book().dispatch(stale, SEEN, key="k", pin={}, basis=None, version=before.version)
    assert fenced.gate == "fenced"

    # Then nothing has changed
    assert bench.row(one) == before

    # And when its receipt comes at last, it is evidence, and it settles
    held.released.set()
    await stalled
    row = bench.row(one)
    assert (row.status, row.result_id, bench.provider.called(one)) == ("confirmed", f"N-{one.hex[-6:]}", 1)
    [evidence] = bench.rows("evidence", one)
    assert (evidence.source, evidence.finding, evidence.attempt) == ("receipt", "found", 1)
    [attempt] = bench.rows("attempt", one)
    assert attempt.late
    assert bench.count("duplicates_prevented", kind="fenced") == 1
    assert not await successor.defer(claimed, due=timedelta(0))


@pytest.mark.case("R049")
@pytest.mark.invariant(3)
async def test_a_worker_that_gives_back_a_claim_which_is_its_successors_changes_nothing_and_is_counted(bench: Bench) -> None:
    one = bench.stage()

    async def stall_and_fail(_: Operation[Any]) -> None:
        bench.pass_time(one, 120)
        bench.expire()
        assert len(await bench.book().claim([one])) == 1
        raise RuntimeError("too late")

    bench.provider.on_prepare = stall_and_fail

    await bench.carry(one)

    row = bench.row(one)
    assert (row.fence, row.due_at, bench.count("duplicates_prevented", kind="fenced")) == (2, None, 1)
    assert row.claim_until is not None


@pytest.mark.invariant(5)
async def test_a_late_not_sent_of_an_older_attempt_counts_for_the_attempt_in_the_air(bench: Bench) -> None:
    # Given an attempt that is stalled past its lease, and a second one, with the same key, in the air
    bench.promise(KEYED)
    first, second = Hold(inner=hang_up), Hold(inner=refuse)
    bench.provider.will(first, second)
    one = bench.stage()
    stalled = asyncio.create_task(bench.carry(one))
    await first.arrived.wait()
    bench.pass_time(one, 120)
    bench.expire()
    other = bench.another()
    carrying = asyncio.create_task(bench.carry(one, engine=other))
    await second.arrived.wait()
    assert bench.row(one).doubts == 2

    # When the first one turns out never to have left, and then the second one is refused
    first.released.set()
    await stalled
    assert (bench.state(one), bench.row(one).doubts) == (State.DISPATCHING, 1)
    second.released.set()
    await carrying

    # Then no attempt can have had an effect: it is rejected
    assert (bench.state(one), bench.row(one).doubts, bench.row(one).outcome_code) == (State.REJECTED, 0, "closed_case")


async def test_a_late_receipt_takes_an_operation_out_of_the_review(bench: Bench) -> None:
    held = Hold()
    bench.provider.will(held)
    one = bench.stage()
    stalled = asyncio.create_task(bench.carry(one))
    await held.arrived.wait()
    bench.pass_time(one, 120)
    bench.expire()
    await bench.carry(one, engine=bench.another())
    assert bench.row(one).held is not None

    held.released.set()
    await stalled

    assert bench.state(one) is State.CONFIRMED
