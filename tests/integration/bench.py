"""An engine on its bench: the ledger is real, the provider is scripted, and time passes when the test says so."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from scripted_provider import BARE, Note, Provider, ScriptedAdapter, ids_of
from sqlalchemy import Engine as SyncEngine
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncEngine
from stage_factory import stage

from acuse.protocol import By, RetryContract, State, legal
from acuse.store import recover
from acuse_adapters.engine import Book, Counters, Engine, Moment
from acuse_adapters.port import Registry

LEASE = timedelta(seconds=60)
PATIENCE = 10.0


async def until(fact: Callable[[], object], what: str) -> None:
    """Let the loop run until a fact is true."""
    end = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < end, f"waited in vain: {what}"
        await asyncio.sleep(0.002)


class Bench:
    """One tenant, one account of its name, one provider, and as many engines as a test wants."""

    def __init__(self, sync: SyncEngine, database: AsyncEngine, tenant: str, name: str) -> None:
        self.sync, self.database, self.tenant, self.name = sync, database, tenant, name
        self.provider = Provider()
        self.adapter = ScriptedAdapter(self.provider, BARE)
        with sync.connect() as connection:
            self.ledger: str = connection.execute(text("select value from acuse.meta where key = 'ledger_id'")).scalar_one()
        self.engine = self.another()

    def promise(self, contract: RetryContract) -> "Bench":
        """Give the provider another contract."""
        self.adapter.promise(type(self.adapter).actions[Note.declared.name], contract)
        self.engine = self.another()
        return self

    def another(self, book: Book | None = None, **options: Any) -> Engine:
        """A second worker: an engine with a counter of its own."""
        options = {"counters": Counters()} | options
        return Engine(book or self.book(), Registry([self.adapter]), ledger=self.ledger, **options)

    def book(self, lease: timedelta = LEASE, database: AsyncEngine | None = None) -> Book:
        return Book(database or self.database, lease)

    def stage(self, **item: Any) -> UUID:
        """Stage one note, committed."""
        payload = Note(ref=item.pop("target", "case-1"), **item.pop("fields", {})).effect().payload
        with self.sync.begin() as connection:
            return stage(
                connection,
                self.tenant,
                item.pop("action", Note.declared.name),
                target=payload["ref"],
                payload=payload,
                account=item.pop("account", self.tenant),
                **item,
            )

    async def carry(self, *operations: UUID, engine: Engine | None = None) -> None:
        """One message with these operations arrives."""
        await (engine or self.engine).perform(self.ledger, ids_of(operations))

    async def again(self, operation: UUID, **options: Any) -> None:
        """Everything that the operation waits for comes due, then a message arrives."""
        self.do(
            "update acuse.operation set due_at = null, handed_at = clock_timestamp(), version = version + 1 where id = :id",
            operation,
        )
        await self.carry(operation, **options)

    def pass_time(self, operation: UUID, seconds: float) -> None:
        """All that is on record of an operation happened so much earlier."""
        by = timedelta(seconds=seconds)
        self.do(
            """update acuse.operation set version = version + 1, first_sent_at = first_sent_at - :by,
               retry_until = retry_until - :by, due_at = due_at - :by, claim_until = claim_until - :by where id = :id""",
            operation,
            by=by,
        )
        self.do("update acuse.attempt set dispatched_at = dispatched_at - :by where operation_id = :id", operation, by=by)

    def expire(self) -> None:
        """One round of the recover loop over claims."""
        with self.sync.begin() as connection:
            recover.expire_claims(connection, 10_000)

    def do(self, statement: str, operation: UUID | None = None, **values: Any) -> None:
        with self.sync.begin() as connection:
            connection.execute(text(statement), {"id": operation, **values} if operation else values)

    def ask(self, statement: str, **values: Any) -> Any:
        with self.sync.connect() as connection:
            return connection.execute(text(statement), values).scalar_one()

    def row(self, operation: UUID) -> Row[Any]:
        with self.sync.connect() as connection:
            return connection.execute(text("select * from acuse.operation where id = :id"), {"id": operation}).one()

    def state(self, operation: UUID) -> State:
        return State(self.row(operation).status)

    def rows(self, table: str, operation: UUID) -> list[Row[Any]]:
        """Rows of `attempt`, `evidence`, `ledger` or `incident` in the order in which they were written."""
        order = {"attempt": "number", "evidence": "version", "ledger": "version", "incident": "opened_at"}[table]
        with self.sync.connect() as connection:
            statement = text(f"select * from acuse.{table} where operation_id = :id order by {order}")
            return list(connection.execute(statement, {"id": operation}))

    def messages(self, operation: UUID) -> int:
        """How many outbox messages an operation has."""
        return int(self.ask("select count(*) from acuse.outbox_message where operation_id = :id", id=operation))

    def drop_messages(self) -> None:
        """The relay hands all of this tenant over, and they are lost."""
        self.do(
            "delete from acuse.outbox_message where operation_id in (select id from acuse.operation where tenant = :tenant)",
            tenant=self.tenant,
        )

    def told(self, operation: UUID) -> list[dict[str, Any]]:
        """What the host's own actor was told about an operation, in order."""
        with self.sync.connect() as connection:
            statement = text(
                """select message from acuse.outbox_message
                    where message->'kwargs'->>'operation_id' = 'op_' || replace(cast(:id as text), '-', '') order by id"""
            )
            return list(connection.execute(statement, {"id": str(operation)}).scalars())

    def count(self, name: str, engine: Engine | None = None, **labels: str) -> float:
        """A counter of an engine."""
        value = (engine or self.engine).counters.registry.get_sample_value(f"acuse_{name}_total", labels)
        return value or 0.0

    def grant(self, operation_target: str = "case-1", **how: Any) -> UUID:
        """Grant an approval for the note that `stage` stages for this target."""
        effect = Note(ref=operation_target).effect()
        with self.sync.begin() as connection:
            granted: UUID = connection.execute(
                text(
                    """select acuse.grant_approval(:tenant, :action, :target, sha256(:body), 'alice', null,
                                                   clock_timestamp() + :lasts, :uses)"""
                ),
                {
                    "tenant": self.tenant,
                    "action": effect.action,
                    "target": effect.target,
                    "body": effect.body(),
                    "lasts": how.get("lasts"),
                    "uses": how.get("uses"),
                },
            ).scalar_one()
        return granted

    def waits_for_lock(self) -> bool:
        """Whether a statement of our engines waits for another transaction."""
        return self._activity("wait_event_type = 'Lock'") > 0

    def open_transactions(self) -> int:
        """Transactions that our engines have open at this moment."""
        return self._activity("xact_start is not null")

    def _activity(self, which: str) -> int:
        return int(self.ask(f"select count(*) from pg_stat_activity where application_name = :name and {which}", name=self.name))

    def act(self, operation: UUID, act: str, **values: Any) -> None:
        """A person acts on the record as it is now."""
        self.do(
            "select acuse.operate(:id, (select version from acuse.operation where id = :id), :act, 'eve', 'because', :result)",
            operation,
            **{"act": act, "result": None, **values},
        )

    def illegal(self) -> list[Any]:
        """Ledger entries of this tenant that no arrow allows."""
        with self.sync.connect() as connection:
            entries = connection.execute(
                text(
                    """select l.* from acuse.ledger l join acuse.operation o on o.id = l.operation_id
                        where o.tenant = :tenant and l.from_status is distinct from l.to_status"""
                ),
                {"tenant": self.tenant},
            )
            return [
                entry
                for entry in entries
                if not legal(State(entry.from_status) if entry.from_status else None, State(entry.to_status), By(entry.by))
            ]


class Stop:
    """Moments at which the engine waits until the test lets it go on."""

    def __init__(self, at: Moment) -> None:
        self.at, self.arrived, self.released = at, asyncio.Event(), asyncio.Event()

    async def __call__(self, moment: Moment, _what: Any) -> None:
        if moment is self.at and not self.released.is_set():
            self.arrived.set()
            await self.released.wait()
