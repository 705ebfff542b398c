"""Operations for tests, made by the database's own `acuse.stage`."""

import json
import uuid
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, text

_STAGE = text("select outcome, operation_id, detail from acuse.stage(cast(:request as jsonb)) where ref >= 0 order by ref")
_ATTEMPT = {"deadline": "1 s", "window": "1 day", "contract": "test-1", "pin": "{}"}


def stage(connection: Connection, tenant: str, action: str = "crm.close_case.v1", **item: Any) -> UUID:
    """Stage one operation in the connection's transaction. `item` adds or replaces fields of the request's item."""
    target = item.pop("target", f"case-{uuid.uuid4().hex[:8]}")
    body = json.dumps(
        {"action": action, "payload": item.pop("payload", {}), "target": target}, sort_keys=True, separators=(",", ":")
    )
    request = {
        "tenant": tenant,
        "items": [{"effect_key": uuid.uuid4().hex, "action": action, "target": target, "body": body, **item}],
    }
    row = connection.execute(_STAGE, {"request": json.dumps(request)}).one()
    assert row.outcome == "created", row
    return row.operation_id


def stage_committed(engine: Engine, tenant: str, count: int = 1, action: str = "crm.close_case.v1", **item: Any) -> list[UUID]:
    """Stage several operations in one transaction of their own."""
    with engine.begin() as connection:
        return [stage(connection, tenant, action, **item) for _ in range(count)]


def claim(connection: Connection, ids: Sequence[UUID], lease: str = "60 s") -> dict[UUID, int]:
    """Claim operations as a worker does. Returns the fencing token of each that was free."""
    rows = connection.execute(
        text("select id, fence from acuse.claim(cast(:ids as uuid[]), cast(:lease as interval))"),
        {"ids": list(ids), "lease": lease},
    )
    return {row.id: row.fence for row in rows}


def dispatch(connection: Connection, operation: UUID, fence: int) -> str:
    """Dispatch a claimed operation for the first time. Returns the gate that judged it; `open` lets the bytes leave."""
    return connection.execute(
        text(
            """select gate from acuse.dispatch(:id, :fence, 0, 'first', cast(:deadline as interval), cast(:window as interval),
               :contract, :key, cast(:pin as jsonb))"""
        ),
        {"id": operation, "fence": fence, "key": operation.hex, **_ATTEMPT},
    ).scalar_one()


def let_claims_expire(connection: Connection, ids: Sequence[UUID]) -> None:
    """Move the end of claims into the past, in place of waiting for it."""
    connection.execute(
        text(
            """update acuse.operation set claim_until = clock_timestamp() - interval '1 ms', version = version + 1
               where id = any(cast(:ids as uuid[])) and claim_until is not null"""
        ),
        {"ids": list(ids)},
    )


def state_of(engine: Engine, operation: UUID) -> Any:
    """The operation's whole row."""
    with engine.connect() as connection:
        return connection.execute(text("select * from acuse.operation where id = :id"), {"id": operation}).one()


def outbox(engine: Engine) -> list[UUID | None]:
    """The operations of the outbox rows that anybody can see, in order of their ids; None for a message of the host."""
    with engine.connect() as connection:
        return list(connection.execute(text("select operation_id from acuse.outbox_message order by id")).scalars())
