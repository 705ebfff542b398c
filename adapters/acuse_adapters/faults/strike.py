"""How a cell is struck. Each strike is a value; called with a site, it stages, brings the operation there, and strikes."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from acuse.embedded.child import Child
from acuse_adapters.engine import Moment
from acuse_adapters.faults.act import DONE, SERVER_ACTS, Act, deliver_again, empty, fill
from acuse_adapters.faults.door import AtLookUp
from acuse_adapters.faults.line import Trap
from acuse_adapters.faults.settings import LEASE_SECONDS
from acuse_adapters.faults.site import Site
from acuse_adapters.faults.stuck import until
from acuse_adapters.simulators.fault import Fault as Misbehaviour

__all__ = [
    "Act",
    "AtBroker",
    "AtCall",
    "AtClock",
    "AtMoment",
    "AtStage",
    "OnLine",
    "Strike",
    "hits_a_server",
    "script_of",
]


Strike: TypeAlias = Callable[[Site], None]
"""Stages, brings the operation to its boundary, and strikes."""


def script_of(strike: Strike) -> tuple[Misbehaviour | None, ...]:
    """Return what the provider does to the first writes under a strike."""
    first = strike.after if isinstance(strike, AtClock) else strike
    return first.script if isinstance(first, AtMoment | AtCall | AtLookUp | OnLine) else ()


def hits_a_server(strike: Strike) -> bool:
    """Whether others on the same servers would be hit too."""
    first = strike.after if isinstance(strike, AtClock) else strike
    return isinstance(first, AtMoment | AtCall | OnLine | AtStage | AtBroker) and first.act in SERVER_ACTS


@dataclass(frozen=True)
class AtMoment:
    """A worker stands at a named moment; `act` happens; then it goes on, unless it is dead."""

    moment: Moment = Moment.CLAIMED
    act: Act = Act.KILL
    script: tuple[Misbehaviour | None, ...] = ()

    def __call__(self, site: Site) -> None:
        site.stage()
        other = _sleeping_worker(site) if self.act is Act.DELIVER_AGAIN else None
        site.relay()
        line, through = site.database_line() if self.act is Act.CUT else (None, {})
        name, child = site.worker(self.moment, through)
        until(lambda: site.is_held(name), f"{name} reaches {self.moment}")
        site.interfere()
        if self.act is Act.KILL:
            site.kill(name)
            return
        if self.act is Act.STOP:
            _overtake(site, child, lambda: site.go(name))
            return
        if line is not None:
            line.cut_all()
        elif other is not None:
            other.send(signal.SIGCONT)
            deliver_again(site)
        elif self.act is Act.TERM:
            site.terminate(name)
        else:
            DONE[self.act](site)
        site.go(name)


def _sleeping_worker(site: Site) -> Child:
    """Start a worker that takes nothing before it is woken: by then the claim would have ended on a busy machine."""
    name, child = site.worker()
    until(lambda: site.works(name), f"{name} works")
    child.send(signal.SIGSTOP)
    return child


def _overtake(site: Site, child: Child, on_waking: Callable[[], None] = lambda: None) -> None:
    """A worker sleeps, its claim ends, another one does what can be done. Only then the first wakes, and says what it knows."""
    child.send(signal.SIGSTOP)
    before = site.row()
    site.worker()

    def taken_over() -> bool:
        row = site.row()
        if row.status in {"confirmed", "rejected"} or row.held is not None:
            return True
        return bool(row.fence > before.fence and row.claim_until is None and row.status == "unknown" and site.looks() > 1)

    until(taken_over, "another worker takes over", LEASE_SECONDS + 30)
    on_waking()
    child.send(signal.SIGCONT)
    if before.status == "dispatching":
        until(lambda: site.has_spoken(before.fence), "the worker that slept says what became of its attempt")


@dataclass(frozen=True)
class AtCall:
    """The provider has the request: it stands before or after applying it, or misbehaves by a script; `act` hits the worker."""

    phase: Literal["before_apply", "after_apply"] | None = None
    act: Act | None = None
    script: tuple[Misbehaviour | None, ...] = ()

    def __call__(self, site: Site) -> None:
        site.stage()
        if self.phase is not None:
            site.provider.hold(self.phase, marker=site.operations[0])
        name, child = site.worker()
        other = site.worker()[0] if self.act is Act.DELIVER_AGAIN else ""
        until(lambda: not other or site.works(other), f"{other} works")
        site.relay()
        arrived = site.held_by_provider if self.phase is not None else lambda: site.calls() > 0
        until(arrived, "the request arrives")
        site.interfere()
        if self.act is Act.KILL:
            site.kill(name)
        elif self.act is Act.TERM:
            site.terminate(name)
            until(lambda: child.exit_code is not None, "the worker ends")
        elif self.act is Act.STOP:
            child.send(signal.SIGSTOP)
            self._release(site)
            _overtake(site, child)
        elif self.act is Act.DELIVER_AGAIN:
            deliver_again(site)
        elif self.act is not None:
            DONE[self.act](site)
        self._release(site)

    def _release(self, site: Site) -> None:
        if self.phase is not None:
            site.provider.release(site.operations[0])


@dataclass(frozen=True)
class OnLine:
    """A process speaks to a server through a line that stops at words of its own; `act` hits the process or the line."""

    who: Literal["relay", "worker"] = "worker"
    to: Literal["database", "redis"] = "database"
    trap: Trap = field(default_factory=lambda: Trap(b""))
    act: Act = Act.KILL
    script: tuple[Misbehaviour | None, ...] = ()

    def __call__(self, site: Site) -> None:
        line, through = site.database_line() if self.to == "database" else site.redis_line()
        torn_off = self.act is Act.TERM and (self.who, self.to) == ("worker", "database")
        line.stop_at(replace(self.trap, then="cut" if torn_off or self.act in {Act.KILL, Act.CUT} else "go"))
        site.stage()
        if self.who == "relay":
            name, _ = site.relay(through)
            if site.wish.told:
                site.worker()  # what the relay is struck with comes of an operation that settled
        else:
            site.relay()
            name, _ = site.worker(None, through)
        until(line.reached.is_set, f"{name} says {self.trap.words!r}")
        site.interfere()
        if self.act is Act.KILL:
            site.kill(name)
        elif self.act is Act.TERM:
            site.terminate(name)
            if torn_off:  # its grace time is over before the database answers, and then the connection is lost
                until(lambda: site.fleet.has_said(name, "torn_off"), f"{name} waits no longer")
        elif self.act is not Act.CUT:
            DONE[self.act](site)
        line.release()


@dataclass(frozen=True)
class AtStage:
    """A backend's own transaction is struck at its COMMIT; then the business says the same once more."""

    trap: Trap = field(default_factory=lambda: Trap(b""))
    act: Act = Act.KILL

    def __call__(self, site: Site) -> None:
        line, through = site.database_line()
        line.stop_at(self.trap)
        backend = site.staged_by_a_process(through["ACUSE_DATABASE_URL"])
        until(line.reached.is_set, "the backend commits")
        if self.act is Act.KILL:
            backend.send(signal.SIGKILL)
        elif self.act is Act.TERM:
            backend.send(signal.SIGTERM)
        elif self.act is not Act.CUT:
            DONE[self.act](site)
        line.release()
        until(lambda: backend.exit_code is not None, "the backend ends")
        site.interfere()
        until(lambda: _staged(site), "the business says it again")


