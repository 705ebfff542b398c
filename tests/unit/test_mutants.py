"""Every invariant has a mutant, and every mutant still applies: `make mutants` then shows which test notices it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATCHES = sorted((ROOT / "tests" / "mutants").glob("*.patch"))


def head(patch: Path, word: str) -> str:
    found = re.search(rf"^# {word}: (.+)$", patch.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{patch.name} has no line '# {word}: …'"
    return found[1]


def test_every_invariant_has_a_mutant() -> None:
    named = {head(patch, "invariant") for patch in PATCHES} - {"none"}  # none: what it breaks is a promise, but no invariant
    assert {int(one) for one in named} == set(range(1, 14))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_mutant_applies_and_names_tests_that_exist(patch: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in head(patch, "tests").split():
        assert (ROOT / name.partition("::")[0]).exists(), name
    checked = subprocess.run(["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
