"""The clock of a worker changes nothing."""

import sys
import time
from datetime import datetime, timedelta, tzinfo

import pytest
from bench import Bench
from scripted_provider import KEYED, SEEN, vanish

from acuse.protocol import State


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
