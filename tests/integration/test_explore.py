"""The schedule explorer: what its seeds draw breaks no promise, comes again exactly, and becomes short when it fails."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from acuse_adapters.explore.explorer import explore
from acuse_adapters.explore.ground import Ground
from acuse_adapters.explore.report import told
from acuse_adapters.explore.schedule import Plan, Result, Runner
from acuse_adapters.explore.shrink import shrunk
from acuse_adapters.explore.wish import Wish

SCHEDULES = int(os.environ.get("ACUSE_TEST_SCHEDULES", "100"))
FIRST_SEED = 1

pytestmark = pytest.mark.session("it steps statement by statement through sessions with settings of their own")

FOUND = sorted((Path(__file__).parent / "explored").glob("*.json"))
"""Schedules that found a planted mistake (tests/mutants/explore-*.patch), shortened, as `acuse explore --json` has them."""

LOST = """
create or replace function acuse.turn(o acuse.operation) returns text language sql volatile as 'select null::text'
"""
"""A planted mistake: nothing waits for its turn."""


@pytest.fixture
def ground(fresh_database_url: str) -> Iterator[Ground]:
    with Ground(fresh_database_url) as made:
        yield made


@pytest.mark.invariant(3)
@pytest.mark.invariant(5)
@pytest.mark.invariant(7)
@pytest.mark.invariant(8)
@pytest.mark.invariant(9)
@pytest.mark.invariant(10)
@pytest.mark.timeout(600)
def test_no_schedule_of_the_sample_breaks_a_promise(fresh_database_url: str) -> None:
    found = explore(fresh_database_url, FIRST_SEED, SCHEDULES, most_violations=1)
    assert not found.violations, told(found.violations[0])
    assert found.schedules == SCHEDULES
    assert found.steps > 50 * SCHEDULES


@pytest.mark.timeout(300)
def test_a_schedule_that_found_a_mistake_once_breaks_no_promise(ground: Ground) -> None:
    runner, wrong = Runner(ground), []
    for file in FOUND:
        result = runner.run(Plan.of(json.loads(file.read_text(encoding="utf-8"))))
        wrong += [f"{file.stem}: {told(result)}"] if result.wrong else []
    assert not wrong, "\n".join(wrong)
    assert FOUND


@pytest.mark.timeout(300)
def test_a_schedule_that_found_a_mistake_once_is_still_made_as_written(ground: Ground) -> None:
    # A move whose name has changed is left out, and what is left finds nothing: find the schedule anew, with its patch.
    runner = Runner(ground)
    for file in FOUND:
        written = json.loads(file.read_text(encoding="utf-8"))
        assert list(runner.run(Plan.of(written)).made) == written["moves"], file.stem
        assert (file.parents[2] / "mutants" / f"explore-{file.stem}.patch").exists(), "whose planted mistake was it?"


@pytest.mark.timeout(300)
def test_who_asks_for_what_is_in_doubt_has_no_operation(ground: Ground) -> None:
    # Given two of one workflow that ask for the same, so that nothing is staged for the second, whose approval is revoked
    wishes = tuple(Wish(name, 3, "thing-1", approved=True, workflow=True) for name in ("op1", "op2"))
    staging = [(f"a host stages {name}", f"host.{name}:stage", f"host.{name}:COMMIT") for name in ("op1", "op2")]
    moves = (*staging[0], *staging[1], "the approval of op2 is revoked", "revoker.op2:revoke_approval", "revoker.op2:COMMIT")

    # When the first is carried out
    result = Runner(ground).run(Plan(1, wishes, moves))

    # Then that is no mistake
    assert "in_doubt" in told(result)
    assert not result.wrong, told(result)


@pytest.mark.timeout(300)
def test_a_seed_is_the_same_story_every_time(ground: Ground) -> None:
    runner = Runner(ground)
    first = [runner.run(Plan.drawn(seed)) for seed in range(500, 520)]
    again = [Runner(ground).run(Plan.drawn(seed)) for seed in reversed(range(500, 520))][::-1]
    assert [one.story for one in again] == [one.story for one in first]
    # What was drawn and what is told are the same, too.
    made = [runner.run(Plan(one.plan.seed, one.plan.wishes, one.made)) for one in first[:5]]
    assert [one.story for one in made] == [one.story for one in first[:5]]


def failing(runner: Runner) -> Result:
    for seed in range(500):
        result = runner.run(Plan.drawn(seed))
        if result.wrong:
            return result
    pytest.fail("the planted mistake was not found")


@pytest.mark.timeout(300)
def test_a_planted_mistake_is_found_comes_again_exactly_and_becomes_short(ground: Ground, fresh_database_url: str) -> None:
    # Given a ledger in which nothing waits for its turn
    with create_engine(fresh_database_url, poolclass=NullPool).begin() as connection:
        connection.execute(text(LOST))
    runner = Runner(ground)

    # When it is found
    found = failing(runner)

    # Then its seed tells the same story again, and what is left of it is shorter, fails alike, and comes again as well
    assert runner.run(Plan.drawn(found.plan.seed)) == found
    short = shrunk(found, runner.run, most_runs=60)
    assert len(short.made) < len(found.made) / 2
    assert runner.run(short.plan).story == short.story
    assert short.wrong[0] in told(short)
