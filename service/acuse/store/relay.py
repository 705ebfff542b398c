"""What the relay reads and takes from the outbox, and what it counts there. Knows queues, not providers.

One batch is one transaction of a relay: `ready_queues` (which also locks them), the broker is asked how deep they are,
`take_rows` (and `take_shares` of a queue where more waits than there is room for), the rows are pushed, COMMIT. Until the
COMMIT nobody else sees the rows gone, so a crash at any point leaves them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, CursorResult, text

from acuse.store.snapshot import holders

__all__ = ["Census", "OutboxRow", "Wanted", "ledger_id", "ready_queues", "rows_of", "take_census", "take_rows"]

STALLED_TRANSACTION_MILLISECONDS = 20_000
"""A relay that stands still inside a batch (stopped, swapped out) would keep its queues locked: the server ends it. Longer
than every time-out of the queue together; ending it at any point only doubles messages."""

_LEDGER_ID = text("select value from acuse.meta where key = 'ledger_id'")

# Which queues have rows to move now, of those that no other relay is moving at this moment.
#
# A plain `select distinct queue` reads every row, and a loose index scan reads every dead row of each queue while an old
# snapshot is open somewhere. So known queues are probed from their trailing floor on, and unknown ones are looked for in the
# gaps between the known names, where no dead rows lie. Names are ordered by the database: Python orders them differently.
# A crowded queue, from which the last batch did not take everything, is not probed: it is asked anyway who waits there.
#
# The lock is per queue and ends with the transaction. It is what keeps the bound of depth: two relays that read the depth
# side by side would both fill the same room. It is only tried, so nobody waits and nobody deadlocks.
_READY_QUEUES = text(
    """
    with known as (
      select k.queue, coalesce(k.floor, '-infinity') as floor, k.queue = any(cast(:crowded as text[])) as crowded
        from unnest(cast(:queues as text[]), cast(:floors as timestamptz[])) k(queue, floor)),
    gap as (
      select queue as low, lead(queue) over (order by queue) as high from (select queue from known union all select '') k),
    ready as materialized (
      select queue from known where crowded
      union all
      select known.queue from known cross join lateral (
        select from acuse.outbox_message o where o.queue = known.queue
           and o.available_at >= known.floor and o.available_at <= statement_timestamp()
         order by o.available_at limit 1) o
       where not crowded
      union all
      select o.queue from gap cross join lateral (
        select o.queue from acuse.outbox_message o where o.queue > gap.low and o.queue < gap.high order by o.queue limit 1) o
       where gap.high is not null
      union all
      select o.queue from gap cross join lateral (
        select o.queue from acuse.outbox_message o where o.queue > gap.low order by o.queue limit 1) o
       where gap.high is null)
    select ready.queue, set_config('idle_in_transaction_session_timeout', cast(:stalled as text), true)
      from ready where pg_try_advisory_xact_lock(hashtextextended('acuse.relay ' || ready.queue, 0))
    """
)

# Take all rows of several queues, of each of which no more wait than it has room for: of a queue with more, none, unless they
# are known to be of one tenant; then as many as there is room for, if no other has come.
#
# Lateral per queue, so that a full queue costs nothing (skipping full queues with `queue <> all(…)` read 1.2 million rows).
# The ids go through an array: `id in (select … skip locked limit n)` may be planned as a loop that runs the inner select again
# and deletes far more than n. Nothing remembers a "last id seen": a lower id that commits late is found like any other.
_TAKE_ROWS = text(
    """
    with roomy as materialized (
      select q.queue, q.most, coalesce(q.floor, '-infinity') as floor
        from unnest(cast(:queues as text[]), cast(:limits as int[]), cast(:floors as timestamptz[]), cast(:sole as text[]),
                    cast(:others as timestamptz[])) q(queue, most, floor, sole, others)
       where case when q.sole is null then not exists (
        select from acuse.outbox_message o where o.queue = q.queue
           and o.available_at >= coalesce(q.floor, '-infinity') and o.available_at <= statement_timestamp()
         order by o.available_at, o.id offset q.most)
       else not acuse.others_wait(q.queue, q.sole, coalesce(q.others, '-infinity')) end),
    front as materialized (
      select o.id from roomy q cross join lateral (
        select id from acuse.outbox_message o where o.queue = q.queue
           and o.available_at >= q.floor and o.available_at <= statement_timestamp()
         order by o.available_at, o.id limit q.most for update skip locked) o)
    delete from acuse.outbox_message where id = any(array(select id from front))
    returning id, queue, tenant, operation_id, message, available_at
    """
)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One row that was taken: work on an operation, or a message of the host (`id`, `actor`, `args`, `kwargs`, `options`).

    `tenant`: whose share of the queue it used; "" for a message of a host that named none.
    """

    id: int
    queue: str
    operation_id: UUID | None
    message: dict[str, Any] | None
    available_at: datetime
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """At most `limit` rows of a queue, none that became available before `floor` (None: all).

    `only`: the tenant of which all of them are said to be; rows of others are looked for from `others` on.
    """

    queue: str
    limit: int
    floor: datetime | None = None
    only: str | None = None
    others: datetime | None = None


def ledger_id(connection: Connection) -> str:
    """The id of this ledger, which every message carries so that a worker of another ledger leaves it alone."""
    return str(connection.execute(_LEDGER_ID).scalar_one())


