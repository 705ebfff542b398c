"""A worker that is shut down: before, during and after the request."""

import asyncio
import time
from typing import Any

import pytest
from bench import Bench, Stop, until
from scripted_provider import Hold, refuse
from sqlalchemy import text

from acuse.protocol import Outcome, State
from acuse_adapters.engine import Moment
from acuse_adapters.port import Operation


@pytest.mark.case("R022")
async def test_shut_down_before_the_request_it_is_prepared_and_free_again(bench: Bench) -> None:
    one = bench.stage()
    preparing = asyncio.Event()

    async def stall(_: Operation[Any]) -> None:
        preparing.set()
        await asyncio.Event().wait()

    bench.provider.on_prepare = stall
    carrying = asyncio.create_task(bench.carry(one))
    await preparing.wait()

    await bench.engine.stop(0)
    await carrying

    row = bench.row(one)
    assert (row.status, row.claim_until, row.attempts, bench.provider.calls) == ("prepared", None, 0, [])
    assert row.due_at is not None


@pytest.mark.case("R022")
@pytest.mark.parametrize("greedy", [False, True], ids=["plain adapter", "adapter that catches Exception"])
async def test_shut_down_during_the_request_it_is_unknown(bench: Bench, greedy: bool) -> None:
    one = bench.stage()
    held = Hold()

    async def catch_all(provider: Any, operation: Operation[Any]) -> Outcome:
        try:
            return await held(provider, operation)
        except Exception:
            return await refuse(provider, operation)

    bench.provider.will(catch_all if greedy else held)
    carrying = asyncio.create_task(bench.carry(one))
    await held.arrived.wait()

    started = time.monotonic()
    await bench.engine.stop(0.05)
    await carrying

    assert time.monotonic() - started < 3
    row = bench.row(one)
    assert (row.status, row.reason, row.claim_until) == ("unknown", "the worker was shut down during the call", None)


@pytest.mark.case("R022")
async def test_shut_down_with_the_receipt_in_hand_it_is_confirmed(bench: Bench) -> None:
    # Given an answer that is read, and a connection that takes for ever to close
    one = bench.stage()
    closing = asyncio.Event()

    async def never_closes(phase: Any) -> None:
        if phase == "send":
            closing.set()
            await asyncio.Event().wait()

    bench.adapter.closing = never_closes
    carrying = asyncio.create_task(bench.carry(one))
    await closing.wait()

    await bench.engine.stop(0)
    await carrying

    assert bench.state(one) is State.CONFIRMED


@pytest.mark.case("R022")
async def test_shut_down_between_dispatch_and_request_nothing_leaves(bench: Bench) -> None:
    one = bench.stage()
    stop = Stop(Moment.DISPATCHED)
    engine = bench.another(moments=stop)
    carrying = asyncio.create_task(bench.carry(one, engine=engine))
    await stop.arrived.wait()

    stopping = asyncio.create_task(engine.stop(5))
    await asyncio.sleep(0)
    stop.released.set()
    await stopping
    await carrying

    assert (bench.state(one), bench.provider.calls) == (State.PREPARED, [])
    [attempt] = bench.rows("attempt", one)
    assert attempt.outcome == "not_sent"


@pytest.mark.case("R022")
async def test_shut_down_while_the_outcome_is_being_saved_it_is_saved(bench: Bench, database_url: str) -> None:
    # Given an outcome whose settle waits for the row
    one = bench.stage()
    held = Hold()
    bench.provider.will(held)
    carrying = asyncio.create_task(bench.carry(one))
    await held.arrived.wait()
    with bench.sync.connect() as other:
        other.execute(text("select 1 from acuse.operation where id = :id for update"), {"id": one})
        held.released.set()
        await until(bench.waits_for_lock, "settle waits")
        stopping = asyncio.create_task(bench.engine.stop(0))
        await asyncio.sleep(0)
        other.rollback()
    await stopping
    await carrying

    assert bench.state(one) is State.CONFIRMED


@pytest.mark.case("R022")
async def test_after_the_shut_down_began_nothing_is_claimed_and_messages_go_back(bench: Bench) -> None:
    one = bench.stage()
    bench.drop_messages()
    await bench.engine.stop(0)

    await bench.carry(one)

    assert (bench.row(one).fence, bench.messages(one), bench.provider.calls) == (0, 1, [])


async def test_operations_that_wait_for_room_are_given_back_at_shut_down(bench: Bench) -> None:
    held = Hold()
    bench.provider.will(held)
    engine = bench.another(concurrency=1)
    one, two = bench.stage(), bench.stage(target="case-2")
    carrying = asyncio.create_task(bench.carry(one, two, engine=engine))
    await held.arrived.wait()

    await engine.stop(0)
    await carrying

    states = sorted((bench.state(it), bench.row(it).claim_until) for it in (one, two))
    assert states == [(State.PREPARED, None), (State.UNKNOWN, None)]
