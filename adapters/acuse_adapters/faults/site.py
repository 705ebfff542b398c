"""One cell's own world: a ledger, a broker's namespace, processes, and the operation that is struck."""

import json
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import dramatiq
import redis
from sqlalchemy import Connection, Row, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from acuse import Ledger, OperationRecord
from acuse.command.fleet import Fleet
from acuse.embedded.child import Child
from acuse.identifier import uuid_of
from acuse_adapters.actors import ACTOR
from acuse_adapters.engine import Moment
from acuse_adapters.faults.ground import Ground, Servers
from acuse_adapters.faults.line import Line
from acuse_adapters.faults.settings import SETTINGS, queue_of, settings_for
from acuse_adapters.faults.wish import SETTLED_ACTOR, Wish
from acuse_adapters.faults.words import Contract
from acuse_adapters.simulators.process import SimulatorProcess

__all__ = ["Site", "Stuck", "until"]

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.05


class Stuck(Exception):  # noqa: N818  # names state the fact
    """A strike could not be made, or a cell never came to rest. The text says where."""


def until(fact: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:  # noqa: ANN401
    """Return what `fact` returns as soon as it is true. A database or a broker that is away is asked again. Raises `Stuck`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(DBAPIError, redis.ConnectionError):
            if value := fact():
                return value
        time.sleep(POLL_SECONDS)
    raise Stuck(f"waited {seconds:.0f} s in vain: {what}")


class Site:
    """A context manager: nothing of it stays. `operations` are known once it is staged; the first is the one that is struck."""

    def __init__(
        self,
        ground: Ground,
        servers: Servers,
        contract: Contract,
        reference: str,
        folder: Path,
        *,
        dependant: bool = False,
        told: bool = False,
    ) -> None:
        self.ground, self.servers, self.contract, self.reference = ground, servers, contract, reference
        self.wish = Wish(contract.value, reference, f"t-{reference}", dependant=dependant, told=told)
        self.provider: SimulatorProcess = ground.provider(contract)
        self.namespace = f"acuse-faults-{reference}"
        self.database = f"acuse_faults_{reference}"
        self.database_url = servers.make_ledger(self.database)
        self._engine = create_engine(self.database_url, poolclass=NullPool, isolation_level="READ COMMITTED")
        self.redis = redis.Redis.from_url(servers.pair.redis_url)
        self.fleet = Fleet(folder / reference, {**SETTINGS, **self._environment()}, alone=True)
        self.operations: tuple[str, ...] = ()
        self.provider_through: Line | None = None
        self._lines: list[Line] = []
        self._living: dict[str, tuple[str, Child]] = {}
        self._started = 0

    # what is staged

    def stage(self) -> None:
        """Stage in this process, committed."""
        with self._engine.begin() as connection:
            self.operations = self.wish.stage(connection)

    def staged_by_a_process(self, database_url: str) -> Child:
        """Start a backend that stages, through a line."""
        wish = json.dumps(asdict(self.wish))
        return self._start("backend", ["backend"], {"FAULTS_WISH": wish, "ACUSE_DATABASE_URL": database_url})

    # its processes

    def relay(self, environment: Mapping[str, str] | None = None) -> tuple[str, Child]:
        """Start a relay."""
        name = self._name("relay")
        child = self.fleet.acuse(name, "relay", **(environment or {}))
        self._living[name] = ("relay", child)
        return name, child

    def worker(self, hold: Moment | None = None, environment: Mapping[str, str] | None = None) -> tuple[str, Child]:
        """Start a worker; with `hold` it stops at that moment until `go`."""
        name = self._name("worker")
        settings = {**self._adapters(), **(environment or {})}
        if hold is not None:
            settings |= {"FAULTS_HOLD_AT": hold.value, "FAULTS_HELD": str(self._file(name, "held"))}
            settings["FAULTS_GO"] = str(self._file(name, "go"))
        child = self._start(name, ["worker"], settings)
        self._living[name] = ("worker", child)
        return name, child

    def is_held(self, name: str) -> bool:
        """Whether a worker has come to its moment."""
        return self._file(name, "held").exists()

    def go(self, name: str) -> None:
        """Let a worker go on."""
        self._file(name, "go").touch()

    def works(self, name: str) -> bool:
        """Whether a worker has started."""
        return "worker_started" in self.fleet.tail(name)

    def kill(self, name: str) -> None:
        """End a process by SIGKILL."""
        self._living.pop(name, None)
        self.fleet.kill(name)

    def terminate(self, name: str) -> None:
        """Tell a process to end; it may take its time."""
        _, child = self._living.pop(name)
        child.send(signal.SIGTERM)

    @property
    def relays(self) -> list[str]:
        """The names of the relays that were started and not ended by us."""
        return [name for name, (kind, _) in self._living.items() if kind == "relay"]

    def man(self, *, always_a_worker: bool = False) -> None:
        """Let there be a relay and a worker that work."""
        kinds = {kind for kind, child in self._living.values() if child.exit_code is None}
        if "relay" not in kinds:
            self.relay()
        if "worker" not in kinds or always_a_worker:
            self.worker()

    # lines

    def database_line(self) -> tuple[Line, dict[str, str]]:
        """Return a line to the database, and the settings of a process that goes through it."""
        line, url = Line.to_database(self.database_url)
        self._lines.append(line)
        return line, {"ACUSE_DATABASE_URL": url}

    def redis_line(self) -> tuple[Line, dict[str, str]]:
        """Return a line to the broker, and the settings of a process that goes through it."""
        url = self.servers.pair.redis_url
        port = urlsplit(url).port or 6379
        line = Line("127.0.0.1", port)
        self._lines.append(line)
        return line, {"ACUSE_REDIS_URL": url.replace(f":{port}/", f":{line.port}/")}

    def provider_line(self, *, refuse: bool = False, deaf: bool = False) -> Line:
        """Lead the workers that start from now on to their provider through a line."""
        email = self.provider.simulator == "email"
        line = Line("127.0.0.1", self.provider.smtp_port if email else self.provider.http_port, refuse=refuse, deaf=deaf)
        self._lines.append(line)
        self.provider_through = line
        return line

    # its broker

    @property
    def queue(self) -> str:
        """The queue of new operations of its provider."""
        return queue_of(self.provider)

    def push(self, ledger: str | None = None, operations: tuple[str, ...] | None = None) -> None:
        """Deliver a message (once more, or a forged one)."""
        identity = uuid4().hex
        message: dramatiq.Message[Any] = dramatiq.Message(
            queue_name=self.queue,
            actor_name=ACTOR,
            args=(ledger or self.ledger_id, list(operations or self.operations[:1])),
            kwargs={},
            options={"redis_message_id": identity},
            message_id=identity,
        )
        self.redis.hset(f"{self.namespace}:{self.queue}.msgs", identity, message.encode())
        self.redis.rpush(f"{self.namespace}:{self.queue}", identity)

    def push_garbage(self) -> None:
        """Deliver a message that is none."""
        identity = uuid4().hex
        self.redis.hset(f"{self.namespace}:{self.queue}.msgs", identity, b'{"not": "a message"')
        self.redis.rpush(f"{self.namespace}:{self.queue}", identity)

    def wipe_broker(self) -> None:
        """Delete everything that the broker holds of this ledger."""
        if keys := list(self.redis.scan_iter(f"{self.namespace}*")):
            self.redis.delete(*keys)

    def waiting_messages(self) -> int:
        """Count messages that nobody has fetched."""
        return int(self.redis.llen(f"{self.namespace}:{self.queue}"))

    def told_host(self) -> int:
        """Count the messages to the host that say how the operation ended."""
        return int(self.redis.llen(f"{self.namespace}:{SETTLED_ACTOR.partition('/')[0]}"))

    # what is true

    @property
    def ledger_id(self) -> str:
        """The ledger's own id, which its messages carry."""
        return str(self.ask(lambda c: c.execute(text("select value from acuse.meta where key = 'ledger_id'")).scalar_one()))

    def row(self, number: int = 0) -> Row[Any]:
        """Return the operation as the table has it."""
        values = {"id": self.uuid(number)}
        return self.ask(lambda c: c.execute(text("select * from acuse.operation where id = :id"), values).one())  # type: ignore[no-any-return]

    def looks(self) -> int:
        """Count the findings on record."""
        values = {"id": self.uuid()}
        findings = text("select count(*) from acuse.evidence where operation_id = :id")
        return int(self.ask(lambda c: c.execute(findings, values).scalar_one()))

    def count(self) -> int:
        """Count the operations of this ledger."""
        return int(self.ask(lambda c: c.execute(text("select count(*) from acuse.operation")).scalar_one()))

    def record(self, number: int = 0) -> OperationRecord:
        """Return the operation as people see it."""
        return Ledger(self._engine).get(self.operations[number])

    def uuid(self, number: int = 0) -> UUID:
        """Return the operation's id."""
        return uuid_of(self.operations[number], prefix="op", field="operation")

    def ask(self, question: Callable[[Connection], Any]) -> Any:  # noqa: ANN401
        """Ask the database."""
        with self._engine.connect() as connection:
            return question(connection)

    def calls(self, number: int = 0) -> int:
        """Count the writes that arrived at the provider."""
        return len(self._store(number).requests(self.operations[number])) if self.operations else 0

    def objects(self, number: int = 0) -> int:
        """Count what took effect at the provider."""
        return len(self._store(number).effects(self.operations[number])) if self.operations else 0

    def interfere(self) -> None:
        """Somebody else changes the case."""
        if self.contract is Contract.STRONG:
            self.provider.change_case("default", self.reference, priority="high")

    def held_by_provider(self) -> bool:
        """Whether the provider holds a write of this operation."""
        try:
            return any(one["marker"] == self.operations[0] for one in self.provider.wait_held(0.2))
        except TimeoutError:
            return False

    # how it is made

    def _store(self, number: int) -> SimulatorProcess:
        return self.provider if number == 0 else self.ground.crm

    def _name(self, kind: str) -> str:
        self._started += 1
        return f"{kind}-{self._started}"

    def _file(self, name: str, what: str) -> Path:
        return self.fleet.folder / f"{name}.{what}"

    def _start(self, name: str, words: list[str], environment: Mapping[str, str]) -> Child:
        return self.fleet.start(name, [sys.executable, "-m", "acuse_adapters.faults.runner", *words], environment)

    def _environment(self) -> dict[str, str]:
        return {
            "ACUSE_DATABASE_URL": self.database_url,
            "ACUSE_REDIS_URL": self.servers.pair.redis_url,
            "ACUSE_REDIS_NAMESPACE": self.namespace,
        }

    def _adapters(self) -> dict[str, str]:
        through = None if self.provider_through is None else self.provider_through.port
        own = settings_for(self.contract, self.provider, through)
        return {"ACUSE_CRM_URL": self.ground.crm.url, **own} if self.wish.dependant else own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _kind, child in self._living.values():
            child.send(signal.SIGCONT)
            child.send(signal.SIGKILL)
        for line in self._lines:
            line.close()
        self.fleet.stop()
        with suppress(redis.RedisError):
            self.wipe_broker()
        self.redis.close()
        with suppress(DBAPIError):
            self.servers.drop_ledger(self.database)
