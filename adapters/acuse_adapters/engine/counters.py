"""What workers count, in Prometheus' own client. One registry a process."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["Counters"]


class Counters:
    """The worker's series. Labels hold providers and codes, never ids, tenants or payload."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.attempts = Counter(
            "acuse_attempts", "Requests that may have left, by their outcome", ["provider", "outcome"], registry=self.registry
        )
        self.settled = Counter(
            "acuse_operations_settled",
            "Operations settled, by state and how",
            ["provider", "state", "by"],
            registry=self.registry,
        )
        self.prevented = Counter(
            "acuse_duplicates_prevented",
            "Second calls that did not happen, by what prevented them",
            ["kind"],
            registry=self.registry,
        )
        for kind in ("delivery", "fenced", "evidence", "replay"):
            self.prevented.labels(kind=kind)  # from zero on, so that the first one is seen as an increase
        self.gated = Counter(
            "acuse_dispatch_gated", "Dispatches that were not allowed, by gate", ["gate"], registry=self.registry
        )
        self.deferred = Counter(
            "acuse_operations_deferred", "Operations put off before a dispatch", ["why"], registry=self.registry
        )
        self.foreign = Counter(
            "acuse_messages_foreign", "Messages that are not of this ledger, or forged", registry=self.registry
        )
        self.in_the_air = Gauge("acuse_provider_calls_in_the_air", "Provider calls that run now", registry=self.registry)
        self.seconds = Histogram(
            "acuse_send_seconds",
            "From the first byte to the outcome",
            ["provider"],
            registry=self.registry,
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45),  # up to the longest deadline
        )
