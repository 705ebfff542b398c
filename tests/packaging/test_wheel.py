"""The wheel: what users get, and nothing else."""

import configparser
import email
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = {
    "acuse": ROOT / "service" / "acuse",
    "acuse_relay": ROOT / "relay" / "acuse_relay",
    "acuse_adapters": ROOT / "adapters" / "acuse_adapters",
    "acuse_migrations": ROOT / "migrations" / "acuse_migrations",
}
INFO = f"acuse-{PROJECT['version']}.dist-info"


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(wheel_file) as opened:
        yield opened


@pytest.fixture
def metadata(wheel: zipfile.ZipFile) -> Message:
    return email.message_from_bytes(wheel.read(f"{INFO}/METADATA"))


def test_it_holds_every_file_of_the_four_packages_and_no_other(wheel: zipfile.ZipFile) -> None:
    wanted = {
        f"{name}/{file.relative_to(folder).as_posix()}"
        for name, folder in PACKAGES.items()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    there = {name for name in wheel.namelist() if not name.startswith(f"{INFO}/")}
    assert there == wanted
    assert {name.split("/")[0] for name in there} == set(PACKAGES)


def test_what_is_no_python_is_in_there_too(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    sql = {file.name for file in (PACKAGES["acuse_migrations"] / "versions" / "sql_0001").glob("*.sql")}
    assert sql
    assert {f"acuse_migrations/versions/sql_0001/{name}" for name in sql} <= names
    assert {f"acuse/protocol/vectors/{name}.json" for name in ("arrows", "decide", "outcome")} <= names


def test_the_entry_points_are_those_of_the_project(wheel: zipfile.ZipFile) -> None:
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read_string(wheel.read(f"{INFO}/entry_points.txt").decode())
    there = {group: dict(parser[group]) for group in parser.sections()}
    assert there == {"console_scripts": PROJECT["scripts"], **PROJECT["entry-points"]}
    assert {"acuse.commands", "acuse.checks", "acuse.processes", "acuse.adapters", "acuse.actions"} <= set(there)


def test_every_entry_point_leads_to_a_file_of_the_wheel(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for group in PROJECT["entry-points"].values():
        for value in group.values():
            module = value.partition(":")[0].replace(".", "/")
            assert f"{module}.py" in names or f"{module}/__init__.py" in names, value


BRIDGES = {"fastapi", "django", "langgraph", "anthropic", "openai", "mcp"}


def test_the_base_brings_no_broker_and_no_http_and_the_extras_do(metadata: Message) -> None:
    requirements = metadata.get_all("Requires-Dist") or []
    base = {one.split(">")[0].split("=")[0].strip() for one in requirements if "extra ==" not in one}
    assert base == {"sqlalchemy", "psycopg", "pydantic", "structlog", "rfc8785"}
    assert set(metadata.get_all("Provides-Extra") or []) == {"worker", "web", "embedded", "dev", *BRIDGES}
    of_worker = [one for one in requirements if "extra == 'worker'" in one]
    for name in ("dramatiq", "redis", "httpx", "alembic", "greenlet", "pydantic-settings"):
        assert any(one.startswith(name) for one in of_worker), name


def test_the_licence_the_readme_and_the_python_that_is_needed_are_said(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert b"Apache License" in wheel.read(f"{INFO}/licenses/LICENSE")
    assert metadata["Requires-Python"] == ">=3.11"
    assert str(metadata.get_payload()).startswith("# Acuse")
