"""The relay process: relay and recover loop in a thread each, and /metrics if asked for."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta

import prometheus_client
import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from acuse.command.stopping import stopped_by_signals
from acuse.errors import ConfigurationError
from acuse.settings import Settings
from acuse.store.engine import sync_engine
from acuse.store.handshake import check_schema
from acuse.store.pooler import Between, look_between
from acuse_relay.failures import Failures
from acuse_relay.metrics import LedgerCollector, Meter
from acuse_relay.queue.port import Queue, QueueUnavailable
from acuse_relay.queue.redis import RedisQueue
from acuse_relay.recover import Recover
from acuse_relay.relay import Relay

__all__ = ["RelayProcess", "relay_process"]

_log = structlog.get_logger("acuse.relay")

POOL_SIZE = 4
"""One connection for each loop, one for a scrape, one for an impatient second scrape."""


def relay_process(settings: Settings) -> "RelayProcess":
    """Return the process for these settings (entry-point group `acuse.processes`). Raises `ConfigurationError`."""
    engine = sync_engine(settings.database_url, pool_size=POOL_SIZE, name="acuse relay")
    queue = RedisQueue.from_url(
        settings.redis_url, namespace=settings.redis_namespace, worker_dead_after=settings.worker_dead_after_seconds
    )
    meter = Meter()
    relay = Relay(
        engine,
        queue,
        bound=settings.queue_bound,
        batch_size=settings.batch_size,
        idle_seconds=settings.relay_idle_milliseconds / 1000,
        meter=meter,
    )
    recover = Recover(
        engine,
        queue,
        pause_seconds=settings.recover_seconds,
        lost_after=timedelta(seconds=settings.lost_after_seconds),
        meter=meter,
    )
    address = None if settings.metrics_port is None else (settings.metrics_host, settings.metrics_port)
    return RelayProcess(engine, queue, relay, recover, meter=meter, metrics_address=address)


class RelayProcess:
    """Runs until `stop`, SIGTERM or SIGINT; the batch in hand is finished. A second signal ends it at once.

    A database or a broker that is away is waited for. Another schema and a broker that may forget messages are errors.
    """

    def __init__(
        self,
        engine: Engine,
        queue: Queue,
        relay: Relay,
        recover: Recover,
        *,
        meter: Meter,
        metrics_address: tuple[str, int] | None = None,
    ) -> None:
        self._engine = engine
        self._queue = queue
        self._relay = relay
        self._recover = recover
        self._meter = meter
        self._metrics_address = metrics_address
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self.metrics_port: int | None = None
        """The port on which /metrics is served, once `run` serves it."""

    def stop(self) -> None:
        """Ask `run` to return."""
        self._stop.set()

    def run(self) -> int:
        """Work until stopped, then return 0. Listens to signals only in a main thread.

        Raises `SchemaMismatch` or `ConfigurationError` when it cannot work like this; waiting would not help.
        """
        threads = [
            threading.Thread(target=self._guarded, args=(self._run_relay,), name="acuse-relay"),
            threading.Thread(target=self._guarded, args=(self._run_recover,), name="acuse-recover"),
        ]
        with ExitStack() as stack:
            stack.callback(self._engine.dispose)
            stack.callback(self._queue.close)
            stack.enter_context(stopped_by_signals(self._stop))
            if self._metrics_address is not None:
                stack.callback(self._serve_metrics(*self._metrics_address))
            for thread in threads:
                thread.start()
            self._stop.wait()
            _log.info("relay.stopping")
            for thread in threads:
                thread.join()
        if self._failure is not None:
            raise self._failure
        _log.info("relay.stopped")
        return 0

    def _run_relay(self) -> None:
        self._wait_for(self._schema, SQLAlchemyError)
        self._wait_for(self._notice_pooler, SQLAlchemyError)
        self._wait_for(self._queue.check, QueueUnavailable)
        if not self._stop.is_set():
            _log.info("relay.started")
        self._relay.run(self._stop)

    def _run_recover(self) -> None:
        # Not behind the broker: claims expire and checks come due also while it is away.
        self._wait_for(self._schema, SQLAlchemyError)
        self._recover.run(self._stop)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the edge of a thread: `run` raises it
            self._failure = self._failure or error
            self._stop.set()

    def _wait_for(self, probe: Callable[[], object], away: type[Exception]) -> None:
        failures = Failures("start")
        while not self._stop.is_set():
            try:
                probe()
            except away as error:
                failures.wait_out(error, self._stop)
            else:
                failures.over()
                return

    def _schema(self) -> None:
        with self._engine.connect() as connection:
            check_schema(connection)

    def _notice_pooler(self) -> None:
        between = look_between(self._engine)
        if between is not Between.NOTHING:
            _log.info("relay.behind_pooler", noticed=between.value)

    def _serve_metrics(self, host: str, port: int) -> Callable[[], None]:
        """Serve /metrics and return what ends it."""
        self._meter.registry.register(LedgerCollector(self._engine, self._queue, self._meter))
        try:
            server, thread = prometheus_client.start_http_server(port, addr=host, registry=self._meter.registry)
        except OSError as error:
            raise ConfigurationError(f"ACUSE_METRICS_PORT: cannot listen on {host}:{port} ({error.strerror})") from error
        self.metrics_port = server.server_port
        _log.info("relay.metrics", host=host, port=self.metrics_port)

        def end() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return end
