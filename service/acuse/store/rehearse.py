"""The statements by which a host's test carries operations out inside its own transaction, which is rolled back in the end.

Everything else that such a test needs is done by the statements of a worker, as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

__all__ = ["Mark", "Message", "age", "bodies", "events", "incidents", "mark", "messages", "next_due", "now", "take"]

_MARK: Final = text(
    """
    select clock_timestamp() as at, coalesce((select max(seq) from acuse.operation), 0) as seq,
           coalesce((select max(id) from acuse.outbox_message), 0) as message
    """
)
_NOW: Final = text("select clock_timestamp()")
_OURS: Final = "select id from acuse.operation where seq > :seq"
_BODIES: Final = text(
    "select p.body from acuse.operation o left join acuse.payload p on p.id = o.id where o.seq > :seq order by o.seq"
)
_EVENTS: Final = text(
    "select e.name, p.body from acuse.event e join acuse.payload p on p.id = e.id "
    "where e.id >= acuse.uuid7_floor(:at) order by e.id"
)
_MESSAGES: Final = text(
    "select queue, message, available_at from acuse.outbox_message where message is not null and id > :message order by id"
)
_INCIDENTS: Final = text(
    f"select operation_id, kind, detail from acuse.incident where operation_id in ({_OURS}) order by opened_at, id"  # noqa: S608 - above
)
_TAKE: Final = text(
    f"""
    with m as (delete from acuse.outbox_message where operation_id in ({_OURS}) returning operation_id)
    select distinct o.seq, o.id from m join acuse.operation o on o.id = m.operation_id order by o.seq
    """  # noqa: S608 - above
)
_NEXT_DUE: Final = text(
    """
    select min(case when claim_until is not null then claim_until + interval '1 us' else due_at end) - clock_timestamp()
      from acuse.operation
     where seq > :seq and status in ('prepared', 'dispatching', 'unknown')
    """
)
# Time passes for all that belongs to the test by making it older. Evidence is append-only: its reader accounts for it.
_AGE: Final = text(
    f"""
    with ours as materialized (select id, provider, account from acuse.operation where seq > :seq),
    operations as (
      update acuse.operation set version = version + 1, not_after = not_after - :by, first_sent_at = first_sent_at - :by,
             retry_until = retry_until - :by, claim_until = claim_until - :by, due_at = due_at - :by,
             risk_accepted_at = risk_accepted_at - :by
       where seq > :seq and status in ('prepared', 'dispatching', 'unknown')),
    attempts as (
      update acuse.attempt set dispatched_at = dispatched_at - :by where operation_id in ({_OURS})),
    approvals as (
      update acuse.approval set expires_at = expires_at - :by
       where id >= acuse.uuid7_floor(:at) or id in (select approval_id from acuse.operation where seq > :seq)),
    messages as (
      update acuse.outbox_message set available_at = available_at - :by
       where message is not null and id > :message and available_at > clock_timestamp())
    update acuse.account set paused_at = paused_at - :by, paused_until = paused_until - :by
     where (provider, account) in (select provider, account from ours)
    """  # noqa: S608 - above
)


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a test began: what came later and is visible to it is its own."""

    at: datetime
    seq: int
    message: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the host in the outbox."""

    queue: str
    whole: Mapping[str, Any]
    available_at: datetime


def mark(connection: Connection) -> Mark:
    """Remember this moment."""
    row = connection.execute(_MARK).one()
    return Mark(row.at, row.seq, row.message)


def now(connection: Connection) -> datetime:
    """The database's time."""
    moment: datetime = connection.execute(_NOW).scalar_one()
    return moment


def bodies(connection: Connection, since: Mark) -> list[bytes]:
    """The canonical bodies of the operations, in the order of staging."""
    return [bytes(row.body or b"") for row in connection.execute(_BODIES, {"seq": since.seq})]


def events(connection: Connection, since: Mark) -> list[tuple[str, bytes]]:
    """What was published: name and canonical body."""
    return [(row.name, bytes(row.body)) for row in connection.execute(_EVENTS, {"at": since.at})]


def messages(connection: Connection, since: Mark) -> list[Message]:
    """The host's messages in the outbox."""
    rows = connection.execute(_MESSAGES, {"message": since.message})
    return [Message(row.queue, row.message, row.available_at) for row in rows]


def incidents(connection: Connection, since: Mark) -> list[tuple[UUID, str, Mapping[str, Any]]]:
    """The incidents of the operations."""
    return [(row.operation_id, row.kind, row.detail) for row in connection.execute(_INCIDENTS, {"seq": since.seq})]


def take(connection: Connection, since: Mark) -> Sequence[UUID]:
    """Take the operations' messages out of the outbox, as the relay does; each operation once, in the order of staging."""
    return [row.id for row in connection.execute(_TAKE, {"seq": since.seq})]


def next_due(connection: Connection, since: Mark) -> timedelta | None:
    """In how long something of the test comes due next."""
    at: timedelta | None = connection.execute(_NEXT_DUE, {"seq": since.seq}).scalar_one()
    return at


def age(connection: Connection, since: Mark, by: timedelta) -> None:
    """Make all that belongs to the test older, but for its evidence."""
    connection.execute(_AGE, {"seq": since.seq, "at": since.at, "message": since.message, "by": by})
