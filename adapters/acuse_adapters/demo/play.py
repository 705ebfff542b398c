"""The play: real processes, providers that lose replies, a worker killed in mid-call, a wiped Valkey."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import redis
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from acuse.command.fleet import Fleet
from acuse.errors import ConfigurationError
from acuse_adapters.demo.onboarding import STUBBORN, subject
from acuse_adapters.demo.truth import effects
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.plan import FaultPlan, ScriptEntry, demo_plan
from acuse_adapters.simulators.process import Held, SimulatorProcess

__all__ = ["Play", "Scene", "say"]

LONGEST_SECONDS = 100.0
"""From the first case on. What is not final by then must have said why."""

HELD_SECONDS = 20
"""How long the first requests may take to reach the CRM."""

LATE_SECONDS = 30.0
"""Longer than any provider's fault delays a write."""

KEY_RETENTION_SECONDS = 18
"""The helpdesk forgets its keys this soon, so that a closed window can be seen within the demonstration."""

ENVIRONMENT = {
    "ACUSE_LEASE_SECONDS": "10",
    "ACUSE_LOST_AFTER_SECONDS": "3",
    "ACUSE_RECOVER_SECONDS": "0.3",
    "ACUSE_GRACE_SECONDS": "3",
    "ACUSE_CRM_DEADLINE_SECONDS": "2",
    "ACUSE_CRM_MAX_IN_FLIGHT_SECONDS": "3",
    "ACUSE_TICKET_DEADLINE_SECONDS": "2",
    "ACUSE_TICKET_MAX_IN_FLIGHT_SECONDS": "3",
    "ACUSE_TICKET_KEY_RETENTION_SECONDS": str(KEY_RETENTION_SECONDS),
    "ACUSE_TICKET_KEY_MARGIN_SECONDS": "2",
    "ACUSE_EMAIL_DEADLINE_SECONDS": "2",
    "ACUSE_EMAIL_MAX_IN_FLIGHT_SECONDS": "3",
    "ACUSE_CRM_TOKEN": "demonstration",
    "ACUSE_TICKET_TOKEN": "demonstration",
}

_PENDING = text(
    """
    select count(*) from acuse.operation o
     where status in ('prepared', 'dispatching')
       and not (waiting is not null and exists (select 1 from acuse.dependency d join acuse.operation n on n.id = d.needs
                                                 where d.operation_id = o.id and n.status = 'unknown'))
        or status = 'unknown' and held is null and (due_at is null or due_at < clock_timestamp() + interval '6 s')
    """
)
_STATES = text("select status, count(*) from acuse.operation group by status")
_CASES = text("select id from onboarding.case_file where status = 'closed'")


def say(sentence: str) -> None:
    """Tell the person at the terminal; standard output is for the result."""
    print(sentence, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the play takes place."""

    folder: Path
    database_url: str
    redis_url: str
    namespace: str
    cases: int
    seed: int


class Play:
    """Runs one demonstration. A context manager: everything that it started ends with it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.simulators = {
            name: SimulatorProcess(name, scene.folder / "providers", plan=plan, seed=scene.seed)
            for name, plan in _plans(scene.seed).items()
        }
        self.fleet = Fleet(
            scene.folder / "processes",
            {
                **ENVIRONMENT,
                "ACUSE_DATABASE_URL": scene.database_url,
                "ACUSE_REDIS_URL": scene.redis_url,
                "ACUSE_REDIS_NAMESPACE": scene.namespace,
            },
            alone=True,  # a real provider that this shell's settings name is none of the demonstration's business
        )

    def start(self) -> None:
        """Bring everything up: schema, providers, relay, two workers."""
        self.fleet.finish("migrate", [sys.executable, "-m", "acuse", "migrate"], 60)
        for simulator in self.simulators.values():
            simulator.start()
        self.fleet.environment |= self.provider_environment()
        self.fleet.acuse("relay", "relay")
        self.start_worker(1)
        self.start_worker(2)

    def start_worker(self, number: int) -> None:
        """Start a worker. The first alone serves the CRM, so that the play knows whom to kill."""
        providers = ("crm", "ticket") if number == 1 else ("email", "ticket")
        self.fleet.acuse(f"worker-{number}", "worker", *(word for name in providers for word in ("--provider", name)))

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

    def perform(self, engine: Engine) -> None:
        """Let the backend close its cases, kill a worker, wipe Valkey, and wait until all is told."""
        started = time.monotonic()
        third = max(self.scene.cases // 3, 1)
        self.simulators["crm"].hold("after_apply", kind="cases", skip=third)
        self.fleet.start("backend", [sys.executable, "-m", "acuse_adapters.demo.backend", "--cases", str(self.scene.cases)])
        say(f"the backend closes {self.scene.cases} cases; each commit is an event with three operations")
        with self._progress(engine):
            self._kill_a_worker()
            self._wipe_valkey()
            while time.monotonic() - started < LONGEST_SECONDS and not self._told(engine):
                self.watch()
                time.sleep(0.2)
        self._let_the_late_ones_arrive()

    def watch(self) -> None:
        """Raise `ConfigurationError` with the end of its log if a process has ended by itself."""
        for name in self.fleet.dead():
            raise ConfigurationError(f"{name} ended by itself:\n{self.fleet.tail(name)}")

    def _let_the_late_ones_arrive(self) -> None:
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

    def _kill_a_worker(self) -> None:
        crm = self.simulators["crm"]
        held = self._held()
        self.fleet.kill("worker-1")
        say(f"worker-1 was killed (SIGKILL) while the CRM held the request of {held[0]['marker']}: applied, never answered")
        crm.release(disarm=True)
        self.start_worker(1)

    def _held(self) -> list[Held]:
        """Wait for the request that the CRM holds. Raises `ConfigurationError` at once if a process ends instead."""
        for _ in range(HELD_SECONDS):
            self.watch()
            with suppress(TimeoutError):
                return self.simulators["crm"].wait_held(1)
        raise ConfigurationError(f"no request reached the CRM:\n{self.fleet.tail('worker-1')}")

    def _wipe_valkey(self) -> None:
        say(f"Valkey was wiped: {self._delete_keys()} keys of the queues are gone")

    def _delete_keys(self) -> int:
        """Delete the keys under the demonstration's own prefix, and no other."""
        with redis.Redis.from_url(self.scene.redis_url) as client:
            keys = list(client.scan_iter(f"{self.scene.namespace}:*"))
            return int(client.delete(*keys)) if keys else 0

    def _told(self, engine: Engine) -> bool:
        with engine.connect() as connection:
            cases = connection.execute(text("select count(*) from onboarding.case_file")).scalar_one()
            return cases >= self.scene.cases and not connection.execute(_PENDING).scalar_one()

    @contextmanager
    def _progress(self, engine: Engine) -> Iterator[None]:
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
            self._delete_keys()  # heartbeats, and what nobody fetched any more


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


def _plans(seed: int) -> dict[Literal["crm", "ticketing", "email"], FaultPlan]:
    """Return each provider's plan: the same rates, other dice, and one ticket that is never answered."""
    plan = demo_plan(seed)
    never = ScriptEntry(match=subject(f"case-{STUBBORN}"), faults=(Fault.STALL,) * 60)
    ticketing = plan.model_copy(
        update={"script": (never,), "key_retention_seconds": float(KEY_RETENTION_SECONDS), "seed": seed * 3 + 2}
    )
    return {
        "crm": plan.model_copy(update={"seed": seed * 3}),
        "email": plan.model_copy(update={"seed": seed * 3 + 1}),
        "ticketing": ticketing,
    }
