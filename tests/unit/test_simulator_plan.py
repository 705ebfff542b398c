"""The plan of faults: the same seed gives the same misfortune, whatever the order of arrival."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from acuse_adapters.simulators.choice import Choice, Chooser, pick
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.plan import FaultPlan, ScriptEntry, demo_plan, load_plan

MARKERS = [f"op_{number:032x}" for number in range(2000)]


def drawn(chooser: Chooser, marker: str, text: str = "") -> Fault | None:
    choice = chooser.peek(marker, text)
    chooser.take(marker, choice)
    return choice.fault


def test_the_same_seed_draws_the_same_faults_in_any_order_of_arrival() -> None:
    # Given two simulators with one plan, and writes that arrive in two different orders
    plan = demo_plan(7)
    writes = [(marker, nth) for marker in MARKERS for nth in range(2)]
    shuffled = [marker for marker, _ in writes]
    random.Random(3).shuffle(shuffled)
    # When both draw
    outcomes = []
    for order in ([marker for marker, _ in writes], shuffled):
        chooser, seen = Chooser(plan), {}
        for marker in order:
            seen.setdefault(marker, []).append(drawn(chooser, marker))
        outcomes.append(seen)
    # Then each marker met the same faults
    assert outcomes[0] == outcomes[1]


def test_another_seed_draws_other_faults() -> None:
    first, second = ([pick(demo_plan(seed).rates, seed, marker, 1) for marker in MARKERS] for seed in (1, 2))
    assert first != second


def test_a_repetition_of_the_same_marker_draws_anew() -> None:
    rates = {Fault.DROP_REPLY: 0.5}
    assert {tuple(pick(rates, 1, marker, nth) for nth in (1, 2)) for marker in MARKERS} >= {
        (Fault.DROP_REPLY, None),
        (None, Fault.DROP_REPLY),
    }


@pytest.mark.parametrize("seed", [0, 1, 7, 4711])
def test_the_demo_plan_troubles_about_one_write_in_eight_and_refuses_rarely(seed: int) -> None:
    counts = Counter(pick(demo_plan(seed).rates, seed, marker, 1) for marker in MARKERS)
    faulty = len(MARKERS) - counts[None]
    assert 0.09 < faulty / len(MARKERS) < 0.16
    assert 0 < counts[Fault.REFUSE] < 0.012 * len(MARKERS)


def test_the_demo_plan_covers_every_fault_but_the_broken_promise_about_keys() -> None:
    assert set(Fault) - set(demo_plan(1).rates) == {Fault.FORGET_KEY}


def test_rates_above_one_are_refused() -> None:
    with pytest.raises(ValidationError, match="add up to more than 1"):
        FaultPlan(rates={Fault.STALL: 0.6, Fault.REFUSE: 0.6})


def test_a_script_is_walked_step_by_step_and_then_the_rates_decide() -> None:
    entry = ScriptEntry.model_validate({"marker": "op_a", "faults": ["drop_reply", "none", "throttle"]})
    chooser = Chooser(FaultPlan(script=(entry,), rates={Fault.LOCKED: 1.0}))
    assert [drawn(chooser, "op_a") for _ in range(4)] == [Fault.DROP_REPLY, None, Fault.THROTTLE, Fault.LOCKED]
    assert drawn(chooser, "op_b") is Fault.LOCKED


def test_each_marker_walks_a_shared_script_on_its_own_unless_it_says_otherwise() -> None:
    own = Chooser(FaultPlan(script=(ScriptEntry(faults=(Fault.STALL,)),)))
    assert [drawn(own, "op_a"), drawn(own, "op_b"), drawn(own, "op_a")] == [Fault.STALL, Fault.STALL, None]
    together = Chooser(FaultPlan(script=(ScriptEntry(faults=(Fault.STALL,), per="entry"),)))
    assert [drawn(together, "op_a"), drawn(together, "op_b")] == [Fault.STALL, None]


def test_a_script_entry_matches_by_a_part_of_the_text() -> None:
    chooser = Chooser(FaultPlan(script=(ScriptEntry(match="case-3", faults=(Fault.REFUSE,)),)))
    assert drawn(chooser, "op_a", "PATCH /v1/main/cases/case-4") is None
    assert drawn(chooser, "op_b", "PATCH /v1/main/cases/case-3") is Fault.REFUSE


def test_looking_does_not_count() -> None:
    chooser = Chooser(FaultPlan(script=(ScriptEntry(faults=(Fault.STALL,)),)))
    assert chooser.peek("op_a", "") == chooser.peek("op_a", "") == Choice(Fault.STALL, 0)


def test_before_the_marker_is_known_only_a_common_script_can_tell() -> None:
    own = Chooser(FaultPlan(script=(ScriptEntry(faults=(Fault.THROTTLE,)),), rates={Fault.LOCKED: 1.0}))
    assert own.peek_unmarked("ops@example.org").fault is None
    common = Chooser(FaultPlan(script=(ScriptEntry(faults=(Fault.THROTTLE,), per="entry"),)))
    assert common.peek_unmarked("ops@example.org").fault is Fault.THROTTLE


def test_a_plan_on_the_command_line_is_a_word_json_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"late_seconds": 3}')
    assert load_plan(None, 5) == FaultPlan(seed=5)
    assert load_plan("demo", 5) == demo_plan(5)
    assert load_plan(str(file), 5) == FaultPlan(seed=5, late_seconds=3)
    assert load_plan('{"seed": 9}', 5).seed == 9


def test_an_unknown_fault_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="explode"):
        FaultPlan.model_validate({"rates": {"explode": 0.1}})
