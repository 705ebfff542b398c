"""The run: many effects for several tenants, while workers and relays are killed, Redis is wiped and PostgreSQL restarted."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import redis
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from acuse.embedded import EmbeddedPair
from acuse.store.failure import worth_repeating
from acuse_adapters.demo.cast import Cast, Plans, Scene, say
from acuse_adapters.demo.onboarding import create_tables
from acuse_adapters.endure.memory import Memory, sampled, weigh
from acuse_adapters.endure.schedule import Schedule
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.plan import demo_plan

__all__ = ["FAULTS", "Endurance"]

FAULTS: Final = 0.05
"""The share of writes that go wrong at each provider."""

KEY_RETENTION_SECONDS: Final = 60
"""The helpdesk forgets its keys after this, so that windows close within the run."""

STANDSTILL_SECONDS: Final = 150.0
"""Nothing has changed for so long: then it is over. Longer than any back-off, breaker or heartbeat that work may wait for."""

LONG_LIVED: Final = ("worker-1", "relay-1")
SHORT_LIVED: Final = ("worker-2", "worker-3")
RARELY: Final = "relay-2"

_AT_WORK: Final = {"worker": "worker_started", "relay": "relay.started"}
"""What a process says when it has begun to work."""

# What will still move by itself: not what waits for a person, nor what waits behind that.
_MOVING = text(
    """
    select count(*) from acuse.operation o
     where held is null
       and (status in ('dispatching', 'unknown')
            or status = 'prepared'
               and not (waiting is not null and exists (select 1 from acuse.dependency d join acuse.operation n on n.id = d.needs
                                                         where d.operation_id = o.id and n.held is not null)))
    """
)
_SETTLED = text("select count(*) from acuse.operation where status in ('confirmed', 'rejected')")
_CHANGED = text("select coalesce(max(updated_at), 'epoch') from acuse.operation")


@dataclass(slots=True)
class Endurance:
    """One run on servers of its own. `blows`: what went down, and how often."""

    pair: EmbeddedPair
    scene: Scene
    blows: Counter[str] = field(default_factory=Counter)
    memory: list[Memory] = field(default_factory=list)

    def perform(self, cast: Cast, engine: Engine) -> None:
        """Let the backend close its cases and things go down, until nothing moves any more."""
        cast.start()
        for name in (*LONG_LIVED, *SHORT_LIVED, RARELY):
            _start(cast, name)
        create_tables(engine)
        cast.start_backend()
        say(
            f"the backend closes {self.scene.cases} cases of {self.scene.tenants} tenants; each is an event with three operations"
        )
        pids = {name: cast.fleet.pid(name) for name in LONG_LIVED}
        with sampled(pids) as samples, cast.progress(engine):
            self._until_nothing_moves(cast, engine)
        self.memory = [weigh(name, samples[name]) for name in LONG_LIVED if samples[name]]
        cast.let_the_late_ones_arrive()

    def _until_nothing_moves(self, cast: Cast, engine: Engine) -> None:
        schedule = Schedule(self.scene.seed, SHORT_LIVED, RARELY)
        started, watch = time.monotonic(), _Watch()
        while not watch.over():
            self._kill(cast, schedule.killed(time.monotonic() - started))
            cast.watch()
            try:
                watch.look(engine, all_staged=cast.all_staged(engine) and not schedule.blows)
                blow = schedule.blow(watch.settled, self.scene.cases * 3)
            except SQLAlchemyError as error:
                if not worth_repeating(error):
                    raise
            else:
                if blow is not None:
                    self._strike(blow.what)
            time.sleep(0.2)

    def _kill(self, cast: Cast, names: list[str]) -> None:
        for name in names:
            if not cast.fleet.has_said(name, _AT_WORK[_kind(name)]):
                continue  # it is still starting, and holds nothing yet
            cast.fleet.kill(name)
            self.blows[f"{_kind(name)}s killed"] += 1
            _start(cast, name)

    def _strike(self, what: str) -> None:
        if what == "wipe":
            with redis.Redis.from_url(self.scene.redis_url) as client:
                keys = client.dbsize()
                client.flushall()
            self.blows["Valkey wiped"] += 1
            say(f"Valkey was wiped: {keys} keys are gone")
        else:
            started = time.monotonic()
            self.pair.postgres.restart()
            self.blows["PostgreSQL restarted"] += 1
            say(f"PostgreSQL was restarted; it was away for {time.monotonic() - started:.1f} s")


@dataclass(slots=True)
class _Watch:
    """What moves, as it was last seen."""

    settled: int = 0
    moving: int = 1
    _changed: object = None
    _since: float = field(default_factory=time.monotonic)

    def look(self, engine: Engine, *, all_staged: bool) -> None:
        with engine.connect() as connection:
            self.settled = connection.execute(_SETTLED).scalar_one()
            self.moving = connection.execute(_MOVING).scalar_one() if all_staged else 1
            changed = connection.execute(_CHANGED).scalar_one()
        if changed != self._changed:
            self._changed, self._since = changed, time.monotonic()

    def over(self) -> bool:
        return not self.moving or time.monotonic() - self._since > STANDSTILL_SECONDS


def _start(cast: Cast, name: str) -> None:
    cast.fleet.acuse(name, _kind(name))


def _kind(name: str) -> str:
    return name.partition("-")[0]


def plans(seed: int) -> Plans:
    """Return each provider's plan: all kinds of faults, rarer than in the demonstration, with other dice for each provider."""
    plan = demo_plan(seed)
    share = FAULTS / sum(plan.rates.values())
    plan = plan.model_copy(update={"rates": {fault: rate * share for fault, rate in plan.rates.items()}})
    assert Fault.FORGET_KEY not in plan.rates
    retention = {"key_retention_seconds": float(KEY_RETENTION_SECONDS)}
    return {
        "crm": plan.model_copy(update={"seed": seed * 3}),
        "email": plan.model_copy(update={"seed": seed * 3 + 1}),
        "ticketing": plan.model_copy(update={"seed": seed * 3 + 2, **retention}),
    }