def ready_queues(connection: Connection, floors: Mapping[str, datetime | None], crowded: Iterable[str] = ()) -> list[str]:
    """Queues with rows to move now, locked for this transaction. `floors`: the queues known so far, and where to start in each.

    A queue that is not in `floors` is found too, at the latest one call later for each other new one. Those of `floors` that
    are `crowded` are taken for ready.
    """
    asked = {
        "queues": list(floors),
        "floors": list(floors.values()),
        "crowded": list(crowded),
        "stalled": str(STALLED_TRANSACTION_MILLISECONDS),
    }
    return [row.queue for row in connection.execute(_READY_QUEUES, asked)]


def take_rows(connection: Connection, wanted: Sequence[Wanted]) -> list[OutboxRow]:
    """Delete and return all rows of each queue that has no more than its limit. Of one with more, nothing is taken,
    unless all are of the one tenant that is named: then as many as the limit allows."""
    asked = {
        "queues": [one.queue for one in wanted],
        "limits": [one.limit for one in wanted],
        "floors": [one.floor for one in wanted],
        "sole": [one.only for one in wanted],
        "others": [one.others for one in wanted],
    }
    return rows_of(connection.execute(_TAKE_ROWS, asked))


def rows_of(taken: CursorResult[Any]) -> list[OutboxRow]:
    """The rows that a statement has taken, in the order in which they became available."""
    rows = [OutboxRow(row.id, row.queue, row.operation_id, row.message, row.available_at, row.tenant) for row in taken]
    return sorted(rows, key=lambda row: (row.available_at, row.id))


_STATEMENT_TIMEOUT = text("select set_config('statement_timeout', '5000', true)")  # a scrape never weighs on a sick database
_UNRESOLVED = text(
    """
    select provider, status, count(*) as operations, extract(epoch from clock_timestamp() - min(first_sent_at))::float8 as oldest
      from acuse.operation where status in ('dispatching', 'unknown') group by provider, status
    """
)
_HELD = text("select provider, count(*) as operations from acuse.operation where held is not null group by provider")
_OUTBOX = text(
    """
    select queue, count(*) as messages, greatest(0, extract(epoch from clock_timestamp() - min(available_at)))::float8 as oldest
      from acuse.outbox_message group by queue
    """
)
_HANDED_OVER = text(
    """
    select provider, extract(epoch from clock_timestamp() - min(handed_at))::float8 as oldest from acuse.operation o
     where handed_at is not null and not exists (select 1 from acuse.outbox_message m where m.operation_id = o.id)
     group by provider
    """
)
_ACCOUNTS = text(
    """
    select provider, 'pause' as kind, count(*) as accounts from acuse.account
     where paused_at is not null and (paused_until is null or paused_until > clock_timestamp()) group by provider
    union all
    select provider, 'breaker', count(*) from acuse.account where opened_at is not null group by provider
    """
)
_INCIDENTS = text("select kind, count(*) as incidents from acuse.incident where closed_at is null group by kind")


@dataclass(frozen=True, slots=True)
class Census:
    """What is unfinished at one moment. Ages in seconds by the database's clock; a key that is not there counts 0."""

    unresolved: Mapping[tuple[str, str], int]
    """Operations in doubt by (provider, state)."""
    oldest_unresolved: Mapping[str, float]
    """Since the first send of the oldest operation in doubt, by provider."""
    held: Mapping[str, int]
    """Operations that only a person can carry on, by provider."""
    outbox: Mapping[str, int]
    """Rows that were not moved yet, by queue."""
    oldest_outbox: Mapping[str, float]
    """Since the oldest row could have been moved, by queue; 0 if none is available yet."""
    oldest_handed_over: Mapping[str, float]
    """Since the oldest operation wanted work that is in the broker and that no worker has taken, by provider."""
    accounts: Mapping[tuple[str, str], int]
    """Accounts to which nothing is sent, by (provider, `pause` or `breaker`)."""
    incidents: Mapping[str, int]
    """Open incidents by kind."""
    oldest_snapshot: float
    """Since the start of the oldest transaction that keeps dead rows; 0 if there is none."""


def take_census(connection: Connection) -> Census:
    """Count what is unfinished. Reads partial indexes only, and gives up after 5 s."""
    connection.execute(_STATEMENT_TIMEOUT)
    unresolved = connection.execute(_UNRESOLVED).all()
    outbox = connection.execute(_OUTBOX).all()
    snapshots = holders(connection)
    oldest: dict[str, float] = {}
    for row in unresolved:
        oldest[row.provider] = max(oldest.get(row.provider, 0.0), row.oldest)
    return Census(
        unresolved={(row.provider, row.status): row.operations for row in unresolved},
        oldest_unresolved=oldest,
        held={row.provider: row.operations for row in connection.execute(_HELD)},
        outbox={row.queue: row.messages for row in outbox},
        oldest_outbox={row.queue: row.oldest for row in outbox},
        oldest_handed_over={row.provider: row.oldest for row in connection.execute(_HANDED_OVER)},
        accounts={(row.provider, row.kind): row.accounts for row in connection.execute(_ACCOUNTS)},
        incidents={row.kind: row.incidents for row in connection.execute(_INCIDENTS)},
        oldest_snapshot=snapshots[0].seconds if snapshots else 0.0,
    )
