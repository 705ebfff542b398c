"""The guides are executed: the blocks of one, in order, are a test module of a host, run by a pytest of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDES = sorted((Path(__file__).parents[2] / "docs" / "guides").glob("*.md"))

_CONFTEST = """
import os

import pytest
from sqlalchemy import create_engine


@pytest.fixture
def engine():
    made = create_engine(os.environ["GUIDE_DATABASE_URL"])
    yield made
    made.dispose()
"""


def blocks(guide: Path) -> str:
    """All blocks of Python, at the lines where they stand, so that an error leads back into the guide."""
    written, lines = guide.read_text(encoding="utf-8"), []
    for found in re.finditer(r"^```python\n(.*?)^```$", written, re.MULTILINE | re.DOTALL):
        lines += [""] * (written.count("\n", 0, found.start(1)) - len(lines))
        lines += found[1].splitlines()
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_blocks_of_a_guide_pass(guide: Path, tmp_path: Path, fresh_database_url: str) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n", encoding="utf-8")
    (tmp_path / "test_guide.py").write_text(blocks(guide), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--tb=short"]
    environment = os.environ | {"GUIDE_DATABASE_URL": fresh_database_url}

    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    tests = re.findall(r"^def test_", blocks(guide), re.MULTILINE)
    assert f"{len(tests)} passed" in done.stdout


def test_every_name_of_the_testing_package_that_a_guide_names_is_there() -> None:
    import acuse.testing

    written = (GUIDES[0]).read_text(encoding="utf-8")
    table = re.findall(r"^\| (`[^|]*) \|", written, re.MULTILINE)
    named = {name for row in table for name in re.findall(r"`([a-z_]+)", row)}
    assert named - {"behaviour"} <= set(acuse.testing.__all__)
    assert "lost_reply" in named