def _staged(site: Site) -> bool:
    site.stage()
    return True


@dataclass(frozen=True)
class AtBroker:
    """The broker is struck while the operation is in the outbox, or waits in the broker."""

    act: Act = Act.WIPE_REDIS
    fetched: bool = True
    """Whether the relay has pushed it."""

    def __call__(self, site: Site) -> None:
        if not self.fetched:
            DONE[self.act](site) if self.act is not Act.FILL_REDIS else fill(site)
            site.stage()
            site.relay()
            if self.act is Act.FILL_REDIS:
                until(lambda: any(site.fleet.has_said(name, "out of memory") for name in site.relays), "the relay notices")
                empty(site)
            return
        site.stage()
        site.relay()
        until(lambda: site.broker.waiting() > 0, "the message is with the broker")
        if self.act is Act.FILL_REDIS:
            fill(site)
            name, _ = site.worker()
            until(lambda: site.works(name) or site.fleet.has_said(name, "OutOfMemory"), f"{name} works")
            empty(site)
        elif self.act is Act.DELIVER_AGAIN:
            for _ in range(4):
                site.broker.push(site.ledger_id, site.operations[:1])
            site.worker()
            site.worker()
        else:
            DONE[self.act](site)


@dataclass(frozen=True)
class AtClock:
    """A worker that believes in another time. `after`: another one was killed first, so that there is a doubt to look into."""

    seconds: int = 600
    after: Strike | None = None

    def __call__(self, site: Site) -> None:
        if self.after is None:
            site.stage()
            site.relay()
        else:
            self.after(site)
        site.worker(None, {"FAULTS_CLOCK_SECONDS": str(self.seconds)})
