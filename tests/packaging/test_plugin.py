"""The pytest plugin as a host gets it: out of the wheel, in a project of the host's own, with a pytest of its own."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

_APP = """
from acuse import Action, Outbox


class SendEmail(Action, name="email.send.v1", target="case"):
    case: str


outbox = Outbox()


def tell(session):
    outbox.stage(session, SendEmail(case="case-318"), workflow="w", call="t1")
"""

_TESTS = """
import acuse.testing
import app
from acuse.testing import lost_reply


def test_it_is_the_wheel_that_is_tested():
    assert acuse.testing.__file__.startswith(FOLDER)


def test_the_fixtures_are_there(outbox, async_outbox, acuse_outbox):
    assert async_outbox.staged() == ()
    assert acuse_outbox() is not outbox


def test_in_memory(outbox):
    session = outbox.session()
    app.tell(session)
    session.commit()
    outbox.run_effects({"email.send.v1": lost_reply})
    assert outbox.only(app.SendEmail).state == "unknown"


def test_one_that_fails(outbox):
    app.tell(outbox.session())
    outbox.assert_nothing_staged()
"""

_WITHOUT = """
import sys


def test_nothing_of_it_is_loaded():
    assert {"sqlalchemy", "psycopg", "pydantic", "acuse.outbox", "acuse.testing.behaviour"} & set(sys.modules) == set()
"""


@pytest.fixture(scope="module")
def installed(wheel_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel holds, as an installation lays it down, before everything else on the path."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel_file) as wheel:
        wheel.extractall(folder)
    return folder


def run(installed: Path, project: Path, tests: str) -> subprocess.CompletedProcess[str]:
    (project / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (project / "app.py").write_text(_APP, encoding="utf-8")
    (project / "test_app.py").write_text(f"FOLDER = {str(installed)!r}\n{tests}", encoding="utf-8")
    # Without the other plugins of this environment: one of them may load what a test asks about.
    others = [it for one in entry_points(group="pytest11") if one.name != "acuse" for it in ("-p", f"no:{one.name}")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *others]
    return subprocess.run(
        command, cwd=project, env=os.environ | {"PYTHONPATH": str(installed)}, capture_output=True, text=True, check=False
    )


def test_a_host_tests_its_code_with_what_it_installed(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, _TESTS)

    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    # The error says what was staged, and points at the host's own line
    assert "expected nothing to be staged, but once something was; what was staged:" in done.stdout
    assert "1. email.send.v1 on case-318 in w: prepared, not committed" in done.stdout
    assert "observed.py" not in done.stdout


def test_a_run_that_does_not_use_it_pays_nothing(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, _WITHOUT)

    assert "1 passed" in done.stdout, done.stdout + done.stderr
