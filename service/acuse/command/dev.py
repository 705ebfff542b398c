"""`acuse dev`: everything on the embedded pair, with simulated providers where none is configured, until Ctrl-C."""

import argparse
import json
import os
import sys
import threading
from pathlib import Path

from acuse.command.fleet import Fleet
from acuse.command.logging import configure_logging
from acuse.command.stopping import stopped_by_signals
from acuse.embedded import EmbeddedError, EmbeddedPair
from acuse.errors import ConfigurationError

__all__ = ["DevCommand", "dev"]

SIMULATORS = ("crm", "ticketing", "email")
READY_SECONDS = 20.0


class DevCommand:
    """The sub-command `dev`."""

    name = "dev"
    help = "everything on the embedded PostgreSQL and Valkey, until Ctrl-C; data stays from one start to the next"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--folder", type=Path, help="state folder (default: per user)")

    def run(self, arguments: argparse.Namespace) -> int:
        """Start pair, schema, simulators, relay and worker; print how to reach them."""
        configure_logging("console", "warning")
        stop = threading.Event()
        try:
            with stopped_by_signals(stop), EmbeddedPair(arguments.folder) as pair:
                return _serve(pair, stop)
        except _Stopped:
            return 0
        except EmbeddedError as error:
            raise ConfigurationError(str(error)) from error


class _Stopped(Exception):  # noqa: N818  # no error: it was asked to stop before everything was up
    pass


def _serve(pair: EmbeddedPair, stop: threading.Event) -> int:
    environment = {"ACUSE_DATABASE_URL": pair.database_url, "ACUSE_REDIS_URL": pair.redis_url}
    with Fleet(pair.folder / "processes", environment) as fleet:
        fleet.finish("migrate", [sys.executable, "-m", "acuse", "migrate"], 60)
        if not any(name in os.environ for name in ("ACUSE_CRM_URL", "ACUSE_TICKET_URL", "ACUSE_EMAIL_SMTP_HOST")):
            simulated = _simulators(fleet, pair.folder / "providers", stop)
            environment |= simulated
            fleet.environment |= simulated
        fleet.acuse("relay", "relay")
        fleet.acuse("worker", "worker")
        print("everything is up; logs are in", fleet.folder)
        for name, value in environment.items():
            print(f"export {name}='{value}'")
        print("press Ctrl-C to stop", flush=True)
        while not stop.wait(0.5):
            for name in fleet.dead():
                print(f"{name} ended by itself:\n{fleet.tail(name)}", file=sys.stderr)
                return 1
    return 0


def _simulators(fleet: Fleet, state: Path, stop: threading.Event) -> dict[str, str]:
    state.mkdir(exist_ok=True)
    ports: dict[str, dict[str, int]] = {}
    for name in SIMULATORS:
        (fleet.folder / f"{name}.log").write_text("", encoding="utf-8")
        fleet.start(name, [sys.executable, "-m", "acuse_adapters.simulators", name, "--state", str(state)])
        ports[name] = _ready(fleet, name, stop)
    return {
        "ACUSE_CRM_URL": f"http://127.0.0.1:{ports['crm']['http']}",
        "ACUSE_CRM_TOKEN": "simulated",
        "ACUSE_TICKET_URL": f"http://127.0.0.1:{ports['ticketing']['http']}",
        "ACUSE_TICKET_TOKEN": "simulated",
        "ACUSE_EMAIL_SMTP_HOST": "127.0.0.1",
        "ACUSE_EMAIL_SMTP_PORT": str(ports["email"]["smtp"]),
        "ACUSE_EMAIL_SMTP_STARTTLS": "false",
        "ACUSE_EMAIL_SENDER": "acuse@example.test",
        "ACUSE_EMAIL_DOMAIN": "example.test",
    }


def _ready(fleet: Fleet, name: str, stop: threading.Event) -> dict[str, int]:
    for _ in range(int(READY_SECONDS / 0.05)):
        for line in fleet.tail(name).splitlines():
            if line.startswith('{"simulator"'):
                return {key: value for key, value in json.loads(line).items() if key != "simulator"}
        if stop.wait(0.05):
            raise _Stopped
    raise ConfigurationError(f"the {name} simulator did not start:\n{fleet.tail(name)}")


dev = DevCommand()
