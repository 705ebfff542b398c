"""Saving an outcome: races that are lost, and replies to COMMIT that never come."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bench import Bench
from cut_line import CutLine, cut_line
from failing_settles import failing_settles

from acuse.protocol import State
from acuse.store.engine import async_engine


@pytest.mark.case("R034")
async def test_a_settle_that_loses_races_is_repeated_and_the_provider_is_not(bench: Bench) -> None:
    one = bench.stage()

    with failing_settles(bench, ["40001", "40001", "40P01", "55P03", "57014"]):
        await bench.carry(one)

    assert bench.state(one) is State.CONFIRMED
    assert (bench.provider.called(one), bench.row(one).attempts) == (1, 1)


async def test_a_settle_that_cannot_be_saved_leaves_the_operation_in_the_air_and_not_forgotten(bench: Bench) -> None:
    # Given a database that refuses the outcome for a reason that no repetition cures
    one, other = bench.stage(), bench.stage(target="case-2")

    with failing_settles(bench, ["XX000"] * 9):
        await bench.carry(one, other)

    # Then both are in the air until their claims end, and then in doubt
    assert (bench.state(one), bench.state(other)) == (State.DISPATCHING, State.DISPATCHING)
    bench.pass_time(one, 120)
    bench.expire()
    assert bench.row(one).outcome_code == "claim_expired"


@asynccontextmanager
async def over_a_line(bench: Bench, database_url: str) -> AsyncIterator[tuple[CutLine, Any]]:
    with cut_line(database_url) as line:
        database = async_engine(line.url, name=bench.name)
        try:
            yield line, bench.another(bench.book(database=database))
        finally:
            await database.dispose()


@pytest.mark.case("R035")
@pytest.mark.parametrize("forwarded", [True, False], ids=["reply lost", "commit lost"])
async def test_a_claim_whose_commit_is_in_doubt_sends_once(bench: Bench, database_url: str, forwarded: bool) -> None:
    one = bench.stage()
    async with over_a_line(bench, database_url) as (line, engine):
        line.cut(b"acuse.claim(", forwarded=forwarded)

        await bench.carry(one, engine=engine)

        # Then the worker asks again with its own token: it claims, or takes the claim that it has made already
        assert line.cuts == 1
        assert bench.row(one).fence == (2 if forwarded else 1)
    assert (bench.state(one), bench.provider.called(one), bench.row(one).attempts) == (State.CONFIRMED, 1, 1)


@pytest.mark.case("R035")
@pytest.mark.parametrize("forwarded", [True, False], ids=["reply lost", "commit lost"])
async def test_a_dispatch_whose_commit_is_in_doubt_is_resolved_before_anything_is_sent(
    bench: Bench, database_url: str, forwarded: bool
) -> None:
    one = bench.stage()
    async with over_a_line(bench, database_url) as (line, engine):
        line.cut(b"acuse.dispatch(", forwarded=forwarded)

        await bench.carry(one, engine=engine)

        # Then nothing has left, and the ledger says so
        assert line.cuts == 1
        row = bench.row(one)
        assert (row.status, row.doubts, row.claim_until, bench.provider.calls) == ("prepared", 0, None, [])
        assert [attempt.outcome for attempt in bench.rows("attempt", one)] == (["not_sent"] if forwarded else [])
        await bench.again(one, engine=engine)
    assert (bench.state(one), bench.provider.called(one)) == (State.CONFIRMED, 1)


@pytest.mark.case("R035")
@pytest.mark.parametrize("forwarded", [True, False], ids=["reply lost", "commit lost"])
async def test_a_settle_whose_commit_is_in_doubt_is_written_once(bench: Bench, database_url: str, forwarded: bool) -> None:
    one = bench.stage(on_settled="host/remember")
    async with over_a_line(bench, database_url) as (line, engine):
        line.cut(b"acuse.settle(", forwarded=forwarded)

        await bench.carry(one, engine=engine)

        assert line.cuts == 1
    assert (bench.state(one), bench.provider.called(one), bench.row(one).attempts) == (State.CONFIRMED, 1, 1)
    assert [entry.kind for entry in bench.rows("ledger", one)] == ["staged", "dispatched", "settled"]
    assert len(bench.told(one)) == 1
