"""Real relay, real workers, real providers' simulators around one ledger of their own."""

import os
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid4

import dramatiq
import redis
from dramatiq.brokers.redis import MAINTENANCE_SCALE, RedisBroker
from sqlalchemy import Engine, Row, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from acuse import Outbox
from acuse.command.fleet import Fleet
from acuse.embedded.child import Child
from acuse.identifier import uuid_of
from acuse.intent import Action
from acuse.store.engine import sync_engine
from acuse_migrations import upgrade

PATIENCE = 20.0
HELD_WORKER = Path(__file__).with_name("held_worker.py")

SETTINGS = {
    "ACUSE_LEASE_SECONDS": "10",
    "ACUSE_LOST_AFTER_SECONDS": "2",
    "ACUSE_RECOVER_SECONDS": "0.1",
    "ACUSE_GRACE_SECONDS": "0.5",
    "ACUSE_WORKER_THREADS": "2",
    "ACUSE_CRM_TOKEN": "t",
    "ACUSE_TICKET_TOKEN": "t",
    "ACUSE_CRM_DEADLINE_SECONDS": "5",
    "ACUSE_CRM_MAX_IN_FLIGHT_SECONDS": "1",
    "ACUSE_TICKET_DEADLINE_SECONDS": "1",
    "ACUSE_TICKET_MAX_IN_FLIGHT_SECONDS": "1",
    "ACUSE_EMAIL_DEADLINE_SECONDS": "1",
    "ACUSE_EMAIL_MAX_IN_FLIGHT_SECONDS": "1",
    "dramatiq_restart_delay": "100",
}


def until(fact: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """What `fact` returns, as soon as it is true."""
    end = time.monotonic() + seconds
    while not (value := fact()):
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.01)
    return value


@contextmanager
def own_ledger(server_url: str) -> Iterator[str]:
    """A database with the schema, for the time of the block."""
    name = f"acuse_test_{uuid4().hex[:12]}"
    url = make_url(server_url).set(drivername="postgresql+psycopg")
    admin = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with admin.connect() as connection:
        connection.execute(text(f"create database {name}"))
    own = url.set(database=name).render_as_string(hide_password=False)
    try:
        engine = create_engine(own, poolclass=NullPool)
        with engine.begin() as connection:
            upgrade(connection)
        yield own
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"drop database if exists {name} with (force)"))


