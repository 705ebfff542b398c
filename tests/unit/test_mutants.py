"""Every invariant has a mutant, and every mutant still applies: `make mutants` then shows which test notices it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from acuse_adapters.faults.table import cells

ROOT = Path(__file__).parents[2]
PATCHES = sorted((ROOT / "tests" / "mutants").glob("*.patch"))


def heads(patch: Path, word: str) -> list[str]:
    return re.findall(rf"^# {word}: (.+)$", patch.read_text(encoding="utf-8"), re.MULTILINE)


def head(patch: Path, word: str) -> str:
    found = heads(patch, word)
    assert found, f"{patch.name} has no line '# {word}: …'"
    return str(found[0])


def test_every_invariant_has_a_mutant() -> None:
    named = {head(patch, "invariant") for patch in PATCHES} - {"none"}  # none: what it breaks is a promise, but no invariant
    assert {int(one) for one in named} == set(range(1, 14))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_mutant_applies_and_names_tests_or_cells_that_exist(patch: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    assert head(patch, "what")
    tests = [name for line in heads(patch, "tests") for name in line.split()]
    wanted = heads(patch, "cells")
    assert tests or wanted, f"{patch.name} names neither tests nor cells"
    for name in tests:
        assert (ROOT / name.partition("::")[0]).exists(), name
    assert set(wanted) <= {cell.name for cell in cells()}
    checked = subprocess.run(["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_twenty_bugs_are_planted_for_the_fault_matrix_at_many_boundaries() -> None:
    planted = [patch for patch in PATCHES if patch.name.startswith("faults-")]
    struck = {name.partition(" × ")[0] for patch in planted for name in heads(patch, "cells")}
    assert len(planted) >= 20
    assert len(struck) >= 12
