"""Test files are imported by their bare names: two of one name cannot be collected in one run."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_two_files_of_tests_have_one_name() -> None:
    names = Counter(path.name for folder in TESTS.iterdir() if folder.is_dir() for path in folder.glob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
