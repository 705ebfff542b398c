"""Runs many schedules, and shortens those that fail."""

import hashlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog
from sqlalchemy import create_engine, make_url
from sqlalchemy.pool import NullPool

from acuse_adapters.explore.ground import Ground
from acuse_adapters.explore.schedule import Plan, Result, Runner
from acuse_adapters.explore.shrink import shrunk

__all__ = ["Explored", "explore", "ledger_on"]

MOST_VIOLATIONS: Final = 5
"""After so many a run ends: they are one mistake, as a rule."""


@dataclass(frozen=True)
class Explored:
    """What a run found. `violations` are shortened."""

    schedules: int
    steps: int
    seconds: float
    violations: tuple[Result, ...]
    digest: str


def explore(
    url: str,
    seed: int,
    schedules: int,
    tell: Callable[[int, Result], None] = lambda _number, _result: None,
    *,
    most_violations: int = MOST_VIOLATIONS,
) -> Explored:
    """Run the schedules of `seed`, `seed` + 1, … on a migrated database that is nobody else's. Raises what the database raises.

    `tell` is told each result with its number, as it comes; a violation again, shortened.
    """
    started, steps, violations, stories = time.monotonic(), 0, [], hashlib.sha256()
    with _quiet(), Ground(url) as ground:
        runner = Runner(ground)
        for number in range(1, schedules + 1):
            result = runner.run(Plan.drawn(seed + number - 1))
            tell(number, result)
            steps += result.steps
            stories.update(result.digest.encode())
            if result.wrong:
                violations.append(shrunk(result, runner.run))
                tell(number, violations[-1])
                if len(violations) >= most_violations:
                    break
    return Explored(number, steps, time.monotonic() - started, tuple(violations), stories.hexdigest())


@contextmanager
def ledger_on(server_url: str) -> Iterator[str]:
    """Yield the URL of a new database with a ledger on a server, and drop it in the end."""
    name = f"acuse_explore_{uuid.uuid4().hex[:12]}"
    admin = create_engine(
        make_url(server_url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT", poolclass=NullPool
    )
    with admin.connect() as connection:
        connection.exec_driver_sql(f"create database {name}")
    url = make_url(server_url).set(drivername="postgresql+psycopg", database=name).render_as_string(hide_password=False)
    try:
        # By its command: the parts of the project know each other by their entry points.
        subprocess.run(
            [sys.executable, "-m", "acuse", "migrate"],
            env={**os.environ, "ACUSE_DATABASE_URL": url},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        yield url
    finally:
        with admin.connect() as connection:
            connection.exec_driver_sql(f"drop database if exists {name} with (force)")


@contextmanager
def _quiet() -> Iterator[None]:
    """A schedule goes wrong in a thousand ways, and its story tells them: nothing else is to."""
    before = structlog.get_config()
    structlog.configure(processors=[_drop], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


def _drop(_logger: object, _method: str, _event: object) -> str:
    raise structlog.DropEvent
