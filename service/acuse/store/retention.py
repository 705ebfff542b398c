"""Retention: history goes by the month, never row by row.

Operations and events stay: they are narrow, and their keys must outlive what is dropped here. A partition is first detached
CONCURRENTLY, which waits for the transactions that are open and lets new ones pass; a plain DROP would make every stage queue
behind it. A run that was interrupted at any point is finished by the next one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, Engine, text

from acuse.errors import ConfigurationError
from acuse.intent import check_moment

__all__ = ["Retired", "drop_history", "ensure_partitions"]

HISTORY: Final = ("payload", "attempt", "evidence", "ledger", "run_message", "tool_call")
MONTHS_AHEAD: Final = 13
"""As many as the migration makes: a recover loop that is down for a year still leaves room to stage."""

_NAME: Final = re.compile(rf"({'|'.join(HISTORY)})_([0-9]{{4}})([0-9]{{2}})")

_ENSURE = text("select acuse.ensure_partitions(:months)")

# A transaction's lock, not a session's: behind a pooler an unlock may reach another session, and nobody would ever run again.
# The transaction touches no table, so that no detach waits for it.
_ALONE = text(
    """
    select pg_try_advisory_xact_lock(hashtextextended('acuse.retention', 0)),
           set_config('idle_in_transaction_session_timeout', '0', true)
    """
)
_MONTHS = text(
    """
    select c.relname as name, p.relname as parent, clock_timestamp() as now
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
     where n.nspname = 'acuse' and c.relkind = 'r'
       and c.relname ~ '^(payload|attempt|evidence|ledger|run_message|tool_call)_[0-9]{6}$'
     order by c.relname
    """
)
_PENDING = text(
    """
    select c.relname as name, p.relname as parent
      from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
      join pg_namespace n on n.oid = p.relnamespace
     where n.nspname = 'acuse' and i.inhdetachpending
    """
)
_NEEDED = text(
    """
    select exists (select 1 from acuse.operation
                    where id >= acuse.uuid7_floor(:start) and id < acuse.uuid7_floor(:stop)
                      and status in ('prepared', 'dispatching', 'unknown'))
        or exists (select 1 from acuse.incident
                    where operation_id >= acuse.uuid7_floor(:start) and operation_id < acuse.uuid7_floor(:stop)
                      and closed_at is null)
        or exists (select 1 from acuse.run
                    where id >= acuse.uuid7_floor(:start) and id < acuse.uuid7_floor(:stop) and status = 'running')
    """
)


@dataclass(frozen=True, slots=True)
class Retired:
    """What `drop_history` did.

    kept: months (`2026-01`) that are old enough, but hold unsettled operations, open incidents or running runs.
    """

    dropped: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Partition:
    name: str
    parent: str | None  # None: detached by a run that did not come to dropping it
    start: datetime
    stop: datetime


def ensure_partitions(connection: Connection, months: int = MONTHS_AHEAD) -> int:
    """Make the partitions of the next `months` months (1 to 120) where they are missing; returns how many. The caller commits."""
    return int(connection.execute(_ENSURE, {"months": months}).scalar_one())


def drop_history(engine: Engine, older_than: datetime | timedelta) -> Retired:
    """Drop payloads, attempts, evidence, ledger entries and words of runs of the months that ended before `older_than`.

    older_than: a moment, or an age. An operation's history goes by the month in which it was staged, a run's by that in which
    it was started; this month and the one before always stay. It may take as long as the longest open transaction. Does
    nothing when another run is at work. Takes two connections of the engine.
    """
    with engine.execution_options(isolation_level="READ COMMITTED").begin() as alone:
        if not alone.execute(_ALONE).one()[0]:
            return Retired((), ())
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            return _retire(connection, older_than)


def _retire(connection: Connection, older_than: datetime | timedelta) -> Retired:
    dropped: list[str] = []
    kept: set[str] = set()
    for partition in _finished(connection, older_than):
        if partition.parent is not None:
            moments = {"start": partition.start, "stop": partition.stop}
            if connection.execute(_NEEDED, moments).scalar_one():
                kept.add(f"{partition.start:%Y-%m}")
                continue
            connection.exec_driver_sql(
                f"alter table acuse.{partition.parent} detach partition acuse.{partition.name} concurrently"
            )
        connection.exec_driver_sql(f"drop table acuse.{partition.name}")
        dropped.append(partition.name)
    return Retired(tuple(dropped), tuple(sorted(kept)))


def _finished(connection: Connection, older_than: datetime | timedelta) -> list[_Partition]:
    """The partitions that are old enough, after a detach that was interrupted has been brought to its end."""
    for row in connection.execute(_PENDING).all():
        # As long as it is half detached, no other partition of the table can be.
        connection.exec_driver_sql(f"alter table acuse.{row.parent} detach partition acuse.{row.name} finalize")
    return list(_old(connection, older_than))


def _old(connection: Connection, older_than: datetime | timedelta) -> Iterator[_Partition]:
    for row in connection.execute(_MONTHS):
        now = row.now.astimezone(UTC)
        this_month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        limit = min(_moment(older_than, now), (this_month - timedelta(days=1)).replace(day=1))
        partition = _partition(row.name, row.parent)
        if partition.stop <= limit:
            yield partition


def _partition(name: str, parent: str | None) -> _Partition:
    found = _NAME.fullmatch(name)
    assert found is not None, name
    start = datetime(int(found[2]), int(found[3]), 1, tzinfo=UTC)
    return _Partition(name, parent, start, (start + timedelta(days=31)).replace(day=1))


def _moment(older_than: datetime | timedelta, now: datetime) -> datetime:
    if isinstance(older_than, datetime):
        return check_moment("older_than", older_than)
    if older_than < timedelta(0):
        raise ConfigurationError("older_than must not be negative; it is an age")
    return now - older_than
