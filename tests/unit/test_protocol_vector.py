"""The language-neutral vectors: this implementation decides as they say, word for word."""

import itertools
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from acuse.protocol import Accepted, Ambiguous, NotSent, Refused, vector
from acuse.protocol.vector import DecideVector, OutcomeVector, arrow_problems, decide_vectors, outcome_vectors

DECIDE, OUTCOME = list(decide_vectors()), list(outcome_vectors())


@pytest.mark.parametrize("expected", DECIDE, ids=lambda v: v.name)
def test_the_decision_is_that_of_the_vector(expected: DecideVector) -> None:
    assert expected.problems() == []


@pytest.mark.invariant(5)
@pytest.mark.parametrize("expected", OUTCOME, ids=lambda v: v.name)
def test_the_settlement_is_that_of_the_vector(expected: OutcomeVector) -> None:
    assert expected.problems() == []


def test_the_arrows_are_those_of_the_file() -> None:
    assert arrow_problems() == []


def test_names_are_unique() -> None:
    names = [v.name for v in DECIDE] + [v.name for v in OUTCOME]

    assert len(set(names)) == len(names)


def test_every_kind_of_verdict_every_basis_and_every_finding_is_covered() -> None:
    assert len(DECIDE) >= 40
    assert {v.verdict["kind"] for v in DECIDE} == {"confirm", "reject", "requeue", "retry", "check", "review"}
    assert {v.verdict.get("basis") for v in DECIDE} == {None, "same_key", "upsert"}
    assert {v.verdict.get("incident") for v in DECIDE} == {None, "content_differs", "key_conflict"}
    kinds = {type(f.finding).__name__ for v in DECIDE for f in v.findings}
    assert kinds == {"Found", "TargetState", "Absent", "RefusedBefore", "Unavailable"}


def test_every_combination_of_outcome_and_doubt_is_covered() -> None:
    wanted = set(itertools.product((Accepted, NotSent, Ambiguous), (False,), (0, 1, 2)))
    wanted |= set(itertools.product((Refused,), (False, True), (0, 1, 2)))

    assert {(type(v.outcome), getattr(v.outcome, "covers_key", False), v.earlier_doubts) for v in OUTCOME} == wanted


def test_a_vector_that_differs_is_named_with_both_values() -> None:
    first = DECIDE[0]
    changed = DecideVector(**{f: getattr(first, f) for f in first.__slots__} | {"reason": "because"})

    assert changed.problems() == [f"{first.name}: reason is {first.reason!r}, not 'because'"]


@pytest.fixture
def changed_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the files that the loader reads instead of the shipped ones."""
    (tmp_path / "vectors").mkdir()
    for source in (files("acuse.protocol") / "vectors").iterdir():
        (tmp_path / "vectors" / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(vector, "files", lambda _: tmp_path)
    return tmp_path / "vectors"


@pytest.mark.parametrize("part", ["operation", "attempts", "findings", "contract"])
def test_a_field_that_nobody_knows_is_an_error_that_names_the_vector(changed_vectors: Path, part: str) -> None:
    path = changed_vectors / "decide.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    row = next(r for r in rows if r["findings"])
    target = row[part][0] if isinstance(row[part], list) else row[part]
    target["surprise"] = 1
    path.write_text(json.dumps(rows), encoding="utf-8")

    with pytest.raises(ValueError, match=r"(?s)decide\.json, vector .*surprise") as error:
        list(decide_vectors())
    assert row["name"] in str(error.value)


def test_an_outcome_of_an_unknown_kind_is_an_error_that_names_the_vector(changed_vectors: Path) -> None:
    path = changed_vectors / "outcome.json"
    path.write_text(
        json.dumps([{"name": "odd", "outcome": {"kind": "failed"}, "earlier_doubts": 0, "settlement": {}}]), encoding="utf-8"
    )

    with pytest.raises(ValueError, match=r"outcome\.json, vector 'odd'"):
        list(outcome_vectors())


def test_an_arrow_that_is_missing_is_told(changed_vectors: Path) -> None:
    path = changed_vectors / "arrows.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(rows[1:]), encoding="utf-8")

    assert arrow_problems() == ["arrow None -> prepared by ['host', 'operator']"]


def test_the_module_runs_the_vectors_and_prints_the_count() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "acuse.protocol.vector"], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert f"{len(DECIDE)} decisions, {len(OUTCOME)} outcomes, 13 arrows: 0 differ" in done.stdout


def test_the_module_fails_when_a_vector_differs(changed_vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed_vectors / "outcome.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    rows[0]["settlement"]["state"] = "unknown"
    path.write_text(json.dumps(rows), encoding="utf-8")

    assert vector.main() == 1
    assert rows[0]["name"] in capsys.readouterr().out