class Crew:
    """Processes around one ledger, and what a test asks of them. A context manager: nothing outlives it."""

    def __init__(self, folder: Path, database_url: str, redis_url: str, namespace: str, **settings: str) -> None:
        self.folder = folder
        self.engine: Engine = sync_engine(database_url)
        self.redis = redis.Redis.from_url(redis_url)
        self.namespace = namespace
        self.fleet = Fleet(
            folder,
            {
                **SETTINGS,
                "ACUSE_DATABASE_URL": database_url,
                "ACUSE_REDIS_URL": redis_url,
                "ACUSE_REDIS_NAMESPACE": namespace,
                **settings,
            },
        )
        self._workers = 0

    def relay(self) -> Child:
        return self.fleet.acuse("relay", "relay")

    def worker(self, *words: str, **settings: str) -> tuple[str, Child]:
        """Start a worker and wait until it works. Returns its name and its process."""
        name, child = self._start(["-m", "acuse", "worker", *words], settings)
        until(lambda: self.fleet.has_said(name, "worker_started") or child.exit_code is not None, f"{name} starts")
        assert child.exit_code is None, self.fleet.tail(name)
        return name, child

    def worker_held_at(self, moment: str) -> tuple[str, Child, Path]:
        """Start a worker that stops at a moment; the path exists as soon as it does."""
        held = self.folder / f"held-{uuid4().hex[:8]}"
        name, child = self._start([str(HELD_WORKER)], {"HOLD_AT": moment, "HELD": str(held)})
        return name, child, held

    def worker_frozen_at(self, moment: str, **settings: str) -> tuple[str, Path, Callable[[], None]]:
        """Start a worker that stands still as a whole at a moment, once. Returns its name, the path that exists as soon as it
        does, and what lets it go on.
        """
        held = self.folder / f"held-{uuid4().hex[:8]}"
        pipe = held.with_suffix(".pipe")
        os.mkfifo(pipe)
        name, _ = self._start([str(HELD_WORKER)], {"HOLD_AT": moment, "HELD": str(held), "THAW": str(pipe), **settings})
        return name, held, lambda: os.close(os.open(pipe, os.O_WRONLY))

    def _start(self, words: list[str], settings: dict[str, str]) -> tuple[str, Child]:
        self._workers += 1
        name = f"worker-{self._workers}"
        return name, self.fleet.start(name, [sys.executable, *words], settings)

    def stage(self, wanted: Action, tenant: str) -> UUID:
        """Stage an effect, committed."""
        with self.engine.begin() as connection:
            staged = Outbox().stage(connection, wanted, tenant=tenant, effect_key=uuid4().hex)
        return uuid_of(staged.operation_id, prefix="op", field="id")

    def row(self, operation: UUID) -> Row[Any]:
        with self.engine.connect() as connection:
            return connection.execute(text("select * from acuse.operation where id = :id"), {"id": operation}).one()

    def becomes(self, operation: UUID, state: str) -> Row[Any]:
        """The operation's row, as soon as it is in a state."""

        def there() -> Row[Any] | None:
            row = self.row(operation)
            return row if row.status == state else None

        try:
            row: Row[Any] = until(there, state)
        except AssertionError:
            logs = "\n".join(f"--- {file.name}\n{file.read_text()[-3000:]}" for file in sorted(self.folder.glob("*.log")))
            raise AssertionError(f"{self.row(operation)} never became {state}\n{logs}") from None
        return row

    def let_claims_expire(self, operation: UUID) -> None:
        """The end of a claim comes, in place of waiting for it."""
        with self.engine.begin() as connection:
            connection.execute(
                text(
                    """update acuse.operation set claim_until = clock_timestamp() - interval '1 ms', version = version + 1
                        where id = :id and claim_until is not null"""
                ),
                {"id": operation},
            )

    def push(self, operation: UUID, queue: str, times: int = 1) -> None:
        """The broker delivers a message (again)."""
        with self.engine.connect() as connection:
            ledger = connection.execute(text("select value from acuse.meta where key = 'ledger_id'")).scalar_one()
        for _ in range(times):
            identity = uuid4().hex
            message: dramatiq.Message[Any] = dramatiq.Message(
                queue_name=queue,
                actor_name="perform",
                args=(ledger, [f"op_{operation.hex}"]),
                kwargs={},
                options={"redis_message_id": identity},
                message_id=identity,
            )
            self.redis.hset(f"{self.namespace}:{queue}.msgs", identity, message.encode())
            self.redis.rpush(f"{self.namespace}:{queue}", identity)

    def take_back(self, queue: str) -> None:
        """The broker takes back what it has given to workers that were not heard of, which is all of them now."""
        silent = self.redis.zrange(f"{self.namespace}:__heartbeats__", 0, -1)
        self.redis.zadd(f"{self.namespace}:__heartbeats__", dict.fromkeys(silent, 0))
        broker = RedisBroker(  # type: ignore[no-untyped-call]
            client=self.redis, namespace=self.namespace, middleware=[], maintenance_chance=MAINTENANCE_SCALE
        )
        broker.do_qsize(queue)

    def depth(self, queue: str) -> int:
        """Messages that wait, or that were fetched and not acknowledged."""
        return int(self.redis.hlen(f"{self.namespace}:{queue}.msgs"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.fleet.stop()
        self.engine.dispose()
        with suppress(redis.ConnectionError):  # a broker of the test alone is gone already, and its keys with it
            if keys := list(self.redis.scan_iter(f"{self.namespace}*")):
                self.redis.delete(*keys)
        self.redis.close()


def scraped(port: int, series: str) -> float:
    """The sum of a series over its labels that start with this text, from a worker's /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(series))


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
