"""Operations that fail or kill their worker every time, and providers that are only away."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from bench import Bench

from acuse.protocol import NotSent, State
from acuse_adapters.port import Ended, Operation

PARKED = "parked: handed over 20 times without progress"


async def test_what_fails_in_prepare_every_time_is_parked_and_its_neighbours_flow(bench: Bench) -> None:
    poison = bench.stage(target="case-poison")

    async def break_on_poison(operation: Operation[Any]) -> None:
        if operation.target == "case-poison":
            raise ValueError("cannot render this")

    bench.provider.on_prepare = break_on_poison
    for n in range(22):
        neighbour = bench.stage(target=f"case-{n}")
        await bench.again(poison)
        await bench.carry(neighbour)
        assert bench.state(neighbour) is State.CONFIRMED

    row = bench.row(poison)
    assert (row.status, row.held, row.attempts) == ("prepared", PARKED, 0)
    assert len([it for it in bench.provider.prepared if it == f"op_{poison.hex}"]) == 20


async def test_a_provider_that_is_away_parks_nothing_and_is_asked_no_more_once_its_account_rests(bench: Bench) -> None:
    one = bench.stage()
    asked = []

    async def away(operation: Operation[Any]) -> None:
        asked.append(operation.id)
        raise Ended(NotSent("connection refused"))

    bench.provider.on_prepare = away
    waits = []
    for _ in range(40):
        await bench.again(one)
        row = bench.row(one)
        waits.append(row.due_at - row.updated_at)

    assert waits[0] < timedelta(seconds=1)
    assert waits[0] < waits[4]
    assert (bench.row(one).held, bench.row(one).put_off, len(asked)) == (None, "breaker_open", 5)


async def test_what_kills_its_worker_every_time_is_parked(bench: Bench) -> None:
    poison, neighbour = bench.stage(), bench.stage(target="case-2")
    for _ in range(20):  # a worker claims it and is never seen again
        assert len(await bench.book().claim([poison])) == 1
        bench.pass_time(poison, 120)
        bench.expire()

    await bench.carry(poison, neighbour)

    row = bench.row(poison)
    assert (row.status, row.held, bench.provider.called(poison)) == (
        "prepared",
        PARKED,
        0,
    )
    assert bench.state(neighbour) is State.CONFIRMED


async def test_a_pin_that_cannot_be_stored_is_no_endless_loop(bench: Bench) -> None:
    one = bench.stage()

    async def strange(*_: Any) -> Any:
        return {"text": "\0"}

    declared = bench.adapter.actions["scripted.note.v1"]
    bench.adapter.actions = {"scripted.note.v1": replace(declared, prepare_step=strange)}
    engine = bench.another()
    for _ in range(21):
        await bench.again(one, engine=engine)

    assert bench.row(one).held == PARKED
    assert bench.provider.calls == []


@pytest.mark.case("R043")
async def test_an_action_that_this_worker_does_not_know_is_left_for_another_version(bench: Bench) -> None:
    newer, known = bench.stage(action="scripted.note.v2"), bench.stage(target="case-2")

    for _ in range(25):
        await bench.again(newer)
    await bench.carry(newer, known)

    row = bench.row(newer)
    assert (row.status, row.attempts, row.held, row.handovers) == ("prepared", 0, None, 0)
    assert bench.count("operations_deferred", why="not_mine") == 25
    assert bench.state(known) is State.CONFIRMED
