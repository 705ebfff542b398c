"""Evidence and verdicts: a finding is written first and raises the record version; the verdict comes after, by that version."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from acuse.identifier import operation_id
from acuse.protocol import (
    Absent,
    AttemptView,
    Check,
    Confirm,
    Dated,
    Finding,
    Found,
    OperationView,
    RefusedBefore,
    Reject,
    Requeue,
    Retry,
    Review,
    State,
    TargetState,
    Unavailable,
    Verdict,
    contradiction,
)
from acuse.store.storable import storable, storable_json

__all__ = [
    "Recorded",
    "View",
    "apply_verdict",
    "finding_kind",
    "open_incident",
    "record",
    "standing_in_words",
    "verdict_values",
    "view",
]

LONGEST_CODE = 60
LONGEST_ID = 300
LONGEST_REASON = 2000

_RECORD = text(
    """
    select fresh, version, status
      from acuse.record_evidence(:id, :source, :source_id, :attempt, :finding, cast(:detail as jsonb), :started_at)
    """
)
_VIEW = text("select operation, attempts, findings, standing, at from acuse.view(:id)")
_APPLY = text(
    """
    select acuse.apply_verdict(:id, :version, :verdict, :reason, :code, :result_id, :result_version,
                               cast(:due_at as timestamptz), :incident, cast(:incident_detail as jsonb))
    """
)
_INCIDENT = text("select acuse.open_incident(:id, :kind, cast(:detail as jsonb))")

_KINDS: dict[str, type[Finding]] = {
    "found": Found,
    "target_state": TargetState,
    "absent": Absent,
    "refused_before": RefusedBefore,
    "unavailable": Unavailable,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class Recorded:
    """What writing a finding made of the record. Not `fresh`: the same source said it before, and nothing changed."""

    fresh: bool
    version: int
    state: State


@dataclass(frozen=True, slots=True)
class View:
    """Everything a decision needs, read at `at` on the database's clock. A verdict on it is applied by `version`."""

    operation: OperationView
    attempts: tuple[AttemptView, ...]
    findings: tuple[Dated, ...]
    version: int
    at: datetime


def record(
    connection: Connection, operation: UUID, source: str, source_id: str, attempt: int, finding: Finding, started_at: datetime
) -> Recorded | None:
    """Write a finding under the row lock and raise the record version. None if there is no such operation.

    `source` is `receipt`, `lookup`, `webhook` or `operator`; `source_id` the source's own unique id. A finding that
    contradicts what is settled opens an incident in the same transaction, and moves nothing. One that binds (found, refused)
    makes an operation due that was sent and that nobody holds, so that it is decided again, also if it waits for a person.
    """
    row = connection.execute(
        _RECORD,
        {
            "id": operation,
            "source": source,
            "source_id": source_id,
            "attempt": attempt,
            "finding": finding_kind(finding),
            "detail": json.dumps(storable_json(asdict(finding))),
            "started_at": started_at,
        },
    ).one_or_none()
    if row is None:
        return None
    recorded = Recorded(row.fresh, row.version, State(row.status))
    kind = contradiction(recorded.state, finding)
    if recorded.fresh and kind is not None:
        open_incident(connection, operation, kind, {"source": source, "source_id": source_id})
    return recorded


def view(connection: Connection, operation: UUID) -> View | None:
    """Read what a decision needs. None if there is no such operation."""
    row = connection.execute(_VIEW, {"id": operation}).one_or_none()
    if row is None:
        return None
    o = row.operation
    first = o["first_sent_at"]
    return View(
        operation=OperationView(
            id=operation_id(operation),
            state=State(o["status"]),
            doubts=o["doubts"],
            first_sent_at=None if first is None else datetime.fromisoformat(first),
            claim_live=False,  # whoever decides holds the claim itself: no other worker has the right to write
            standing=None if row.standing is None else standing_in_words(row.standing),
            has_provider_id=o["has_provider_id"],
            risk_accepted=o["risk_accepted"],
        ),
        attempts=tuple(
            AttemptView(a["number"], datetime.fromisoformat(a["dispatched_at"]), a["doubtful"], a["review"]) for a in row.attempts
        ),
        findings=tuple(
            Dated(_finding(f["finding"], f["detail"]), datetime.fromisoformat(f["started_at"]), f["attempt"])
            for f in row.findings
        ),
        version=o["version"],
        at=row.at,
    )


def apply_verdict(connection: Connection, operation: UUID, version: int, verdict: Verdict) -> int | None:
    """Apply a verdict to the version it judged. Returns the new version; None if the record has changed: decide again."""
    values = verdict_values(verdict)
    values |= {"id": operation, "version": version, "incident_detail": json.dumps(values["incident_detail"])}
    new = connection.execute(_APPLY, values).scalar_one()
    return None if new is None else int(new)


def verdict_values(verdict: Verdict) -> dict[str, Any]:
    """What a verdict writes into the record. Raises `ValueError` for a retry, which is applied by dispatching."""
    values: dict[str, Any] = dict.fromkeys(("code", "result_id", "result_version", "due_at", "incident"))
    detail: Mapping[str, Any] = {}
    match verdict:
        case Confirm():
            values |= {"result_id": verdict.result_id, "result_version": verdict.result_version, "code": "found"}
            if verdict.duplicates:
                values["incident"], detail = "duplicate_effect", {"extra": verdict.duplicates}
        case Reject():
            values["code"] = verdict.outcome_code
        case Requeue():
            values["code"] = "not_found_after_bound"
        case Check():
            values["due_at"] = verdict.at
        case Review():
            values["incident"] = verdict.incident
        case Retry():
            raise ValueError("a retry is applied by dispatching, not by writing it down")
    values["verdict"] = type(verdict).__name__.lower()
    values["reason"] = storable(verdict.reason, LONGEST_REASON)
    values["code"] = storable(values["code"], LONGEST_CODE)
    values |= {name: storable(values[name], LONGEST_ID) for name in ("result_id", "result_version")}
    values["incident_detail"] = detail
    return values


def open_incident(connection: Connection, operation: UUID, kind: str, detail: Mapping[str, Any]) -> None:
    """Open an incident, once per operation and kind while it is open."""
    connection.execute(_INCIDENT, {"id": operation, "kind": kind, "detail": json.dumps(detail)})


def finding_kind(finding: Finding) -> str:
    """Return what the record calls a finding."""
    return _NAMES[type(finding)]


def _finding(kind: str, detail: dict[str, Any]) -> Finding:
    known = _KINDS[kind]
    if known is Found:
        detail = {**detail, "all_ids": tuple(detail.get("all_ids", ()))}
    fields = known.__dataclass_fields__
    return known(**{name: value for name, value in detail.items() if name in fields})


_STANDING = {
    "approval_missing": "its approval does not exist",
    "approval_mismatch": "its approval is for another action, target or payload",
    "approval_revoked": "its approval was revoked",
    "approval_expired": "its approval has expired",
    "approval_denied": "its approval was denied",
    "approval_superseded": "its approval was superseded by a newer draft",
    "approval_pending": "its approval is not decided yet",
    "approval_used_up": "its approval is used up",
    "approval_sum_exceeded": "it goes beyond the sum that its approval allows",
    "workflow_cancelled": "its workflow was cancelled",
    "flow_withdrawn": "its flow version was withdrawn",
    "expired": "its not_after has passed",
}


def standing_in_words(gate: str) -> str:
    """Return why an operation may not be dispatched any more, as a verdict says it."""
    return _STANDING.get(gate, gate)
