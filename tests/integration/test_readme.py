"""The READMEs are executed: every block of Python, in order, against a real database; every command that they name exists."""

import argparse
import re
import sys
import types
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from acuse import Ledger, State
from acuse.command.operations import operations
from acuse.settings import Settings
from acuse.store.engine import sync_engine

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def blocks(file: Path) -> Iterator[tuple[int, str]]:
    """Each block of Python with the number of the line before it."""
    written = file.read_text(encoding="utf-8")
    for found in re.finditer(r"^```python\n(.*?)^```$", written, re.MULTILINE | re.DOTALL):
        yield written.count("\n", 0, found.start(1)), found[1]


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    """The reader's engine, on a database with a table of the reader's own."""
    engine = sync_engine(fresh_database_url)
    with engine.begin() as connection:
        connection.execute(text("create table case_file (id text primary key, status text not null)"))
        connection.execute(text("insert into case_file select 'case-' || n, 'open' from generate_series(318, 319) n"))
    yield engine
    engine.dispose()


def execute(file: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run a file's blocks as one module, with line numbers that lead back into the file. Returns what they defined."""
    module = types.ModuleType("of_a_readme")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with engine.begin() as connection:  # of the reader's
        module.__dict__.update(engine=engine, connection=connection)
        for line, block in blocks(file):
            exec(compile("\n" * line + block, str(file), "exec"), module.__dict__)  # our own file
    return module.__dict__


@pytest.mark.invariant(1)
def test_the_blocks_of_the_readme_do_what_it_says(
    ledger: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = execute(README, ledger, monkeypatch)
    printed = capsys.readouterr().out.splitlines()

    # The change, the event and its two operations are there
    with ledger.connect() as connection:
        status = connection.execute(text("select status from case_file where id = 'case-318'")).scalar_one()
        events = [tuple(row) for row in connection.execute(text("select name, workflow_id from acuse.event"))]
    assert status == "closed"
    assert events == [("onboarding.case_closed.v1", "onboarding-42")]
    first, second = (one.operation_id for one in made["said"].operations)
    found = Ledger(ledger)
    assert [found.get(one).action for one in (first, second)] == ["crm.close_case.v1", "email.send.v1"]
    assert found.get(second).waits_for == (first,)
    # One effect was staged by a tool, under the id of its call
    staged = made["staged"]
    assert (staged.created, staged.in_doubt) == (True, False)
    assert (found.get(staged.operation_id).call, found.get(staged.operation_id).workflow) == ("toolu_01abc", "onboarding-43")
    # Nothing was sent, and the reader was told so
    assert {record.state for record in found.find().operations} == {State.PREPARED}
    assert printed == [
        "prepared - Nothing was sent yet. It is sent as soon as a worker is free.",
        f"{staged.operation_id} True False",
    ]


def test_the_second_call_of_a_block_makes_nothing_new(ledger: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    first = execute(README, ledger, monkeypatch)
    # A repeated call returns the operation that is already there, as the README says
    _, block = list(blocks(README))[1]
    again = {**first}
    exec(compile(block, str(README), "exec"), again)
    assert again["staged"].operation_id == first["staged"].operation_id
    assert again["staged"].created is False
    # And the same wish under a new id is said to be in doubt
    exec(compile(block.replace("toolu_01abc", "toolu_02def"), str(README), "exec"), again)
    assert again["staged"].operation_id == first["staged"].operation_id
    assert len(Ledger(ledger).find().operations) == 3


@pytest.mark.parametrize("part", ["adapters", "service", "relay", "migrations"])
def test_the_blocks_of_a_parts_readme_run(part: str, ledger: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(ROOT / part / "README.md", ledger, monkeypatch)


def test_every_command_setting_and_file_that_the_readme_names_exists() -> None:
    written = README.read_text(encoding="utf-8")
    known = {point.name for point in entry_points(group="acuse.commands")}
    assert set(re.findall(r"`acuse ([a-z]+)", written)) <= known
    assert {"migrate", "relay", "worker", "run", "dev", "operations", "doctor"} <= set(re.findall(r"`acuse ([a-z]+)", written))

    parser = argparse.ArgumentParser()
    operations.configure(parser)
    acts = re.search(r"`acuse operations ([a-z| -]+)`", written)
    assert acts
    [choices] = [action.choices for action in parser._actions if action.dest == "act"]
    assert set(acts[1].split(" | ")) == set(choices or ())

    named = set(re.findall(r"\bACUSE_[A-Z_]+[A-Z]\b", written))
    assert named <= {f"ACUSE_{field}".upper() for field in Settings.model_fields}
    for target in re.findall(r"\]\(([^)#]+)\)", written):
        assert (ROOT / target).exists(), target
    for goal in re.findall(r"`?make ([a-z]+)", written):
        assert re.search(rf"^{goal}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE) or goal == "a", goal
