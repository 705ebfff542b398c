"""What stands in the database about the machine's tenants, read in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar, get_type_hints
from uuid import UUID

from sqlalchemy import Connection, text

__all__ = ["Approval", "Attempt", "Entry", "Operation", "Snapshot", "read"]

_READ = text(
    """
    with ours as materialized (select * from acuse.operation where tenant = any(:tenants)), ids as (select id from ours)
    select clock_timestamp(),
      (select jsonb_agg(to_jsonb(o) order by o.seq) from ours o),
      (select jsonb_agg(to_jsonb(l) order by l.operation_id, l.version) from acuse.ledger l where l.operation_id in (table ids)),
      (select jsonb_agg(to_jsonb(a) order by a.operation_id, a.number) from acuse.attempt a where a.operation_id in (table ids)),
      (select jsonb_agg(to_jsonb(a) order by a.requested_at) from acuse.approval a where a.tenant = any(:tenants)),
      (select jsonb_agg(to_jsonb(d)) from acuse.dependency d where d.operation_id in (table ids)),
      (select jsonb_agg(to_jsonb(m)) from acuse.outbox_message m
        where m.operation_id in (table ids) or m.message->'kwargs'->>'tenant' = any(:tenants)),
      (select jsonb_agg(to_jsonb(c) order by c.provider, c.account) from acuse.account c where c.account = any(:tenants)),
      (select jsonb_agg(jsonb_build_array(tenant, workflow_id)) from acuse.workflow where tenant = any(:tenants)),
      (select jsonb_agg(jsonb_build_array(tenant, flow_version)) from acuse.flow_version where tenant = any(:tenants)),
      (select count(*) from acuse.event where tenant = any(:tenants)),
      (select jsonb_agg(jsonb_build_array(i.operation_id, i.kind)) from acuse.incident i where i.operation_id in (table ids))
    """
)


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of acuse.operation, what of it matters here. `digest` is hexadecimal."""

    id: UUID
    seq: int
    tenant: str
    workflow_id: str | None
    flow_version: str | None
    effect_key: str
    generation: int
    action: str
    provider: str
    account: str
    target: str
    digest: str
    approval_id: UUID | None
    charged: bool
    ordering_key: str | None
    not_after: datetime | None
    deliberate: bool
    on_settled: str | None
    status: str
    doubts: int
    fence: int
    version: int
    attempts: int
    first_sent_at: datetime | None
    retry_until: datetime | None
    risk_accepted_at: datetime | None
    handed_at: datetime | None
    claim_until: datetime | None
    due_at: datetime | None
    waiting: str | None
    held: str | None

    @property
    def final(self) -> bool:
        return self.status in ("confirmed", "rejected")

    @property
    def in_the_air(self) -> bool:
        return self.status in ("dispatching", "unknown")

    @property
    def chain(self) -> tuple[str, str, str] | None:
        return None if self.ordering_key is None else (self.tenant, self.provider, self.ordering_key)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of acuse.ledger."""

    operation_id: UUID
    version: int
    kind: str
    from_status: str | None
    to_status: str
    by: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row of acuse.attempt."""

    operation_id: UUID
    number: int
    fence: int
    doubtful: bool
    outcome: str | None
    provider_key: str
    pin: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Approval:
    """A row of acuse.approval. `digest` is hexadecimal."""

    id: UUID
    tenant: str
    action: str
    target: str
    digest: str
    expires_at: datetime | None
    max_uses: int | None
    used: int
    revoked_at: datetime | None


@dataclass(frozen=True)
class Snapshot:
    """Everything at `now`, on the database's clock."""

    now: datetime
    operations: dict[UUID, Operation]
    entries: dict[UUID, list[Entry]]
    attempts: dict[UUID, list[Attempt]]
    approvals: dict[UUID, Approval]
    needs: dict[UUID, list[UUID]]
    outbox: list[dict[str, Any]]
    paused: dict[tuple[str, str], datetime | None]
    cancelled: set[tuple[str, str]]
    withdrawn: set[tuple[str, str]]
    events: int
    incidents: set[tuple[UUID, str]]

    @cached_property
    def pending(self) -> list[Operation]:
        """Operations that are not final, in the order of their stage."""
        return [operation for operation in self.operations.values() if not operation.final]

    @cached_property
    def written(self) -> tuple[int, int, int]:
        """How much is there that only staging makes."""
        return len(self.operations), self.events, sum(len(needs) for needs in self.needs.values())


def read(connection: Connection, tenants: Sequence[str]) -> Snapshot:
    """Read what stands in the database about some tenants, whose names are their accounts' names as well."""
    row = connection.execute(_READ, {"tenants": list(tenants)}).one()
    now, events = row[0], row[10]
    operations, entries, attempts, approvals, needs, outbox, accounts, cancelled, withdrawn = (part or [] for part in row[1:10])
    return Snapshot(
        now=now,
        operations={one.id: one for one in (_typed(Operation, data) for data in operations)},
        entries=_grouped([_typed(Entry, data) for data in entries]),
        attempts=_grouped([_typed(Attempt, data) for data in attempts]),
        approvals={one.id: one for one in (_typed(Approval, data) for data in approvals)},
        needs=_needs(needs),
        outbox=outbox,
        paused={(a["provider"], a["account"]): _moment(a["paused_until"]) for a in accounts if a["paused_at"] is not None},
        cancelled={(tenant, name) for tenant, name in cancelled},
        withdrawn={(tenant, name) for tenant, name in withdrawn},
        events=events,
        incidents={(UUID(operation), kind) for operation, kind in row[11] or []},
    )


_T = TypeVar("_T")
_OfOperation = TypeVar("_OfOperation", Entry, Attempt)


def _moment(said: str | None) -> datetime | None:
    return None if said is None else datetime.fromisoformat(said)


_READERS: dict[type, dict[str, Any]] = {kind: get_type_hints(kind) for kind in (Operation, Entry, Attempt, Approval)}


def _typed(kind: type[_T], data: dict[str, Any]) -> _T:
    hints = _READERS[kind]
    values = {}
    for one in fields(kind):  # type: ignore[arg-type]  # every kind here is a dataclass
        value = data[one.name]
        if value is not None:
            wanted = str(hints[one.name])
            if one.name == "digest":
                value = value.removeprefix("\\x")
            elif "UUID" in wanted:
                value = UUID(value)
            elif "datetime" in wanted:
                value = datetime.fromisoformat(value)
        values[one.name] = value
    return kind(**values)


def _grouped(rows: list[_OfOperation]) -> dict[UUID, list[_OfOperation]]:
    groups: dict[UUID, list[_OfOperation]] = {}
    for row in rows:
        groups.setdefault(row.operation_id, []).append(row)
    return groups


def _needs(rows: list[dict[str, str]]) -> dict[UUID, list[UUID]]:
    needs: dict[UUID, list[UUID]] = {}
    for row in rows:
        needs.setdefault(UUID(row["operation_id"]), []).append(UUID(row["needs"]))
    return needs
