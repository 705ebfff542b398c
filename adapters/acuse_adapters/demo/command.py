"""`acuse demo`: the whole job on real parts, with faults, in under a minute."""

import argparse
import json
import os
import random
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from acuse.command.logging import configure_logging
from acuse.command.stopping import stopped_by_signals
from acuse.embedded import EmbeddedError, EmbeddedPair
from acuse.errors import ConfigurationError
from acuse.store.engine import sync_engine
from acuse_adapters.demo.cast import Scene, say
from acuse_adapters.demo.ending import ended_by_signals
from acuse_adapters.demo.judge import judge
from acuse_adapters.demo.onboarding import tenants
from acuse_adapters.demo.play import Play
from acuse_adapters.demo.report import as_json, show
from acuse_adapters.demo.told import told_by
from acuse_adapters.demo.truth import effects

__all__ = ["DemoCommand", "demo"]


class DemoCommand:
    """The sub-command `demo`."""

    name = "demo"
    help = "the whole job on real parts: faults, a killed worker, a wiped Valkey; exits with 1 if a promise was broken"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--cases", type=int, default=300, help="cases that the backend closes (default 300)")
        parser.add_argument("--seed", type=int, help="of the providers' faults (default: drawn, and printed)")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
        parser.add_argument("--keep", action="store_true", help="leave everything running afterwards, until Ctrl-C")

    def run(self, arguments: argparse.Namespace) -> int:
        """Play, judge, report."""
        if not 3 <= arguments.cases <= 20_000:
            raise ConfigurationError("--cases: give 3 to 20000")
        configure_logging("console", "warning")
        seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed  # noqa: S311  # dice, not a secret
        started = time.monotonic()
        with (
            ended_by_signals(),
            tempfile.TemporaryDirectory(prefix="acuse-demo-") as folder,
            _servers() as (database_url, redis_url),
        ):
            scene = Scene(Path(folder), database_url, redis_url, f"acuse-demo-{uuid.uuid4().hex[:8]}", arguments.cases, seed)
            say(f"seed {seed}: the same faults come again with --seed {seed}")
            engine = sync_engine(database_url, name="acuse-demo")
            try:
                with Play(scene) as play:
                    play.start()
                    play.perform(engine)
                    return _report(play, engine, time.monotonic() - started, arguments)
            finally:
                engine.dispose()


def _report(play: Play, engine: Engine, seconds: float, arguments: argparse.Namespace) -> int:
    told = told_by(engine, tenants(play.scene.tenants))
    judgement = judge(play.closed_cases(engine), effects(play.simulators), told)
    show(judgement, told, seconds, Console())
    if arguments.json is not None:
        arguments.json.write_text(
            json.dumps(as_json(judgement, told, seconds, play.scene.seed), indent=2) + "\n", encoding="utf-8"
        )
    if arguments.keep:
        say("left running; look around, then press Ctrl-C:")
        say(f"  export ACUSE_DATABASE_URL='{play.scene.database_url}' ACUSE_REDIS_URL='{play.scene.redis_url}'")
        say("  acuse operations list --state unknown")
        for one in judgement.held[:1]:
            say(f"  acuse operations explain {one.operation}")
        stop = threading.Event()
        with stopped_by_signals(stop):
            while not stop.wait(0.5):
                play.watch()
    return 0 if judgement.good else 1


@contextmanager
def _servers() -> Iterator[tuple[str, str]]:
    """Yield a database of the demonstration's own and a Redis: on the servers that the environment names, else embedded."""
    database, redis_url = os.environ.get("ACUSE_DATABASE_URL"), os.environ.get("ACUSE_REDIS_URL")
    if bool(database) != bool(redis_url):
        raise ConfigurationError("set both ACUSE_DATABASE_URL and ACUSE_REDIS_URL, or neither: then the embedded pair is used")
    if database and redis_url:
        with _own_database(database) as url:
            yield url, redis_url
        return
    try:
        with EmbeddedPair.temporary() as pair:
            say("PostgreSQL and Valkey are up (embedded, in a temporary folder)")
            yield pair.database_url, pair.redis_url
    except EmbeddedError as error:
        raise ConfigurationError(str(error)) from error


@contextmanager
def _own_database(server_url: str) -> Iterator[str]:
    name = f"acuse_demo_{uuid.uuid4().hex[:8]}"
    server = make_url(server_url).set(drivername="postgresql+psycopg")
    admin = create_engine(server, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with admin.connect() as connection:
        connection.execute(text(f"create database {name}"))
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"drop database if exists {name} with (force)"))


demo = DemoCommand()
