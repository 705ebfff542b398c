"""Rows in the outbox without operations behind them, for tests of the relay, and what the relay reads to find them."""

from typing import Any
from uuid import UUID

from sqlalchemy import Engine, event, text

from acuse.identifier import uuid_of
from acuse_relay.queue.fake import FakeQueue

QUEUE = "acuse.crm"


class Clock:
    """A relay's clock that stands still until a test moves it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def fill(ledger: Engine, tenant: str, count: int = 1, ago: str = "0 s") -> list[UUID]:
    """Rows of a tenant, as a stage writes them. Returns their operations in order."""
    statement = text(
        """insert into acuse.outbox_message (queue, tenant, operation_id, available_at)
           select :queue, :tenant, gen_random_uuid(), clock_timestamp() - cast(:ago as interval) from generate_series(1, :count)
           returning operation_id"""
    )
    with ledger.begin() as connection:
        values = {"queue": QUEUE, "tenant": tenant, "count": count, "ago": ago}
        return list(connection.execute(statement, values).scalars())


def taken(queue: FakeQueue) -> list[UUID]:
    """What the broker holds, in order; a worker takes all of it."""
    ids = [uuid_of(one, prefix="op", field="id") for message in queue.messages for one in message.args[1]]
    queue.wipe()
    return ids


def waiting(ledger: Engine) -> int:
    """How many rows anybody can see."""
    with ledger.connect() as connection:
        return int(connection.execute(text("select count(*) from acuse.outbox_message")).scalar_one())


def reads_of(ledger: Engine) -> list[int]:
    """How many entries of the outbox's indexes each transaction from now on has read, dead ones too, filled as they commit."""
    counts: list[int] = []
    statement = """select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0), pg_stat_force_next_flush()
                     from pg_index where indrelid = 'acuse.outbox_message'::regclass"""

    def count(connection: Any) -> None:
        cursor = connection.connection.cursor()
        cursor.execute(statement)
        counts.append(int(cursor.fetchone()[0]))

    event.listen(ledger, "commit", count)
    return counts
