"""A worker process: a real Dramatiq worker with the engine inside, from boot to SIGTERM."""

import random
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import timedelta

import redis
import structlog
from dramatiq import Worker
from prometheus_client import start_http_server
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from acuse.command.stopping import stopped_by_signals
from acuse.errors import ConfigurationError
from acuse.settings import Settings
from acuse.store.engine import async_engine, sync_engine
from acuse.store.failure import worth_repeating
from acuse.store.handshake import check_schema
from acuse.store.pooler import Between, look_between
from acuse_adapters.actors import EngineLife, declare, queues_of
from acuse_adapters.broker import make_broker
from acuse_adapters.check import NOT_CONFIGURED, problems
from acuse_adapters.engine import Book, Counters, Engine, Moments
from acuse_adapters.engine.moment import nothing
from acuse_adapters.port import Registry

__all__ = ["WorkerProcess", "worker_process"]

IDLE_POLL_MILLISECONDS = 20
"""Dramatiq's idle pause. Its default of one second is what an idle queue would answer in."""

THREADS_SECONDS = 5
"""How long Dramatiq's threads may take to end once nothing is in the air any more."""

_log = structlog.get_logger(__name__)


class WorkerProcess:
    """Carries operations of its adapters' providers out until it is told to stop.

    Raises `ConfigurationError` where an adapter contradicts its contract, or has none, or its deadline does not fit the lease;
    `SchemaMismatch` where the database has another schema. A database or Redis that is away is waited for.
    """

    def __init__(self, settings: Settings, registry: Registry, *, moments: Moments = nothing) -> None:
        self._settings = settings
        self._registry = registry
        self._moments = moments
        self._stop = threading.Event()
        self._database: AsyncEngine | None = None
        self._ledger = ""
        self.counters = Counters()
        self._check()
        self._life = EngineLife(self._build, self._close, settings.grace_seconds)
        dead_after = timedelta(seconds=settings.worker_dead_after_seconds)
        self._broker = make_broker(settings.redis_url, settings.redis_namespace, self._life, dead_after)
        declare(self._broker, self._life, registry.providers)

    def run(self) -> int:
        """Work until SIGTERM or SIGINT, or until `stop`. Returns the exit code."""
        with stopped_by_signals(self._stop), closing(self._broker):
            return self._run()

    def _run(self) -> int:
        self._wait_for("redis", self._ping_redis)
        self._wait_for("database", self._read_schema)
        if self._stop.is_set():
            return 0
        self._serve_metrics()  # before Dramatiq's threads: what fails behind them would leave a process that nobody can stop
        worker = Worker(
            self._broker,
            queues={name for provider in self._registry.providers for name in queues_of(provider)},
            worker_timeout=IDLE_POLL_MILLISECONDS,
            worker_threads=self._settings.worker_threads,
        )
        # A message that waits in one worker's memory is not taken by an idle one: hold no more than is worked on.
        worker.queue_prefetch = self._settings.worker_threads
        worker.start()
        if self._life.failure is not None:
            worker.stop(timeout=THREADS_SECONDS * 1000)
            raise self._life.failure
        _log.info("worker_started", providers=self._registry.providers, threads=self._settings.worker_threads)
        self._stop.wait()
        _log.info("worker_stopping", grace_seconds=self._settings.grace_seconds)
        worker.stop(timeout=THREADS_SECONDS * 1000)
        _log.info("worker_stopped")
        return 0

    def stop(self) -> None:
        """Ask the worker to stop; `run` returns when it has."""
        self._stop.set()

    def _serve_metrics(self) -> None:
        host, port = self._settings.metrics_host, self._settings.metrics_port
        if port is None:
            return
        try:
            start_http_server(port, host, registry=self.counters.registry)
        except OSError as error:
            raise ConfigurationError(f"ACUSE_METRICS_PORT: cannot listen on {host}:{port} ({error.strerror})") from error

    def _check(self) -> None:
        if not self._registry.adapters:
            raise ConfigurationError(NOT_CONFIGURED)
        found = problems(self._registry, timedelta(seconds=self._settings.lease_seconds))
        if found:
            raise ConfigurationError("adapters cannot run like this:\n  " + "\n  ".join(found))

    async def _build(self) -> Engine:
        threads, wanted = self._settings.worker_threads, self._settings.worker_concurrency
        self._database = async_engine(self._settings.database_url, pool_size=max(4, min(threads * 2, 20)), name="acuse-worker")
        engine = Engine(
            Book(self._database, timedelta(seconds=self._settings.lease_seconds)),
            self._registry,
            ledger=self._ledger,  # was read while we waited for the database, which may be away again
            concurrency=wanted,
            counters=self.counters,
            moments=self._moments,
        )
        await engine.open()
        return engine

    async def _close(self) -> None:
        if self._database is not None:
            await self._database.dispose()

    def _wait_for(self, what: str, there: Callable[[], None]) -> None:
        """Wait for a server instead of dying and being started again, over and over."""
        pause = 0.1
        while not self._stop.is_set():
            try:
                there()
            except (redis.exceptions.RedisError, SQLAlchemyError) as error:
                if isinstance(error, SQLAlchemyError) and not worth_repeating(error):
                    raise
                _log.warning("server_away", server=what, error=type(error).__name__)
                self._stop.wait(pause * random.uniform(0.8, 1.2))  # noqa: S311  # jitter, not a secret
                pause = min(pause * 2, 5.0)
            else:
                return

    def _ping_redis(self) -> None:
        with redis.Redis.from_url(self._settings.redis_url, socket_timeout=5, socket_connect_timeout=5) as client:
            client.ping()

    def _read_schema(self) -> None:
        engine = sync_engine(self._settings.database_url, pool_size=2, name="acuse-worker start")
        try:
            with engine.connect() as connection:
                self._ledger = check_schema(connection)
            between = look_between(engine)
        finally:
            engine.dispose()
        if between is not Between.NOTHING:
            _log.info("worker_behind_pooler", noticed=between.value)


def worker_process(settings: Settings, providers: Iterable[str] = ()) -> WorkerProcess:
    """Return a worker for the adapters that the environment configures."""
    return WorkerProcess(settings, Registry.from_entry_points(providers))
