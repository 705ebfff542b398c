"""Until when things may still happen, and until when a repeat is safe. All arithmetic on times is here.

Every `now` is the database's clock, in UTC.
"""

from datetime import datetime

from acuse.protocol.contract import RetryContract

__all__ = ["key_covers", "key_usable_until", "nothing_in_flight_from"]


def key_usable_until(contract: RetryContract, first_sent_at: datetime) -> datetime | None:
    """Return the last moment at which a repeat with the same key may be **dispatched**, or None without a key.

    A request that is dispatched now may reach the provider's books as late as now + deadline + max_in_flight, and the key
    must be remembered then, less the margin.
    """
    if contract.key is None or contract.max_in_flight is None:
        return None
    spent = contract.deadline + contract.max_in_flight.value + contract.key.margin
    return first_sent_at + contract.key.retention.value - spent


def key_covers(contract: RetryContract, first_sent_at: datetime, now: datetime) -> bool:
    """Say whether a repeat with the same key is safe if it is dispatched now."""
    until = key_usable_until(contract, first_sent_at)
    return until is not None and now <= until


def nothing_in_flight_from(contract: RetryContract, sent_at: datetime) -> datetime | None:
    """Return when a request dispatched at `sent_at` can no longer act at the provider, or None if nobody says."""
    if contract.max_in_flight is None:
        return None
    return sent_at + contract.deadline + contract.max_in_flight.value
