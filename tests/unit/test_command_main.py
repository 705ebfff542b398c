"""The command line itself: what it knows, what it says about a mistake, and what it never says."""

import argparse
import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from acuse.command import main as command_line
from acuse.command.main import ENTRY_POINTS, main
from acuse.errors import ConfigurationError

OURS = {"accounts", "approvals", "demo", "dev", "doctor", "incidents", "migrate", "operations", "relay", "run", "worker"}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ACUSE_"):
            monkeypatch.delenv(name)


class Stub:
    """A command of somebody else."""

    name = "stub"
    help = "does what the test says"
    failure: Exception | None = None

    def configure(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--word")

    def run(self, arguments: argparse.Namespace) -> int:
        if self.failure is not None:
            raise self.failure
        print(arguments.word)
        return 3


stub = Stub()


def only(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Let these be the entry points of the group."""
    points = [EntryPoint(name, value, ENTRY_POINTS) for name, value in values.items()]
    monkeypatch.setattr(command_line, "entry_points", lambda group: points if group == ENTRY_POINTS else ())


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_help_names_every_command_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("--help") == 0
    out = capsys.readouterr().out
    listed = {line.split()[0] for line in out.splitlines() if line.startswith("    ") and not line.startswith("     ")}
    assert listed >= OURS
    assert "not installed" not in out
    assert "does not load" not in out


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_command_has_a_help_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(name, "--help") == 0
    assert f"usage: acuse {name}" in capsys.readouterr().out


def test_an_unknown_command_is_told_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("operation") == 2
    error = capsys.readouterr().err
    assert "invalid choice: 'operation'" in error
    assert "operations" in error


def test_no_command_at_all_is_a_mistake_in_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of() == 2
    assert "COMMAND" in capsys.readouterr().err


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    import acuse

    assert code_of("--version") == 0
    assert capsys.readouterr().out == f"acuse {acuse.__version__}\n"


def test_a_third_partys_command_stands_beside_ours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    only(monkeypatch, stub="test_command_main:stub")
    assert main(["stub", "--word", "hello"]) == 3
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.parametrize(
    ("name", "extra"), [("worker", "worker"), ("relay", "worker"), ("dev", "embedded"), ("demo", "embedded")]
)
def test_a_command_whose_import_fails_says_what_to_install(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, **{name: "dramatiq_that_is_not_there:it", "stub": "test_command_main:stub"})
    assert main([name]) == 2
    said = f"acuse {name} needs more than is installed (dramatiq_that_is_not_there): pip install 'acuse[{extra}]'\n"
    assert capsys.readouterr().err == said
    assert main(["stub"]) == 3, "the others go on"
    assert code_of("--help") == 0
    assert f"not installed: pip install 'acuse[{extra}]'" in capsys.readouterr().out


def test_a_missing_package_in_the_real_table_is_named() -> None:
    # Given the base installation, which brings no broker; in a process of its own, since modules are loaded once
    program = "import sys; sys.modules['redis'] = None; from acuse.command.main import main; sys.exit(main(['relay']))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "acuse relay needs more than is installed (redis): pip install 'acuse[worker]'\n"


def test_a_command_that_does_not_load_takes_no_other_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, broken="test_command_main:no_such_name", stub="test_command_main:stub")
    assert code_of("--help") == 0
    assert "does not load: AttributeError" in capsys.readouterr().out
    assert main(["stub"]) == 3
    with pytest.raises(AttributeError):
        main(["broken"])


def test_an_error_on_purpose_is_a_sentence_and_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, stub="test_command_main:stub")
    monkeypatch.setattr(stub, "failure", ConfigurationError("set the thing"))
    assert main(["stub"]) == 2
    assert capsys.readouterr().err == "acuse stub: set the thing\n"


@pytest.mark.parametrize(("failure", "code"), [(KeyboardInterrupt(), 130)])
def test_ctrl_c_is_no_traceback(failure: Exception, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, stub="test_command_main:stub")
    monkeypatch.setattr(stub, "failure", failure)
    assert main(["stub"]) == code


@pytest.mark.parametrize("name", ["relay", "worker", "run", "doctor"])
def test_wrong_settings_are_named_by_their_variables_and_never_shown(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACUSE_QUEUE_BOUND", "geheim-1")
    monkeypatch.setenv("ACUSE_LOG_LEVEL", "geheim-2")
    assert main([name]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"acuse {name}: settings are wrong:\n")
    for variable in ("ACUSE_DATABASE_URL", "ACUSE_QUEUE_BOUND", "ACUSE_LOG_LEVEL"):
        assert f"\n  {variable}: " in error
    assert "geheim" not in error


@pytest.mark.parametrize("url", ["mysql://user:geheim@127.0.0.1/x", "geheim"])
@pytest.mark.parametrize(
    "words", [("migrate",), ("operations", "list"), ("accounts", "list"), ("approvals", "list"), ("incidents", "list")]
)
def test_a_url_that_is_not_postgresql_is_refused_without_being_shown(
    words: tuple[str, ...], url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACUSE_DATABASE_URL", url)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "PostgreSQL" in error or "postgresql+psycopg://" in error
    assert "geheim" not in error


@pytest.mark.parametrize(
    "words", [("migrate",), ("operations", "list"), ("accounts", "list"), ("approvals", "list"), ("incidents", "list")]
)
def test_without_a_database_it_says_which_variable_to_set(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "set ACUSE_DATABASE_URL or give --database-url" in capsys.readouterr().err


def test_run_serves_no_metrics_and_says_what_to_do_instead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACUSE_DATABASE_URL", "postgresql://127.0.0.1/x")
    monkeypatch.setenv("ACUSE_METRICS_PORT", "9100")
    assert main(["run"]) == 2
    assert "ACUSE_METRICS_PORT: `acuse run` holds two processes in one" in capsys.readouterr().err


def test_the_demonstration_takes_both_servers_or_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("acuse_adapters.demo.command.configure_logging", lambda *_: None)  # it lasts for the whole process
    monkeypatch.setenv("ACUSE_DATABASE_URL", "postgresql://127.0.0.1/x")
    assert main(["demo", "--cases", "3"]) == 2
    assert "set both ACUSE_DATABASE_URL and ACUSE_REDIS_URL, or neither" in capsys.readouterr().err
    assert main(["demo", "--cases", "2"]) == 2
    assert "--cases: give 3 to 20000" in capsys.readouterr().err
