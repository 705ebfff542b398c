"""The ground truth in its file, the clock that tests move, and the gate that stops a write."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from acuse_adapters.simulators.clock import Clock
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.gate import Gate, Hold
from acuse_adapters.simulators.truth import Effect, GroundTruth

AT = "2026-11-30T06:00:00+00:00"


def effect(marker: str, request: int | None) -> Effect:
    return Effect(marker=marker, kind="note", id="N-1", account="main", target="case-1", at=AT, request=request)


def arrive(truth: GroundTruth, marker: str, fault: Fault | None = None) -> int:
    return truth.open_request(marker=marker, method="PUT", path="/x", fault=fault, script=None, at=AT)


def test_what_was_recorded_is_there_again_after_opening_the_file_anew(tmp_path: Path) -> None:
    # Given one write that took effect and one that did not
    truth = GroundTruth(tmp_path / "crm.jsonl")
    arrive(truth, "op_a", Fault.REFUSE_REPEAT)
    truth.commit(effects=[effect("op_a", 1)], rows=[("notes", "a", {"text": "hello"}), ("keys", "k", {"at": AT})])
    arrive(truth, "op_b")
    truth.commit(rows=[("keys", "k", None)])
    before = truth.report()
    truth.close()
    # When the file is opened again
    again = GroundTruth(tmp_path / "crm.jsonl")
    # Then nothing is missing
    assert again.report() == before
    assert [request["applied"] for request in before["requests"]] == [True, False]
    assert again.table("notes") == {"a": {"text": "hello"}}
    assert again.table("keys") == {}
    assert again.is_applied("op_a")
    assert again.refuses_repeats("op_a")
    assert not again.is_applied("op_b")
    again.close()


def test_a_last_line_cut_short_by_a_kill_is_dropped_and_writing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "crm.jsonl"
    truth = GroundTruth(path)
    arrive(truth, "op_a")
    truth.close()
    with path.open("ab") as file:
        file.write(b'{"effects": [{"mark')
    torn = GroundTruth(path)
    torn.commit(effects=[effect("op_a", 1)])
    torn.close()
    whole = GroundTruth(path)
    assert [entry["marker"] for entry in whole.report()["effects"]] == ["op_a"]
    whole.close()


def test_two_simulators_cannot_share_a_file(tmp_path: Path) -> None:
    truth = GroundTruth(tmp_path / "crm.jsonl")
    with pytest.raises(RuntimeError, match="in use by another simulator"):
        GroundTruth(tmp_path / "crm.jsonl")
    truth.close()


async def test_moving_the_clock_wakes_those_who_wait_for_a_moment() -> None:
    clock = Clock()
    moment = clock.now() + timedelta(hours=1)
    waiting = asyncio.create_task(clock.reach(moment))
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(1800)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(1801)
    await asyncio.wait_for(waiting, 1)


async def test_a_hold_catches_the_write_that_it_describes_and_only_that() -> None:
    # Given a hold on the second note of any marker
    gate = Gate()
    gate.arm(Hold(phase="before_apply", kind="note", skip=1))
    arrivals = [("op_a", "ticket"), ("op_b", "note"), ("op_c", "note"), ("op_d", "note")]
    # When writes come by
    tasks = [
        asyncio.create_task(gate.stop_at("before_apply", marker=marker, kind=kind, path="/p", request=n))
        for n, (marker, kind) in enumerate(arrivals, start=1)
    ]
    held = await gate.wait_held(1)
    # Then the second note is held, and goes on when it is released
    assert held == [{"marker": "op_c", "phase": "before_apply", "request": 3}]
    assert gate.release("op_x") == 0
    assert gate.release() == 1
    await asyncio.wait_for(asyncio.gather(*tasks), 1)
    assert await gate.wait_held(0.01) == []


async def test_a_hold_that_caught_nothing_can_be_disarmed() -> None:
    gate = Gate()
    gate.arm(Hold(phase="after_apply"))
    gate.release(disarm=True)
    await asyncio.wait_for(gate.stop_at("after_apply", marker="op_a", kind="note", path="", request=1), 1)
