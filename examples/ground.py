"""What the examples stand on: an embedded pair, simulated providers, and starts of an agent in processes of their own.

The script that is run brings up servers and providers, then starts itself again, with words that say which part to play: the
part may be killed at any moment by SIGKILL, and what it leaves behind is what the next start finds.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from sqlalchemy import Engine

from acuse.agents import Journal, Resumed, RunOwned
from acuse.command.logging import configure_logging
from acuse.embedded import EmbeddedPair
from acuse.settings import load_settings
from acuse.store.engine import sync_engine
from acuse_adapters.engine import Moments
from acuse_adapters.engine.moment import nothing
from acuse_adapters.port import Registry
from acuse_adapters.process import WorkerProcess
from acuse_adapters.simulators.process import SimulatorProcess
from acuse_migrations import upgrade
from acuse_relay.process import relay_process

FLOW_VERSION = "1"
LEASE = timedelta(seconds=2)
"""Of a run. Short, so that the next start need not wait long for a dead owner's to end."""


@dataclass(frozen=True)
class Providers:
    """The outside world, which keeps count of what really happened."""

    helpdesk: SimulatorProcess
    mail: SimulatorProcess

    def tickets(self) -> int:
        return len(self.helpdesk.effects())

    def emails(self) -> int:
        return len(self.mail.effects())


@contextmanager
def servers() -> Iterator[Path]:
    """PostgreSQL with the schema, and Valkey, in a folder of their own; the environment tells the parts where they are."""
    configure_logging("console", "error")
    with tempfile.TemporaryDirectory(prefix="acuse-example-") as folder, EmbeddedPair(Path(folder) / "pair") as pair:
        os.environ |= {"ACUSE_DATABASE_URL": pair.database_url, "ACUSE_REDIS_URL": pair.redis_url}
        engine = database()
        with engine.begin() as connection:
            upgrade(connection)
        engine.dispose()
        yield Path(folder)


@contextmanager
def world() -> Iterator[Providers]:
    """The same with a helpdesk and a mail server, which misbehave on demand and keep the truth."""
    with ExitStack() as stack:
        state = stack.enter_context(servers())
        providers = Providers(
            stack.enter_context(SimulatorProcess("ticketing", state / "providers")),
            stack.enter_context(SimulatorProcess("email", state / "providers")),
        )
        os.environ |= {
            "ACUSE_LEASE_SECONDS": "8",
            "ACUSE_RECOVER_SECONDS": "0.2",
            "ACUSE_LOST_AFTER_SECONDS": "2",
            "ACUSE_TICKET_URL": providers.helpdesk.url,
            "ACUSE_TICKET_DEADLINE_SECONDS": "2",
            "ACUSE_TICKET_MAX_IN_FLIGHT_SECONDS": "1",
            "ACUSE_EMAIL_SMTP_HOST": "127.0.0.1",
            "ACUSE_EMAIL_SMTP_PORT": str(providers.mail.smtp_port),
            "ACUSE_EMAIL_SMTP_STARTTLS": "false",
            "ACUSE_EMAIL_SENDER": "helpdesk@example.org",
            "ACUSE_EMAIL_DEADLINE_SECONDS": "2",
            "ACUSE_EMAIL_MAX_IN_FLIGHT_SECONDS": "1",
        }
        yield providers


def part(*words: str) -> subprocess.Popen[bytes]:
    """Start this script again, to play a part in a process that may be killed."""
    return subprocess.Popen([sys.executable, sys.argv[0], "--part", *words])


def killed(*words: str) -> None:
    """Play a part that is killed; complain if it ends in another way."""
    if (code := part(*words).wait(60)) != -signal.SIGKILL:
        sys.exit(f"the part {' '.join(words)} was to be killed, and ended with {code}")


def played(*words: str) -> None:
    """Play a part to its end."""
    if (code := part(*words).wait(90)) != 0:
        sys.exit(f"the part {' '.join(words)} ended with {code}")


def die(where: str) -> NoReturn:
    """Nothing is cleaned up and nothing more is written: the process is gone."""
    print(f"  killed (SIGKILL) {where}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def database() -> Engine:
    """An engine for the host's own transactions."""
    return sync_engine(os.environ["ACUSE_DATABASE_URL"])


@contextmanager
def relay_and_worker(moments: Moments = nothing) -> Iterator[None]:
    """What moves committed intents and carries them out; here in threads, so that a SIGKILL takes them along."""
    configure_logging("console", "error")
    settings = load_settings()
    with ExitStack() as stack:
        worker = WorkerProcess(settings, Registry.from_entry_points(["ticket", "email"]), moments=moments)
        for process in (relay_process(settings), worker):
            thread = threading.Thread(target=process.run)
            thread.start()
            stack.callback(thread.join)
            stack.callback(process.stop)
        yield


def resumed(engine: Engine, journal: Journal, run_id: str) -> Resumed:
    """Take a run over as soon as its dead owner's lease has ended; a living one would have renewed it."""
    while True:
        try:
            with engine.begin() as session:
                return journal.resume(session, run_id, flow_version=FLOW_VERSION, owner=f"start {os.getpid()}", lease=LEASE)
        except RunOwned as owned:
            time.sleep(max(0.05, (owned.until - datetime.now(UTC)).total_seconds()))
