"""The ledger against everything that may happen to it, in any order, on a real database.

`ACUSE_TEST_EXAMPLES` says how many lives are tried, `ACUSE_TEST_STEPS` how many steps each has at most. Where CI is set,
Hypothesis' own profile of that name makes every run the same; elsewhere each run tries other lives.
"""

import importlib
import os
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from stateful.machine import LedgerMachine

from acuse.store.engine import sync_engine

EXAMPLES = int(os.environ.get("ACUSE_TEST_EXAMPLES", "40"))
STEPS = int(os.environ.get("ACUSE_TEST_STEPS", "40"))

SHRINKING_SECONDS = 400
"""Hypothesis looks for the shortest failing life for up to five minutes."""

BACK_OFF = timedelta(seconds=100)
"""The first waits of the decision, nearly a tick here: so they are over by ticks, and not by how slow the machine is."""


@pytest.mark.invariant(1)
@pytest.mark.invariant(2)
@pytest.mark.invariant(3)
@pytest.mark.invariant(5)
@pytest.mark.invariant(6)
@pytest.mark.invariant(7)
@pytest.mark.invariant(8)
@pytest.mark.invariant(9)
@pytest.mark.invariant(10)
@pytest.mark.timeout(SHRINKING_SECONDS + 5 * EXAMPLES)
def test_the_ledger_keeps_its_word_whatever_happens(fresh_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = importlib.import_module("acuse.protocol.decide")  # by its name: the package holds a function that is called the same
    monkeypatch.setattr(rules, "FIRST_LOOK", BACK_OFF)
    monkeypatch.setattr(rules, "FIRST_RETRY", BACK_OFF)
    engine = sync_engine(fresh_database_url)

    class Ledger(LedgerMachine):
        def __init__(self) -> None:
            super().__init__(engine)

    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    try:
        run_state_machine_as_test(Ledger, settings=chosen)
    finally:
        engine.dispose()
