"""The play: real processes, providers that lose replies, a worker killed in mid-call, a wiped Valkey."""

import time
from contextlib import suppress

from sqlalchemy import Engine, text

from acuse.errors import ConfigurationError
from acuse_adapters.demo.cast import Cast, Plans, Scene, say
from acuse_adapters.demo.onboarding import STUBBORN, subject
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.plan import ScriptEntry, demo_plan
from acuse_adapters.simulators.process import Held

__all__ = ["Play"]

LONGEST_SECONDS = 100.0
"""From the first case on. What is not final by then must have said why."""

HELD_SECONDS = 120
"""How long the first requests may take to reach the CRM."""

KEY_RETENTION_SECONDS = 18
"""The helpdesk forgets its keys this soon, so that a closed window can be seen within the demonstration."""

_PENDING = text(
    """
    select count(*) from acuse.operation o
     where status in ('prepared', 'dispatching')
       and not (waiting is not null and exists (select 1 from acuse.dependency d join acuse.operation n on n.id = d.needs
                                                 where d.operation_id = o.id and n.status = 'unknown'))
        or status = 'unknown' and held is null and (due_at is null or due_at < clock_timestamp() + interval '6 s')
    """
)


class Play(Cast):
    """Runs one demonstration. A context manager: everything that it started ends with it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, _plans(scene.seed), KEY_RETENTION_SECONDS)

    def start(self) -> None:
        """Bring everything up: schema, providers, relay, two workers."""
        super().start()
        self.fleet.acuse("relay", "relay")
        self.start_worker(1)
        self.start_worker(2)

    def start_worker(self, number: int) -> None:
        """Start a worker. The first alone serves the CRM, so that the play knows whom to kill."""
        providers = ("crm", "ticket") if number == 1 else ("email", "ticket")
        self.fleet.acuse(f"worker-{number}", "worker", *(word for name in providers for word in ("--provider", name)))

    def perform(self, engine: Engine) -> None:
        """Let the backend close its cases, kill a worker, wipe Valkey, and wait until all is told."""
        started = time.monotonic()
        third = max(self.scene.cases // 3, 1)
        self.simulators["crm"].hold("after_apply", kind="cases", skip=third)
        self.start_backend()
        say(f"the backend closes {self.scene.cases} cases; each commit is an event with three operations")
        with self.progress(engine):
            self._kill_a_worker()
            self._wipe_valkey()
            while time.monotonic() - started < LONGEST_SECONDS and not self._told(engine):
                self.watch()
                time.sleep(0.2)
        self.let_the_late_ones_arrive()

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
        say(f"Valkey was wiped: {self.delete_keys()} keys of the queues are gone")

    def _told(self, engine: Engine) -> bool:
        if not self.all_staged(engine):
            return False
        with engine.connect() as connection:
            return not connection.execute(_PENDING).scalar_one()


def _plans(seed: int) -> Plans:
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
