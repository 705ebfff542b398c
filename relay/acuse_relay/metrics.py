"""What the relay shows on /metrics: what is unfinished, counted when somebody asks, and what it moved itself.

No series names a tenant, a target or an operation. How many operations were settled is counted where it happens, by workers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from acuse.store.relay import Census, take_census
from acuse_relay.queue.port import Queue, QueueUnavailable

__all__ = ["LedgerCollector", "Meter"]


class Meter:
    """The counters of one relay process, on a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._relayed = Counter("acuse_relayed", "Outbox rows moved to the broker.", ["queue"], registry=self.registry)
        self._recovered = Counter("acuse_recovered", "Operations that the recover loop found.", ["kind"], registry=self.registry)
        self._queues: set[str] = set()

    @property
    def queues(self) -> Collection[str]:
        """The queues that rows were moved to."""
        return frozenset(self._queues)

    def relayed(self, queue: str, rows: int) -> None:
        """Count rows that were moved, after the commit."""
        self._queues.add(queue)
        self._relayed.labels(queue).inc(rows)

    def recovered(self, kind: str, operations: int) -> None:
        """Count operations that were found: `expired`, `due`, `free` or `lost`."""
        self._recovered.labels(kind).inc(operations)


class LedgerCollector(Collector):
    """Gauges computed at each scrape. A database or a queue that is away shows as `acuse_database_up 0` or `acuse_queue_up 0`."""

    def __init__(self, engine: Engine, queue: Queue, meter: Meter) -> None:
        self._engine = engine
        self._queue = queue
        self._meter = meter

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not ask the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Ask the database and the queue, once each."""
        census = self._census()
        yield GaugeMetricFamily("acuse_database_up", "1 if the ledger could be counted.", value=float(census is not None))
        if census is not None:
            yield from _of(census)
        depths = self._depths(census)
        yield GaugeMetricFamily("acuse_queue_up", "1 if the broker's queues could be counted.", value=float(depths is not None))
        if depths is not None:
            yield _gauge("acuse_queue_depth", "Messages in the broker, waiting or with a worker.", ["queue"], _alone(depths))

    def _census(self) -> Census | None:
        try:
            with self._engine.begin() as connection:
                return take_census(connection)
        except SQLAlchemyError:
            return None

    def _depths(self, census: Census | None) -> Mapping[str, int] | None:
        queues = set(self._meter.queues)
        if census is not None:
            queues |= set(census.outbox) | {f"acuse.{provider}" for provider, _ in census.unresolved}
        try:
            return self._queue.depth(sorted(queues))
        except QueueUnavailable:
            return None


def _of(census: Census) -> Iterator[Metric]:
    yield _gauge(
        "acuse_unresolved_operations", "Operations in the air or in doubt.", ["provider", "state"], census.unresolved.items()
    )
    yield _gauge(
        "acuse_oldest_unresolved_seconds",
        "Since the first send of the oldest operation in doubt.",
        ["provider"],
        _alone(census.oldest_unresolved),
    )
    yield _gauge("acuse_held_operations", "Operations that only a person can carry on.", ["provider"], _alone(census.held))
    yield _gauge("acuse_outbox_depth", "Outbox rows that were not moved yet.", ["queue"], _alone(census.outbox))
    yield _gauge(
        "acuse_outbox_oldest_seconds",
        "Since the oldest outbox row could have been moved.",
        ["queue"],
        _alone(census.oldest_outbox),
    )
    yield _gauge(
        "acuse_handed_over_oldest_seconds",
        "Since the oldest operation wanted work that is in the broker and that no worker has taken.",
        ["provider"],
        _alone(census.oldest_handed_over),
    )
    yield _gauge(
        "acuse_accounts_paused",
        "Accounts to which nothing is sent: paused, or their breaker is open.",
        ["provider", "reason_kind"],
        census.accounts.items(),
    )
    yield GaugeMetricFamily(
        "acuse_oldest_snapshot_seconds",
        "Since the start of the oldest transaction that keeps dead rows from being removed.",
        value=census.oldest_snapshot,
    )
    yield _gauge("acuse_open_incidents", "Findings that contradict what is settled.", ["kind"], _alone(census.incidents))


def _alone(values: Mapping[str, float]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((key,), value) for key, value in values.items())


def _gauge(name: str, says: str, labels: list[str], values: Iterable[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, says, labels=labels)
    for key, value in values:
        family.add_metric(list(key), value)
    return family
