"""One cell's own world: a ledger, a broker's namespace, processes, and the operation that is struck."""

import json
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import UUID

from sqlalchemy import Connection, Row, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from acuse import Ledger, OperationRecord
from acuse.command.fleet import Fleet
from acuse.embedded.child import Child
from acuse.identifier import uuid_of
from acuse_adapters.engine import Moment
from acuse_adapters.faults.broker import Broker
from acuse_adapters.faults.ground import Ground, Servers
from acuse_adapters.faults.line import Line
from acuse_adapters.faults.settings import SETTINGS, queue_of, settings_for
from acuse_adapters.faults.wish import Wish
from acuse_adapters.faults.words import Contract
from acuse_adapters.simulators.process import SimulatorProcess

__all__ = ["Site"]


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
        self.database = f"acuse_faults_{reference}"
        self.database_url = servers.make_ledger(self.database)
        self._engine = create_engine(self.database_url, poolclass=NullPool, isolation_level="READ COMMITTED")
        self.broker = Broker(servers.pair.redis_url, f"acuse-faults-{reference}", queue_of(self.provider))
        self.fleet = Fleet(folder / reference, {**SETTINGS, **self._environment()}, alone=True)
        self.operations: tuple[str, ...] = ()
        self.provider_through: Line | None = None
        self.journal_through: Line | None = None
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
        return self.fleet.has_said(name, "worker_started")

    def kill(self, name: str) -> None:
        """End a process by SIGKILL."""
        self._living.pop(name, None)
        self.fleet.kill(name)

    def terminate(self, name: str) -> None:
        """Tell a process to end; it may take its time."""
        _, child = self._living.pop(name)
        child.send(signal.SIGTERM)

    @property
    def dead(self) -> list[str]:
        """The names of the processes that have ended although nobody ended them."""
        return [name for name, (_, child) in self._living.items() if child.exit_code is not None]

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
        self.provider_through = self._line_to(self.provider.smtp_port if email else self.provider.http_port, refuse, deaf)
        return self.provider_through

    def look_up_line(self) -> Line:
        """Lead the workers that start from now on through a line to where they look up, which may be where they send too."""
        if self.provider.simulator != "email":
            return self.provider_line()
        self.journal_through = self._line_to(self.provider.imap_port)
        return self.journal_through

    def _line_to(self, port: int, refuse: bool = False, deaf: bool = False) -> Line:
        line = Line("127.0.0.1", port, refuse=refuse, deaf=deaf)
        self._lines.append(line)
        return line

    # what is true

    @property
    def ledger_id(self) -> str:
        """The ledger's own id, which its messages carry."""
        return str(self.ask(lambda c: c.execute(text("select value from acuse.meta where key = 'ledger_id'")).scalar_one()))

    def row(self, number: int = 0) -> Row[Any]:
        """Return the operation as the table has it."""
        values = {"id": self.uuid(number)}
        return self.ask(lambda c: c.execute(text("select * from acuse.operation where id = :id"), values).one())  # type: ignore[no-any-return]

    def dispatched_at(self, number: int = 0) -> datetime | None:
        """Return when an operation was first dispatched."""
        first = text("select min(dispatched_at) from acuse.attempt where operation_id = :id")
        return self.ask(lambda c: c.execute(first, {"id": self.uuid(number)}).scalar_one())  # type: ignore[no-any-return]

    def has_spoken(self, fence: int) -> bool:
        """Whether the worker with this token has said what became of its attempt."""
        values = {"id": self.uuid(), "fence": fence}
        spoken = text("select count(*) from acuse.attempt where operation_id = :id and fence = :fence and settled_at is not null")
        return bool(self.ask(lambda c: c.execute(spoken, values).scalar_one()))

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
            "ACUSE_REDIS_NAMESPACE": self.broker.namespace,
        }

    def _adapters(self) -> dict[str, str]:
        through, journal = (None if line is None else line.port for line in (self.provider_through, self.journal_through))
        own = settings_for(self.contract, self.provider, through, journal)
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
        self.broker.close()
        with suppress(DBAPIError):
            self.servers.drop_ledger(self.database)
