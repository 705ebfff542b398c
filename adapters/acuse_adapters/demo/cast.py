"""What the demonstration and the endurance run share: providers, our processes and a host's backend, all real ones."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

import redis
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from acuse.command.fleet import Fleet
from acuse.errors import ConfigurationError
from acuse_adapters.demo.truth import effects
from acuse_adapters.simulators.plan import FaultPlan
from acuse_adapters.simulators.process import SimulatorProcess

__all__ = ["Cast", "Plans", "Scene", "say"]

Plans = Mapping[Literal["crm", "ticketing", "email"], FaultPlan]

LATE_SECONDS: Final = 30.0
"""Longer than any provider's fault delays a write."""

_ENVIRONMENT = {
    "ACUSE_LEASE_SECONDS": "10",
    "ACUSE_LOST_AFTER_SECONDS": "3",
    "ACUSE_RECOVER_SECONDS": "0.3",
    "ACUSE_GRACE_SECONDS": "3",
    "ACUSE_CRM_DEADLINE_SECONDS": "2",
    "ACUSE_CRM_MAX_IN_FLIGHT_SECONDS": "3",
    "ACUSE_TICKET_DEADLINE_SECONDS": "2",
    "ACUSE_TICKET_MAX_IN_FLIGHT_SECONDS": "3",
    "ACUSE_TICKET_KEY_MARGIN_SECONDS": "2",
    "ACUSE_EMAIL_DEADLINE_SECONDS": "2",
    "ACUSE_EMAIL_MAX_IN_FLIGHT_SECONDS": "3",
    "ACUSE_CRM_TOKEN": "demonstration",
    "ACUSE_TICKET_TOKEN": "demonstration",
}

_STATES = text("select status, count(*) from acuse.operation group by status")
_COUNT = text("select count(*) from onboarding.case_file")
_CASES = text("select id from onboarding.case_file where status = 'closed'")


def say(sentence: str) -> None:
    """Tell the person at the terminal; standard output is for the result."""
    print(sentence, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Scene:
    """Where it takes place. tenants: how many share the cases."""

    folder: Path
    database_url: str
    redis_url: str
    namespace: str
    cases: int
    seed: int
    tenants: int = 1


class Cast:
    """A context manager: everything that it started ends with it. key_retention: seconds for which the helpdesk keeps a key."""

    def __init__(self, scene: Scene, plans: Plans, key_retention: int) -> None:
        self.scene = scene
        self.simulators = {
            name: SimulatorProcess(name, scene.folder / "providers", plan=plan, seed=scene.seed) for name, plan in plans.items()
        }
        self.fleet = Fleet(
            scene.folder / "processes",
            {
                **_ENVIRONMENT,
                "ACUSE_TICKET_KEY_RETENTION_SECONDS": str(key_retention),
                "ACUSE_DATABASE_URL": scene.database_url,
                "ACUSE_REDIS_URL": scene.redis_url,
                "ACUSE_REDIS_NAMESPACE": scene.namespace,
            },
            alone=True,  # a real provider that this shell's settings name is none of our business
        )

    def start(self) -> None:
        """Bring the schema and the providers up."""
        self.fleet.finish("migrate", [sys.executable, "-m", "acuse", "migrate"], 60)
        for simulator in self.simulators.values():
            simulator.start()
        self.fleet.environment |= self.provider_environment()

    def start_backend(self) -> None:
        """Let the host's backend close its cases."""
        words = ["--cases", str(self.scene.cases), "--tenants", str(self.scene.tenants)]
        self.fleet.start("backend", [sys.executable, "-m", "acuse_adapters.demo.backend", *words])

    def provider_environment(self) -> dict[str, str]:
        """Return the settings of the adapters that point at the simulators."""
        email = self.simulators["email"]
        return {
            "ACUSE_CRM_URL": self.simulators["crm"].url,
            "ACUSE_TICKET_URL": self.simulators["ticketing"].url,
            "ACUSE_EMAIL_SMTP_HOST": "127.0.0.1",
            "ACUSE_EMAIL_SMTP_PORT": str(email.smtp_port),
            "ACUSE_EMAIL_SMTP_STARTTLS": "false",
            "ACUSE_EMAIL_IMAP_TLS": "false",
            "ACUSE_EMAIL_SENDER": "onboarding@example.test",
            "ACUSE_EMAIL_DOMAIN": "example.test",
            "ACUSE_EMAIL_IMAP_HOST": "127.0.0.1",
            "ACUSE_EMAIL_IMAP_PORT": str(email.imap_port),
            "ACUSE_EMAIL_IMAP_USERNAME": "journal",
            "ACUSE_EMAIL_IMAP_PASSWORD": "journal",
            "ACUSE_EMAIL_IMAP_MAILBOX": "Journal",
            "ACUSE_EMAIL_IMAP_VISIBLE_WITHIN_SECONDS": "2",
        }

    def watch(self) -> None:
        """Raise `ConfigurationError` with the end of its log if a process has ended by itself."""
        for name in self.fleet.dead():
            raise ConfigurationError(f"{name} ended by itself:\n{self.fleet.tail(name)}")

    def let_the_late_ones_arrive(self) -> None:
        """Wait for what providers have accepted and not carried out yet: it must be counted."""
        end = time.monotonic() + LATE_SECONDS
        while any(simulator.store()["pending"] for simulator in self.simulators.values()):
            if time.monotonic() > end:
                raise ConfigurationError(f"a provider still had writes to carry out after {LATE_SECONDS:.0f} s")
            time.sleep(0.1)

    def closed_cases(self, engine: Engine) -> list[str]:
        """Return the cases that the business has closed."""
        with engine.connect() as connection:
            return list(connection.execute(_CASES).scalars())

    def delete_keys(self) -> int:
        """Delete the keys under our own prefix, and no other."""
        with redis.Redis.from_url(self.scene.redis_url) as client:
            keys = list(client.scan_iter(f"{self.scene.namespace}:*"))
            return int(client.delete(*keys)) if keys else 0

    def all_staged(self, engine: Engine) -> bool:
        """Whether the backend has closed all its cases."""
        with engine.connect() as connection:
            return bool(connection.execute(_COUNT).scalar_one() >= self.scene.cases)

    @contextmanager
    def progress(self, engine: Engine) -> Iterator[None]:
        """Tell how far it is, during the block."""
        done = threading.Event()
        thread = threading.Thread(target=_tell_progress, args=(engine, done, self._counted), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _counted(self) -> int:
        return effects(self.simulators).total()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.fleet.stop()
        for simulator in self.simulators.values():
            simulator.stop()
        with suppress(redis.RedisError):
            self.delete_keys()  # heartbeats, and what nobody fetched any more


def _tell_progress(engine: Engine, done: threading.Event, counted: Callable[[], int]) -> None:
    while not done.wait(2.0):
        try:
            with engine.connect() as connection:
                states = {state: count for state, count in connection.execute(_STATES)}  # noqa: C416  # rows, not pairs
            words = ", ".join(f"{state} {count}" for state, count in sorted(states.items()))
            say(f"  {words or 'nothing yet'} | effects at the providers: {counted()}")
        except (SQLAlchemyError, OSError, RuntimeError, LookupError) as error:
            # Whatever it is, the play itself meets it, too, and says it; here it must not end up as a traceback.
            say(f"  progress cannot be told now: {type(error).__name__}")
