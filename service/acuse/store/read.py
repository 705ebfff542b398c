"""Reading the ledger. Columns are named, states are literals: as parameters a generic plan would read the whole table."""

from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Row, TextClause, text

from acuse.errors import NotFound
from acuse.identifier import approval_id, event_id, operation_id, uuid_of
from acuse.protocol import State
from acuse.record import HistoryEntry, OperationRecord, Page
from acuse.store.moment import in_utc

__all__ = ["LARGEST_PAGE", "find", "get", "history", "staged_after", "state_of"]

LARGEST_PAGE: Final = 500

_COLUMNS: Final = """
    o.id, o.tenant, o.status, o.version, clock_timestamp() as read_at, o.event_id, o.workflow_id, o.flow_version, o.call_id,
    o.effect_key, o.generation, o.succeeds, o.compensates, o.action, o.provider, o.account, o.target, o.digest, o.approval_id,
    o.ordering_key, o.not_after, o.deliberate, o.value, o.on_settled, o.trace_context, o.outcome_code, o.reason, o.doubts,
    o.attempts, o.fence, o.first_sent_at, o.retry_until, o.handed_at, o.claim_until, o.due_at, o.held, o.put_off, o.handovers,
    case when o.waiting = 'approval' then (  -- once it is decided nobody is waited for, though the worker is yet to come
      select o.waiting from acuse.approval a
       where a.id = o.approval_id and acuse.approval_state(a, clock_timestamp()) = 'pending')
      else o.waiting end as waiting,
    o.provider_request_id, o.result_id, o.result_version, o.evidence_at, o.delivery_status, o.created_at,
    o.updated_at, o.settled_at,
    case when o.status = 'prepared' then array(
      select d.needs from acuse.dependency d left join acuse.operation n on n.id = d.needs and n.tenant = o.tenant
       where d.operation_id = o.id and n.status is distinct from 'confirmed' order by d.needs) end as waits_for
"""
_OF_TENANT: Final = "(cast(:tenant as text) is null or tenant = :tenant)"

_GET: Final = text(f"select {_COLUMNS} from acuse.operation o where o.id = :id and {_OF_TENANT}")  # noqa: S608 - constants
_AFTER: Final = text(f"select {_COLUMNS} from acuse.operation o where o.seq > :seq order by o.seq")  # noqa: S608 - constants
_STATE: Final = text(f"select status from acuse.operation where id = :id and {_OF_TENANT}")  # noqa: S608 - constants

_LEDGER: Final = text(
    """
    select version, at, kind, from_status, to_status, by, actor, reason, outcome_code, fence, attempt
      from acuse.ledger where operation_id = :id order by version
    """
)
_ATTEMPTS: Final = text(
    """
    select number, fence, basis, contract_version, account, provider_key, dispatched_at, extract(epoch from deadline) as deadline,
           doubtful, settled_at, outcome, reason, late, provider_request_id, result_id, result_version
      from acuse.attempt where operation_id = :id order by number
    """
)
_EVIDENCE: Final = text(
    """
    select source, source_id, attempt, finding, detail, started_at, recorded_at, version
      from acuse.evidence where operation_id = :id order by version
    """
)
_RANK: Final = {"transition": 0, "attempt": 1, "evidence": 2}


def get(connection: Connection, operation: str, tenant: str | None) -> OperationRecord:
    """Read one operation. Raises `NotFound`, also for one of another tenant."""
    identity = uuid_of(operation, prefix="op", field="operation_id")
    row = connection.execute(_GET, {"id": identity, "tenant": tenant}).one_or_none()
    if row is None:
        raise NotFound(what="operation", id=operation)
    return _record(row)


def state_of(connection: Connection, operation: str, tenant: str | None) -> State:
    """Read the state alone, for those who wait. Raises `NotFound`."""
    identity = uuid_of(operation, prefix="op", field="operation_id")
    status = connection.execute(_STATE, {"id": identity, "tenant": tenant}).scalar_one_or_none()
    if status is None:
        raise NotFound(what="operation", id=operation)
    return State(status)


def staged_after(connection: Connection, seq: int) -> list[OperationRecord]:
    """Read the operations that were staged after the one with this number, in the order of their staging."""
    return [_record(row) for row in connection.execute(_AFTER, {"seq": seq})]


def find(
    connection: Connection,
    *,
    states: Collection[State] | None,
    provider: str | None,
    tenant: str | None,
    workflow: str | None,
    held: bool | None,
    before: str | None,
    limit: int,
) -> Page:
    """Read a page of operations, newest first."""
    values = {
        "provider": provider,
        "tenant": tenant,
        "workflow": workflow,
        "before": None if before is None else uuid_of(before, prefix="op", field="before"),
        "limit": limit + 1,
    }
    rows = connection.execute(_finding(states, held, values), values).all()
    records = tuple(_record(row) for row in rows[:limit])
    return Page(records, records[-1].operation_id if len(rows) > limit else None)


