"""What many cells share: servers with a ledger to copy, and the providers' simulators."""

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from acuse.command.fleet import Fleet
from acuse.embedded import EmbeddedPair
from acuse_adapters.faults.words import Contract
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.process import SimulatorProcess

__all__ = ["KEY_SECONDS", "Ground", "Servers"]

KEY_SECONDS = 9
"""How long the forgetful helpdesk remembers a key: its window is closed before the claim of a dead worker has ended."""

SEARCH_LAG_SECONDS = 600.0
"""The helpdesk's search shows nothing within a cell: only the key can tell."""

JOURNAL_LAG_SECONDS = 0.3
STALL_SECONDS = 20.0
START_SECONDS = 60.0
"""For one simulator, on a machine that is busy."""

TEMPLATE = "acuse_faults_template"

_NEW_IDENTITY = text("update acuse.meta set value = replace(gen_random_uuid()::text, '-', '') where key = 'ledger_id'")


class Servers:
    """An embedded pair with an empty ledger, of which each cell gets a copy."""

    def __init__(self, folder: Path) -> None:
        self.pair = EmbeddedPair.temporary(durable=False)
        self._folder = folder
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start both servers and make the ledger to copy."""
        self.pair.start()
        with self._admin() as admin:
            admin.exec_driver_sql(f"create database {TEMPLATE}")
        with Fleet(self._folder, {"ACUSE_DATABASE_URL": self._url(TEMPLATE)}, alone=True) as fleet:
            fleet.finish("migrate", [sys.executable, "-m", "acuse", "migrate"], 60)

    def stop(self) -> None:
        """Stop both servers."""
        self.pair.stop()

    def restart_database(self) -> None:
        """Kill PostgreSQL with everything in it, and start it again on the same port."""
        self.pair.postgres.kill()
        self.pair.postgres.start()

    def restart_redis(self) -> None:
        """Kill Valkey, and start it again on the same port."""
        self.pair.valkey.kill()
        self.pair.valkey.start()

    def make_ledger(self, name: str) -> str:
        """Return the URL of a new ledger."""
        with self._lock, self._admin() as admin:
            admin.exec_driver_sql(f"create database {name} template {TEMPLATE}")
        url = self._url(name)
        engine = create_engine(url, poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(_NEW_IDENTITY)
        return url

    def drop_ledger(self, name: str) -> None:
        """Remove a ledger, whoever is connected to it."""
        with self._lock, self._admin() as admin:
            admin.exec_driver_sql(f"drop database if exists {name} with (force)")

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        engine = create_engine(self.pair.database_url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            yield connection

    def _url(self, name: str) -> str:
        return make_url(self.pair.database_url).set(database=name).render_as_string(hide_password=False)


class Ground:
    """A context manager: two pairs (the second for cells that strike a server itself, one at a time) and the simulators.

    `scripts`: for each cell's reference, what its provider does to its first writes. `contracts`: those that are to be served.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        scripts: Mapping[str, Iterable[Fault | None]],
        *,
        contracts: Iterable[Contract],
        servers_struck: bool,
    ) -> None:
        self.shared = Servers(folder / "shared")
        self.struck = Servers(folder / "struck") if servers_struck else None
        script = [{"match": name, "faults": list(faults)} for name, faults in scripts.items()]
        plan = {"seed": seed, "script": script, "stall_seconds": STALL_SECONDS, "journal_lag_seconds": JOURNAL_LAG_SECONDS}
        lagging = {**plan, "search_lag_seconds": SEARCH_LAG_SECONDS}
        self._crm = SimulatorProcess("crm", folder / "crm", plan=plan)
        self._tickets = SimulatorProcess("ticketing", folder / "tickets", plan=lagging)
        self._forgetful = SimulatorProcess(
            "ticketing", folder / "forgetful", plan={**lagging, "key_retention_seconds": float(KEY_SECONDS)}
        )
        self._email = SimulatorProcess("email", folder / "email", plan=plan)
        self._needed = {self.provider(contract) for contract in contracts}
        self._stack = ExitStack()

    def provider(self, contract: Contract) -> SimulatorProcess:
        """Return the simulator that serves a contract."""
        match contract:
            case Contract.KEYED:
                return self._tickets
            case Contract.KEY_EXPIRED:
                return self._forgetful
            case Contract.UPSERT | Contract.UPSERT_GUARDED | Contract.STRONG:
                return self._crm
            case _:
                return self._email

    @property
    def crm(self) -> SimulatorProcess:
        """The CRM, where dependants are carried out."""
        return self._crm

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for servers in filter(None, (self.shared, self.struck)):
                stack.callback(servers.stop)
                servers.start()
            for simulator in self._needed:
                stack.callback(simulator.stop)
                simulator.start(START_SECONDS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
