"""The fault matrix: its table leaves nothing out silently, and a sample of its cells runs; `make faults` runs all of them."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET

import pytest

from acuse_adapters.faults.expect import EXPECTED, expected
from acuse_adapters.faults.judge import Result
from acuse_adapters.faults.matrix import chosen, run
from acuse_adapters.faults.report import as_json, as_junit
from acuse_adapters.faults.skipped import skipped
from acuse_adapters.faults.strike import script_of
from acuse_adapters.faults.table import ROWS, Cell, cells
from acuse_adapters.faults.words import Boundary, Contract, Fault, Window

SAMPLE = (
    "broker fetch × connection cut × keyed",
    "broker fetch × Redis wiped × none",
    "dispatch commit × reply to COMMIT lost × none",
    "dispatch commit × stalled worker wakes after its claim × keyed",
    "dispatch commit × SIGKILL (after) × lagging look-up without bound",
    "provider applied × SIGKILL × keyed, window closed",
    "provider applied × connection cut × keyed",
    "provider applied × connection cut × upsert with precondition",
    "provider applied × SIGTERM × none",
    "settle commit × connection cut × none",
    "reply received × stalled worker wakes after its claim × none",
    "reply received × stalled worker wakes after its claim (refused) × none",
    "release of dependants × SIGKILL (refused) × upsert with precondition",
    "settled message × SIGKILL (of the worker) × upsert with precondition",
    "settled message × SIGKILL (of the relay, at its push) × upsert with precondition",
)
"""Some of every kind. `tests/mutants/faults-*.patch` plant bugs, and name the cells that must catch them."""


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    """The cells that this session's tests ask for, run side by side."""
    asked = {item.callspec.params["name"] for item in request.session.items if item.name.startswith("test_a_cell_ends")}  # type: ignore[attr-defined]
    wanted = [cell for cell in cells() if cell.name in asked]
    return {result.cell.name: result for result in run(wanted, tmp_path_factory.mktemp("faults"), seed=1)}


@pytest.mark.timeout(600)  # of the first of them, which waits for all
@pytest.mark.parametrize("name", SAMPLE, ids=slug)
def test_a_cell_ends_as_its_window_and_its_contract_demand(results: Mapping[str, Result], name: str) -> None:
    result = results[name]
    assert not result.wrong, f"{result.line}\n{result.log}"


def test_every_boundary_and_fault_and_contract_is_a_cell_or_says_why_not() -> None:
    tried = {(row.boundary, row.fault, contract) for row in ROWS for contract in row.contracts}
    left_out = {(one.boundary, one.fault, one.contract): one.reason for one in skipped()}
    for boundary in Boundary:
        for fault in Fault:
            for contract in Contract:
                told = left_out.get((boundary, fault, contract), left_out.get((boundary, fault, "every contract")))
                assert ((boundary, fault, contract) in tried) != (told is not None), (boundary, fault, contract)
                assert told is None or len(told) > 20


def test_every_boundary_every_fault_and_every_contract_of_ours_is_struck() -> None:
    assert {row.boundary for row in ROWS} == set(Boundary)
    assert {row.fault for row in ROWS} == set(Fault)
    assert {cell.contract for cell in cells()} == set(Contract) - {Contract.TOKEN}
    assert {cell.window for cell in cells()} == set(Window)


def test_no_two_cells_have_one_name() -> None:
    names = [cell.name for cell in cells()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("window", Window)
@pytest.mark.parametrize("contract", [contract for contract in Contract if contract is not Contract.TOKEN])
def test_no_right_end_is_a_double_and_a_confirmed_one_has_its_object(window: Window, contract: Contract) -> None:
    for end in expected(window, contract):
        assert end.objects <= 1
        assert end.objects <= end.calls
        assert (end.state, end.objects) != ("confirmed", 0)


def test_where_nobody_can_tell_the_right_end_is_unknown() -> None:
    """A contract without key and look-up is certain only where a receipt, or the word that nothing left, was kept."""
    certain = {window for window in Window if {end.state for end in expected(window, Contract.NONE)} == {"confirmed"}}
    assert certain == {
        Window.BEFORE_DISPATCH,
        Window.KNOWN_UNSENT,
        Window.RECEIPT,
        Window.TOLD_LATE,
        Window.UNSENT_LATE,
    }
    assert set(EXPECTED) == set(Window)


def test_a_filter_is_a_part_of_a_name_or_a_pattern() -> None:
    assert {cell.row.boundary for cell in chosen("look-up × SIGKILL")} == {Boundary.LOOK_UP}
    assert {cell.contract for cell in chosen("claim*× none")} == {Contract.NONE}
    assert {cell.row.boundary for cell in chosen("ack ×", "look-up × SIGKILL")} == {Boundary.ACK, Boundary.LOOK_UP}
    assert [cell.name for cell in chosen("look-up × SIGKILL × keyed")] == ["look-up × SIGKILL × keyed"]
    assert chosen("no such thing") == []
    assert len(chosen()) == len(list(cells()))


def test_a_misbehaviour_of_the_provider_is_told_to_its_simulator_before_the_cell_runs() -> None:
    assert all(script_of(cell.row.strike) for cell in chosen("bytes sent × SIGKILL"))


def result_of(cell: Cell, *wrong: str) -> Result:
    return Result(cell, 2, 2, "confirmed", 1.0, tuple(wrong), log="worker\x1b[0m said")


def test_a_report_counts_the_cells_and_names_what_is_wrong() -> None:
    first, second, *_ = cells()
    results = [result_of(first), result_of(second, "doubled")]

    told = as_json(results, 12.34, 7)
    assert (told["cells"], told["wrong"], told["seconds"], told["seed"]) == (2, 1, 12.3, 7)
    assert told["results"][1]["verdict"] == "WRONG: doubled"
    assert {"boundary", "fault", "contract", "reason"} == set(told["skipped"][0])

    suite = ET.fromstring(as_junit(results, 12.34))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    [failure] = suite.iter("failure")
    assert failure.get("message") == "WRONG: doubled"
    assert "\x1b" not in (failure.text or "")


def test_a_line_of_the_report_reads_as_a_sentence() -> None:
    [cell] = [cell for cell in cells() if cell.name == SAMPLE[4]]
    line = f"{SAMPLE[4]} → calls 2, objects 2, confirmed, WRONG: doubled"
    assert result_of(cell, "doubled").line == line


def test_no_two_windows_are_one() -> None:
    """Two members of one value would be one member, and one of their columns would be lost."""
    for axis in (Boundary, Fault, Contract, Window):
        assert len(axis.__members__) == len(list(axis))


def test_the_sample_names_cells_that_exist() -> None:
    assert set(SAMPLE) <= {cell.name for cell in cells()}