def _finding(states: Collection[State] | None, held: bool | None, values: dict[str, Any]) -> TextClause:
    # Only what is asked for: a predicate that may be null hides the index from the planner.
    wanted = {
        "provider": "o.provider = :provider",
        "tenant": "o.tenant = :tenant",
        "workflow": "o.workflow_id = :workflow",
        "before": "o.id < :before",
    }
    where = [clause for name, clause in wanted.items() if values[name] is not None]
    for name in wanted:
        if values[name] is None:
            del values[name]
    if states is not None:
        literals = ", ".join(f"'{State(state).value}'" for state in sorted(states))
        where.append(f"o.status in ({literals})" if literals else "false")
    if held is not None:
        where.append(f"o.held is {'not ' if held else ''}null")
    condition = " and ".join(where) or "true"
    return text(f"select {_COLUMNS} from acuse.operation o where {condition} order by o.id desc limit :limit")  # noqa: S608 - above


def history(connection: Connection, operation: str, tenant: str | None) -> tuple[HistoryEntry, ...]:
    """Read everything that happened, in order. The connection sees one state of the database. Raises `NotFound`."""
    state_of(connection, operation, tenant)
    identity = {"id": uuid_of(operation, prefix="op", field="operation_id")}
    ledger = connection.execute(_LEDGER, identity).all()
    dispatches = {row.attempt: row.version for row in ledger if row.kind == "dispatched"}
    entries = [
        *(_transition(row) for row in ledger),
        *(_attempt(row, dispatches) for row in connection.execute(_ATTEMPTS, identity)),
        *(_evidence(row) for row in connection.execute(_EVIDENCE, identity)),
    ]
    return tuple(sorted(entries, key=lambda entry: (entry.version, _RANK[entry.kind])))


def _record(row: Row[Any]) -> OperationRecord:
    return OperationRecord(
        operation_id=operation_id(row.id),
        state=State(row.status),
        event_id=None if row.event_id is None else event_id(row.event_id),
        workflow=row.workflow_id,
        call=row.call_id,
        succeeds=_operation(row.succeeds),
        compensates=_operation(row.compensates),
        digest=bytes(row.digest).hex(),
        approval_id=None if row.approval_id is None else approval_id(row.approval_id),
        distinct=row.deliberate,
        trace=row.trace_context,
        waits_for=tuple(operation_id(needs) for needs in row.waits_for or ()),
        **{name: getattr(row, name) for name in _PLAIN},
        **_moments(row),
    )


_PLAIN: Final = (
    *("tenant", "version", "flow_version", "effect_key", "generation", "action", "provider", "account", "target", "ordering_key"),
    *("value", "on_settled", "outcome_code", "reason", "doubts", "attempts", "fence", "waiting", "held", "put_off", "handovers"),
    *("provider_request_id", "result_id", "result_version", "delivery_status"),
)
_MOMENTS: Final = (
    *("read_at", "not_after", "first_sent_at", "retry_until", "handed_at", "claim_until", "due_at", "evidence_at"),
    *("created_at", "updated_at", "settled_at"),
)


def _moments(row: Row[Any]) -> dict[str, Any]:
    return {name: in_utc(getattr(row, name)) for name in _MOMENTS}


def _transition(row: Row[Any]) -> HistoryEntry:
    return HistoryEntry(
        kind="transition",
        at=in_utc(row.at),
        version=row.version,
        what=row.kind,
        by=row.by,
        actor=row.actor,
        why=row.reason,
        from_state=None if row.from_status is None else State(row.from_status),
        to_state=State(row.to_status),
        attempt=row.attempt,
        detail=_known(row, ("outcome_code", "fence")),
    )


def _attempt(row: Row[Any], dispatches: dict[int, int]) -> HistoryEntry:
    return HistoryEntry(
        kind="attempt",
        at=in_utc(row.dispatched_at),
        version=dispatches.get(row.number, 0),  # 0: retention has dropped the ledger's month already
        what="sent" if row.outcome is None else row.outcome,
        by="worker",
        actor=None,
        why=row.reason,
        from_state=None,
        to_state=None,
        attempt=row.number,
        detail=_known(row, _OF_ATTEMPT) | {"deadline_seconds": float(row.deadline)},
    )


_OF_ATTEMPT: Final = (
    *("fence", "basis", "contract_version", "account", "provider_key", "doubtful", "settled_at", "late"),
    *("provider_request_id", "result_id", "result_version"),
)


def _evidence(row: Row[Any]) -> HistoryEntry:
    person = row.source == "operator"
    return HistoryEntry(
        kind="evidence",
        at=in_utc(row.recorded_at),
        version=row.version,
        what=row.finding,
        by="operator" if person else "evidence",
        actor=row.detail.get("actor") if person else row.source,
        why=row.detail.get("reason"),
        from_state=None,
        to_state=None,
        attempt=row.attempt or None,
        detail={"source": row.source, "source_id": row.source_id, "started_at": in_utc(row.started_at), **row.detail},
    )


def _known(row: Row[Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names if getattr(row, name) is not None}


def _operation(value: UUID | None) -> str | None:
    return None if value is None else operation_id(value)
