"""A host that asks before it acts: requests, decisions and operations on a bench, through the public faces."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from bench import Bench
from scripted_provider import Note
from sqlalchemy import text

from acuse import ApprovalRecord, Approvals, Decision, Outbox, Requested, Staged
from acuse.identifier import uuid_of
from acuse.store import recover


class Asking:
    """The host of one bench. Every method is a transaction of its own."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.approvals = Approvals(tenant=bench.tenant)
        self.outbox = Outbox(tenant=bench.tenant)

    def ask(self, words: str = "hello", *, call: str = "c-1", lasts: timedelta | None = None, **options: Any) -> Requested:
        with self.bench.sync.begin() as connection:
            note = Note(ref="case-1", text=words)
            return self.approvals.request(connection, note, workflow="w", call=call, expires_in=lasts, **options)

    def stage(self, approval: str | None, words: str = "hello", *, call: str = "c-1", **options: Any) -> Staged:
        with self.bench.sync.begin() as connection:
            note = Note(ref="case-1", text=words)
            return self.outbox.stage(
                connection, note, workflow="w", call=call, approval=approval, account=self.bench.tenant, **options
            )

    def staged(self, approval: str | None, words: str = "hello", **options: Any) -> UUID:
        return uuid_of(self.stage(approval, words, **options).operation_id, prefix="op", field="id")

    def decide(self, approval: str, approve: bool, by: str = "ann", **options: Any) -> Decision:
        with self.bench.sync.begin() as connection:
            return self.approvals.decide(connection, approval, approve, by=by, **options)

    def revoke(self, approval: str, by: str = "bob") -> tuple[str, ...]:
        with self.bench.sync.begin() as connection:
            return self.approvals.revoke(connection, approval, by=by, reason="changed my mind")

    def get(self, approval: str) -> ApprovalRecord:
        with self.bench.sync.begin() as connection:
            return self.approvals.get(connection, approval)

    def time_is_up(self, approval: str) -> None:
        """What the passing of the approval's time does, to its row, to what waits for it and to what will be told."""
        identity = uuid_of(approval, prefix="apr", field="approval")
        with self.bench.sync.begin() as connection:
            for statement in (
                """update acuse.operation set due_at = clock_timestamp(), version = version + 1
                    where approval_id = :id and due_at is not null""",
                """update acuse.outbox_message set available_at = clock_timestamp()
                    where id = (select expiry_message from acuse.approval where id = :id)""",
                "update acuse.approval set expires_at = clock_timestamp() where id = :id",
            ):
                connection.execute(text(statement), {"id": identity})

    def recover(self) -> None:
        """One round of the recover loop over what is due and what waits for nothing any more."""
        with self.bench.sync.begin() as connection:
            recover.hand_over_due(connection, 1000)
            recover.hand_over_free(connection, 1000, timedelta(0))

    async def relay(self) -> list[UUID]:
        """All messages of this bench's operations arrive at a worker; returns whose."""
        ours = """delete from acuse.outbox_message m using acuse.operation o
                   where o.id = m.operation_id and o.tenant = :tenant returning o.id"""
        with self.bench.sync.begin() as connection:
            arrived = list(connection.execute(text(ours), {"tenant": self.bench.tenant}).scalars())
        for one in arrived:
            await self.bench.carry(one)
        return arrived

    def told(self, approval: str) -> list[dict[str, Any]]:
        """What the host's own actor is told now of an approval, in order."""
        with self.bench.sync.connect() as connection:
            statement = """select message from acuse.outbox_message where available_at <= clock_timestamp()
                              and message->'kwargs'->>'approval_id' = :id order by available_at, id"""
            return list(connection.execute(text(statement), {"id": approval}).scalars())
