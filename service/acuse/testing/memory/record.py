"""An operation in memory as the ledger's own values show it."""

from datetime import datetime
from typing import Any, Literal, cast

from acuse.identifier import approval_id, event_id, operation_id
from acuse.protocol import State
from acuse.record import HistoryEntry, OperationRecord
from acuse.store.evidence import finding_kind
from acuse.testing.memory.approval import gate as approval_gate
from acuse.testing.memory.row import Attempt, Entry, Evidence, Operation
from acuse.testing.memory.tables import Tables

__all__ = ["history_of", "record_of"]

_RANK = {"transition": 0, "attempt": 1, "evidence": 2}


def record_of(tables: Tables, one: Operation) -> OperationRecord:
    """The record, as `Ledger.get` reads it."""
    return OperationRecord(
        operation_id=operation_id(one.id),
        tenant=one.tenant,
        state=one.state,
        version=one.version,
        read_at=tables.now,
        event_id=None if one.event_id is None else event_id(one.event_id),
        workflow=one.workflow,
        flow_version=one.flow_version,
        call=one.call,
        effect_key=one.effect_key,
        generation=one.generation,
        succeeds=None if one.succeeds is None else operation_id(one.succeeds),
        compensates=None if one.compensates is None else operation_id(one.compensates),
        action=one.action,
        provider=one.provider,
        account=one.account,
        target=one.target,
        digest=one.digest.hex(),
        approval_id=None if one.approval_id is None else approval_id(one.approval_id),
        ordering_key=one.ordering_key,
        not_after=one.not_after,
        distinct=one.deliberate,
        value=one.value,
        on_settled=one.on_settled,
        trace=one.trace,
        outcome_code=one.outcome_code,
        reason=one.reason,
        doubts=one.doubts,
        attempts=len(one.attempts),
        fence=one.fence,
        first_sent_at=one.first_sent_at,
        retry_until=one.retry_until,
        handed_at=one.handed_at,
        claim_until=one.claim_until,
        due_at=one.due_at,
        waiting=_waiting(tables, one),
        held=one.held,
        put_off=cast("Literal['account_paused', 'breaker_open', 'account_busy'] | None", one.put_off),
        handovers=one.handovers,
        waits_for=_waits_for(tables, one),
        provider_request_id=one.provider_request_id,
        result_id=one.result_id,
        result_version=one.result_version,
        evidence_at=one.evidence_at,
        delivery_status=None,
        created_at=one.created_at,
        updated_at=one.updated_at,
        settled_at=one.settled_at,
    )


def _waiting(tables: Tables, one: Operation) -> Literal["dependency", "ordering", "approval"] | None:
    # Once it is decided nobody is waited for, though the worker is yet to come.
    decided = one.waiting == "approval" and approval_gate(tables, one, tables.now) != "approval_pending"
    return None if decided else cast("Literal['dependency', 'ordering', 'approval'] | None", one.waiting)


def _waits_for(tables: Tables, one: Operation) -> tuple[str, ...]:
    if one.state is not State.PREPARED:
        return ()
    missing = [it for it in one.needs if it not in tables.operations or tables.operations[it].state is not State.CONFIRMED]
    return tuple(operation_id(it) for it in sorted(missing))


def history_of(one: Operation) -> tuple[HistoryEntry, ...]:
    """Everything that happened, in order, as `Ledger.history` reads it."""
    dispatches = {it.attempt: it.version for it in one.entries if it.kind == "dispatched"}
    entries = [
        *(_transition(it) for it in one.entries),
        *(_attempt(one, it, dispatches[it.number]) for it in one.attempts),
        *(_evidence(it) for it in one.evidence),
    ]
    return tuple(sorted(entries, key=lambda entry: (entry.version, _RANK[entry.kind])))


def _transition(it: Entry) -> HistoryEntry:
    return _entry(
        "transition",
        it.at,
        it.version,
        it.kind,
        it.by,
        it.actor,
        it.reason,
        it.attempt,
        _known(outcome_code=it.outcome_code, fence=it.fence),
        (it.source, it.target),
    )


def _attempt(one: Operation, it: Attempt, version: int) -> HistoryEntry:
    detail = _known(
        fence=it.fence,
        basis=it.basis,
        contract_version=it.contract_version,
        account=one.account,
        provider_key=operation_id(one.id),
        doubtful=it.doubtful,
        settled_at=it.settled_at,
        late=False,
        provider_request_id=it.provider_request_id,
        result_id=it.result_id,
        result_version=it.result_version,
        deadline_seconds=it.deadline_seconds,
    )
    return _entry("attempt", it.dispatched_at, version, it.outcome or "sent", "worker", None, it.reason, it.number, detail)


def _evidence(it: Evidence) -> HistoryEntry:
    known = {name: getattr(it.finding, name) for name in type(it.finding).__dataclass_fields__}
    detail = {"source": it.source, "source_id": it.source_id, "started_at": it.started_at, **known}
    person = it.source == "operator"
    by, actor = ("operator", known.get("actor")) if person else ("evidence", it.source)
    return _entry(
        "evidence",
        it.recorded_at,
        it.version,
        finding_kind(it.finding),
        by,
        actor,
        known.get("reason"),
        it.attempt or None,
        detail,
    )


def _entry(
    kind: Literal["transition", "attempt", "evidence"],
    at: datetime,
    version: int,
    what: str,
    by: str,
    actor: str | None,
    why: str | None,
    attempt: int | None,
    detail: dict[str, Any],
    states: tuple[State | None, State | None] = (None, None),
) -> HistoryEntry:
    return HistoryEntry(
        kind=kind,
        at=at,
        version=version,
        what=what,
        by=by,
        actor=actor,
        why=why,
        from_state=states[0],
        to_state=states[1],
        attempt=attempt,
        detail=detail,
    )


def _known(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - of a row
    return {name: value for name, value in values.items() if value is not None}
