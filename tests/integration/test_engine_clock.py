"""The clock of a worker changes nothing."""

import asyncio
import sys
import time
from datetime import datetime, timedelta, tzinfo
from typing import Any

import pytest
from bench import Bench
from scripted_provider import KEYED, SEEN, Hold, Provider, vanish

from acuse.protocol import Concerns, NotSent, Outcome, State
from acuse_adapters.port import Operation


@pytest.fixture(params=[timedelta(minutes=-10), timedelta(minutes=10)], ids=["ten minutes slow", "ten minutes fast"])
def wrong_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> timedelta:
    """The wall clock of this process is wrong, for everything of ours that reads it."""
    by: timedelta = request.param
    real = time.time

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + by

    monkeypatch.setattr(time, "time", lambda: real() + by.total_seconds())
    for name, module in list(sys.modules.items()):
        if name.startswith("acuse") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", Wrong)
    return by


@pytest.mark.case("R047")
@pytest.mark.invariant(12)
async def test_the_clock_of_a_worker_changes_nothing(bench: Bench, wrong_clock: timedelta) -> None:
    # Given a window that is open for about a second more, by the database
    bench.promise(KEYED)
    one, closed, seen = bench.stage(), bench.stage(target="case-2"), bench.stage(target="case-3")
    bench.provider.will(vanish, vanish)
    for it, age in ((one, 3580), (closed, 3600)):
        await bench.carry(it)
        bench.pass_time(it, age)

    await bench.again(one)
    await bench.again(closed)

    # Then it is used while it is open, and not when it is closed, whatever the worker's clock says
    assert (bench.state(one), bench.provider.called(one)) == (State.CONFIRMED, 2)
    assert (bench.state(closed), bench.provider.called(closed)) == (State.UNKNOWN, 1)
    bench.promise(SEEN)
    bench.provider.will(vanish)
    await bench.carry(seen)
    await bench.again(seen)
    assert bench.state(seen) is State.UNKNOWN  # a read that came too early is no proof
    now = bench.ask("select clock_timestamp()")
    assert all(abs(entry.at - now) < timedelta(minutes=1) for entry in bench.rows("ledger", one))


async def patience(_provider: Provider, _operation: Operation[Any]) -> Outcome:
    return NotSent("429: slow down", timedelta(minutes=2), concerns=Concerns.OPERATION)


@pytest.mark.case("R047")
@pytest.mark.invariant(12)
@pytest.mark.usefixtures("wrong_clock")
async def test_a_worker_with_a_wrong_clock_steals_no_claim_and_waits_no_longer(bench: Bench) -> None:
    # Given one in the hands of a worker whose claim is live, and one that is to come again in two minutes
    held = Hold()
    bench.provider.will(held, patience)
    one, later = bench.stage(), bench.stage(target="case-2")
    carrying = asyncio.create_task(bench.carry(one))
    await held.arrived.wait()
    await bench.carry(later)

    # When a worker whose clock is ten minutes off comes along, as does a recover loop
    other = bench.another()
    bench.expire()
    await bench.carry(one, later, engine=other)

    # Then it has taken neither
    assert bench.count("duplicates_prevented", other, kind="delivery") == 2
    assert (bench.state(one), bench.row(one).fence, bench.provider.called(later)) == (State.DISPATCHING, 1, 1)
    held.released.set()
    await carrying
    assert (bench.state(one), bench.provider.called(one), bench.provider.made(one)) == (State.CONFIRMED, 1, 1)

    # And when the two minutes are over by the database, plus a fifth of jitter, it waits no longer
    bench.pass_time(later, 2 * 60 * 1.2)
    await bench.carry(later, engine=other)
    assert (bench.state(later), bench.provider.called(later), bench.provider.made(later)) == (State.CONFIRMED, 2, 1)
