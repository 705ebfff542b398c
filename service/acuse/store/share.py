"""Taking rows of a queue where more waits than there is room for: each tenant that has some gets its share.

Under the same lock on the queue as everything that the relay takes (`ready_queues`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from acuse.store.relay import OutboxRow, rows_of

__all__ = ["Start", "take_shares", "tenants_waiting"]

_TENANTS_WAITING = text(
    """
    select acuse.shares(:queue, cast(:after as text), coalesce(cast(:floor as timestamptz), '-infinity'),
                        cast(:known as text[]), cast(:floors as timestamptz[]), cast(:most as int)) as tenant
    """
)

# Lateral per tenant, and the ids through an array, for the reasons told at `take_rows`.
_TAKE_SHARES = text(
    """
    with front as materialized (
      select o.id
        from unnest(cast(:tenants as text[]), cast(:limits as int[]), cast(:floors as timestamptz[])) s(tenant, most, floor)
       cross join lateral (
        select id from acuse.outbox_message o where o.queue = :queue and o.tenant = s.tenant
           and o.available_at >= coalesce(s.floor, '-infinity') and o.available_at <= statement_timestamp()
         order by o.available_at, o.id limit s.most for update skip locked) o)
    delete from acuse.outbox_message where id = any(array(select id from front))
    returning id, queue, tenant, operation_id, message, available_at
    """
)


@dataclass(frozen=True, slots=True)
class Start:
    """Where to start in a queue: behind which tenant (None: at the first), and from which time on.

    `floors`: per tenant of whom rows were moved; `floor`: for all others. None: from the first row.
    """

    after: str | None
    floor: datetime | None
    floors: Mapping[str, datetime | None]

    def of(self, tenant: str) -> datetime | None:
        """Where to start in a tenant's rows."""
        return self.floors.get(tenant) or self.floor


def tenants_waiting(connection: Connection, queue: str, start: Start, most: int) -> list[str]:
    """The tenants with rows of a queue to move now, in the order of their turns, at most `most` of them."""
    known = dict(sorted(({"": None} | dict(start.floors)).items()))  # by code points, which is UTF-8's order of bytes
    asked = {
        "queue": queue,
        "after": start.after,
        "floor": start.floor,
        "known": list(known),
        "floors": list(known.values()),
        "most": most,
    }
    return list(connection.execute(_TENANTS_WAITING, asked).scalars())


def take_shares(connection: Connection, queue: str, portions: Mapping[str, int], start: Start) -> list[OutboxRow]:
    """Delete and return the first rows of each tenant, of each at most its portion."""
    asked = {
        "queue": queue,
        "tenants": list(portions),
        "limits": list(portions.values()),
        "floors": [start.of(tenant) for tenant in portions],
    }
    return rows_of(connection.execute(_TAKE_SHARES, asked))
