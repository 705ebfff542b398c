"""Evidence and verdicts in memory: a finding raises the record version; the verdict comes after, by that version."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from acuse.identifier import operation_id
from acuse.protocol import AttemptView, Dated, Finding, OperationView, State, contradiction
from acuse.store.evidence import View, finding_kind, standing_in_words
from acuse.testing.memory.ending import finished, open_incident, tell_host
from acuse.testing.memory.gate import standing
from acuse.testing.memory.row import Evidence
from acuse.testing.memory.tables import Tables

__all__ = ["apply_verdict", "record", "view"]


def record(
    tables: Tables, operation: UUID, source: str, source_id: str, attempt: int, finding: Finding, started_at: datetime
) -> None:
    """Write a finding. One that contradicts what is settled opens an incident and moves nothing."""
    one = tables.operations[operation]
    if any((it.source, it.source_id) == (source, source_id) for it in one.evidence):
        return
    one.change(tables.now)
    one.evidence.append(Evidence(source, source_id, attempt, finding, started_at, tables.now, one.version))
    one.note("evidence", one.state, "evidence", actor=source, reason=finding_kind(finding), attempt=attempt)
    kind = contradiction(one.state, finding)
    if kind is not None:
        open_incident(tables, one, kind, {"source": source, "source_id": source_id})


def view(tables: Tables, operation: UUID) -> View:
    """What a decision needs."""
    one, gone = tables.operations[operation], standing(tables, tables.operations[operation], tables.now)
    return View(
        operation=OperationView(
            id=operation_id(one.id),
            state=one.state,
            doubts=one.doubts,
            first_sent_at=one.first_sent_at,
            standing=None if gone is None else standing_in_words(gone),
            has_provider_id=one.result_id is not None or one.provider_request_id is not None,
            risk_accepted=one.risk_accepted_at is not None,
        ),
        attempts=tuple(AttemptView(it.number, it.dispatched_at, it.doubtful, it.needs_review) for it in one.attempts),
        findings=tuple(Dated(it.finding, it.started_at, it.attempt) for it in one.evidence if it.source != "operator"),
        version=one.version,
        at=tables.now,
    )


def apply_verdict(tables: Tables, operation: UUID, version: int, values: Mapping[str, Any]) -> bool:
    """Apply a verdict to the version it judged; `values` are those of `verdict_values`. False: the record has changed."""
    one, now, verdict = tables.operations[operation], tables.now, values["verdict"]
    evident = verdict == "confirm" and one.state in (State.PREPARED, State.DISPATCHING)
    if one.version != version or not (one.state is State.UNKNOWN or evident):
        return False
    source, ends = one.state, {"confirm": State.CONFIRMED, "reject": State.REJECTED, "requeue": State.PREPARED}
    state = ends.get(verdict, source)
    one.change(
        now,
        state=state,
        claim_until=None,
        handed_at=None,
        waiting=None,
        put_off=None,
        doubts=0 if verdict in ends else one.doubts,
        first_sent_at=None if state is State.PREPARED else one.first_sent_at,
        retry_until=None if state is State.PREPARED else one.retry_until,
        due_at={"check": values["due_at"] or now, "requeue": now}.get(verdict),
        held=values["reason"] if verdict == "review" else None,
        reason=values["reason"],
        outcome_code=values["code"] or one.outcome_code,
        result_id=values["result_id"] or one.result_id,
        result_version=values["result_version"] or one.result_version,
        evidence_at=now,
        settled_at=now if state.final else None,
        handovers=0,
    )
    if verdict == "requeue":
        for attempt in one.attempts:
            attempt.doubtful = False
    by = "evidence" if state.final else "recover"
    one.note(verdict, source, by, reason=values["reason"], outcome_code=values["code"])
    if values["incident"] is not None:
        open_incident(tables, one, values["incident"], values["incident_detail"])
    if state.final:
        finished(tables, one)
    elif verdict == "review":
        tell_host(tables, one)
    return True
