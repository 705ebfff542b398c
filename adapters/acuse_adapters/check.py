"""What must be true of the configured adapters before a worker may start. Asked by the worker and by `acuse doctor`."""

from collections.abc import Iterator
from datetime import timedelta

from acuse.errors import ConfigurationError
from acuse.settings import Settings
from acuse_adapters.port import Registry

__all__ = ["LEASE_RESERVE", "NOT_CONFIGURED", "check", "problems"]

LEASE_RESERVE = timedelta(seconds=5)
"""A claim must outlast a whole deadline and leave time to save the outcome."""

NOT_CONFIGURED = "no adapter is configured: set ACUSE_CRM_URL, ACUSE_TICKET_URL or ACUSE_EMAIL_SMTP_HOST"


def problems(registry: Registry, lease: timedelta) -> list[str]:
    """Return what must be mended before a worker may start, in words; empty if nothing must."""
    return registry.problems() + [
        f"{declared.name}: its deadline of {declared.contract.deadline.total_seconds():g} s does not fit a lease of "
        f"{lease.total_seconds():g} s with {LEASE_RESERVE.total_seconds():g} s to save the outcome"
        for adapter in registry.adapters
        for declared in adapter.actions.values()
        if declared.contract.deadline + LEASE_RESERVE > lease
    ]


def check(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield level, subject and sentence for each thing seen (entry-point group `acuse.checks`)."""
    try:
        registry = Registry.from_entry_points()
    except ConfigurationError as error:
        yield "wrong", "adapters", str(error)
        return
    if not registry.adapters:
        yield "note", "adapters", f"{NOT_CONFIGURED}; a host that only stages needs none"
        return
    found = problems(registry, timedelta(seconds=settings.lease_seconds))
    for problem in found:
        yield "wrong", "adapters", problem
    if not found:
        served = "; ".join(f"{adapter.provider}: {', '.join(sorted(adapter.actions))}" for adapter in registry.adapters)
        yield "ok", "adapters", served
