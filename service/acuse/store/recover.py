"""What nobody works on any more, handed over again. The judgement is in the database's functions; here is how to call them.

Every function does one bounded piece and returns how much it did; fewer than `limit` means that nothing more is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection, text

__all__ = [
    "Candidate",
    "Expired",
    "Page",
    "ensure_partitions",
    "expire_claims",
    "hand_over_due",
    "hand_over_free",
    "hand_over_lost",
    "lost_candidates",
]

_EXPIRE_CLAIMS = text("select id, was from acuse.expire_claims(:limit, cast(:before as timestamptz))")
_HAND_OVER_DUE = text("select acuse.hand_over_due(:limit, cast(:before as timestamptz))")
_HAND_OVER_FREE = text(
    "select looked_at, handed_over, last_seq from acuse.hand_over_free(:limit, cast(:older_than as interval), :after)"
)
_LOST_CANDIDATES = text(
    """
    select id, version, queue, handed_at
      from acuse.lost_candidates(cast(:older_than as interval), :limit, cast(:after as timestamptz), cast(:after_id as uuid))
    """
)
_HAND_OVER_LOST = text("select acuse.hand_over_lost(cast(:ids as uuid[]), cast(:versions as bigint[]))")
_SHORT_LOCK_TIMEOUT = text("select set_config('lock_timeout', '2000', true)")
_ENSURE_PARTITIONS = text("select acuse.ensure_partitions(:months)")


@dataclass(frozen=True, slots=True)
class Expired:
    """A claim that ended by time. `was`: the state before; `dispatching` became `unknown`, the others stayed what they were."""

    id: UUID
    was: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of waiting operations was judged. `last`: behind which the next page begins; None: this was the last one."""

    handed_over: int
    last: int | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Handed to the broker long ago and not in the outbox: lost, unless the broker still holds it."""

    id: UUID
    version: int
    queue: str
    handed_at: datetime


def expire_claims(connection: Connection, limit: int, before: datetime | None = None) -> list[Expired]:
    """End claims whose time is over: on dispatching the operation becomes unknown, on anything else the claim just ends.

    `before`: those whose time was over by then, by the database's clock; None: by now.
    """
    return [Expired(row.id, row.was) for row in connection.execute(_EXPIRE_CLAIMS, {"limit": limit, "before": before})]


def hand_over_due(connection: Connection, limit: int, before: datetime | None = None) -> int:
    """Hand over operations that wanted work from a time on that has come, by `before` or by now."""
    return int(connection.execute(_HAND_OVER_DUE, {"limit": limit, "before": before}).scalar_one())


def hand_over_free(connection: Connection, limit: int, older_than: timedelta, after: int = 0) -> Page:
    """Judge one page of waiting operations that nobody touched for `older_than`; hand over those that wait for nothing."""
    looked_at, handed_over, last = connection.execute(
        _HAND_OVER_FREE, {"limit": limit, "older_than": older_than, "after": after}
    ).one()
    return Page(handed_over, last if looked_at == limit else None)


def lost_candidates(connection: Connection, older_than: timedelta, limit: int, after: Candidate | None = None) -> list[Candidate]:
    """One page of candidates, the longest handed over first. Ask the broker what it holds AFTER this read, never before."""
    asked = {
        "older_than": older_than,
        "limit": limit,
        "after": after.handed_at if after else None,
        "after_id": after.id if after else None,
    }
    return [Candidate(row.id, row.version, row.queue, row.handed_at) for row in connection.execute(_LOST_CANDIDATES, asked)]


def hand_over_lost(connection: Connection, lost: Sequence[Candidate]) -> int:
    """Hand over again those that have not changed since they were read. Returns how many that were."""
    asked = {"ids": [one.id for one in lost], "versions": [one.version for one in lost]}
    return int(connection.execute(_HAND_OVER_LOST, asked).scalar_one())


def ensure_partitions(connection: Connection, months: int) -> int:
    """Make the partitions of the history for so many months ahead, waiting at most 2 s. Returns how many were missing."""
    connection.execute(_SHORT_LOCK_TIMEOUT)
    return int(connection.execute(_ENSURE_PARTITIONS, {"months": months}).scalar_one())
