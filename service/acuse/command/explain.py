"""What a person reads about one operation: what was tried and found, what a repeat would risk, what comes next. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from acuse.protocol import Absent, AttemptView, Dated, Finding, OperationView, RetryContract, State, TargetState, Unavailable
from acuse.protocol.case import Case
from acuse.protocol.reason import clock, looked, no_way_out
from acuse.record import HistoryEntry, OperationRecord
from acuse.store.behind import Waiting
from acuse.store.review import possible

__all__ = ["explain"]

MOST_NAMED = 5
"""Of the operations that wait behind it; a count says the rest."""

NEVER_CAME_BACK = "the worker never came back, so nobody knows whether it was answered"


def explain(
    record: OperationRecord, history: Sequence[HistoryEntry], behind: Sequence[Waiting], contract: RetryContract | None
) -> list[str]:
    """Return the explanation as lines. `contract` is the adapter's, if it is installed here."""
    where = f"{record.provider}/{record.account}"
    head = f"{record.operation_id} · {record.action} · {record.target} · {where} · {_standing(record)}"
    if record.state is State.UNKNOWN:
        case = None if contract is None else _case(record, history, contract)
        lines = [*_sent(record, history), *_found(record, history, case), *_repeat(record, contract)]
    else:
        case, lines = None, [record.why]
    return [head, *lines, *_behind(behind), _next(record, case)]


def _standing(record: OperationRecord) -> str:
    since = record.first_sent_at
    held = ", held for a person" if record.held is not None else ""
    if record.state is State.UNKNOWN and since is not None:
        return f"unknown for {_span(record.read_at - since)}{held}"
    return f"{record.state.value}{held}"


def _sent(record: OperationRecord, history: Sequence[HistoryEntry]) -> list[str]:
    tries = [one for one in history if one.kind == "attempt"]
    sent = [one for one in tries if one.what != "not_sent"]
    if not sent:
        return [record.why]
    doubtful = next((one for one in reversed(sent) if one.detail.get("doubtful", True)), sent[-1])
    at = _at(sent[0].at, record)
    when = f"once at {at}" if len(sent) == 1 else f"{len(sent)} times, first at {at}, last at {_at(sent[-1].at, record)}"
    lines = [f"Sent {when}; {_bare(doubtful.why or NEVER_CAME_BACK)}."]
    last = tries[-1]
    if last.what == "not_sent":
        lines.append(f"Tried again at {_at(last.at, record)}, and nothing was sent then: {_bare(last.why or 'nobody says why')}.")
    elif last is not doubtful and last.what == "refused":
        why = _bare(last.why or "nobody says why")
        lines.append(f"The last attempt was refused ({why}), which says nothing about the one before it.")
    return lines


def _found(record: OperationRecord, history: Sequence[HistoryEntry], case: Case | None) -> list[str]:
    """Say what was found and why that is no proof, or the ledger's own reason where more than a missing thing was found."""
    told = {one.why for one in history if one.kind == "attempt"}
    conclusive = any(
        one.what in {"found", "refused_before"} for one in history if one.kind == "evidence" and one.by != "operator"
    )
    if case is None or conclusive:
        fresh = record.reason and record.reason not in told and record.outcome_code != "claim_expired"
        return [f"{_sentence(record.reason)}"] if record.reason and fresh and record.reason != record.held else []
    if case.contract.lookup is None and not case.findings:
        return ["The provider offers no way to look it up."]
    return [_sentence(looked(case))]


def _repeat(record: OperationRecord, contract: RetryContract | None) -> list[str]:
    until = record.retry_until
    if until is None:
        return [] if contract is None else [f"A repeat may do it twice: {_sentence(contract.again_means, capital=False)}"]
    again = "it twice" if contract is None else f"it twice: {_bare(contract.again_means)}"
    if until > record.read_at:
        left = _span(until - record.read_at)
        return [f"Repeating with the same key is safe until {_at(until, record)} ({left}). After that a repeat may do {again}."]
    ago = _span(record.read_at - until)
    return [f"Repeating with the same key was safe until {_at(until, record)} ({ago} ago). Now a repeat may do {again}."]


def _behind(behind: Sequence[Waiting]) -> list[str]:
    if not behind:
        return []
    named = ", ".join(f"{one.action} ({one.target})" for one in behind[:MOST_NAMED])
    more = f" and {len(behind) - MOST_NAMED} more" if len(behind) > MOST_NAMED else ""
    return [f"{len(behind)} {'operation waits' if len(behind) == 1 else 'operations wait'} behind it: {named}{more}."]


def _next(record: OperationRecord, case: Case | None) -> str:
    if record.held is not None:
        acts = ", ".join(act.value.replace("_", "-") for act in possible(record.state))
        why = "" if case is not None and _told(record.held, case) else f": {_bare(record.held)}"
        how = f"acuse operations ACT {record.operation_id} --version {record.version}"
        return f"Only a person can go on{why}. Possible: {acts} ({how})."
    claimed = record.claim_until is not None and record.claim_until > record.read_at
    if record.state is not State.UNKNOWN or claimed:
        return record.what_next
    return f"Next automatic step: {_step(record, case)}{_approval(record)}."


def _step(record: OperationRecord, case: Case | None) -> str:
    due = record.due_at
    at = f"at {_at(due, record)}" if due is not None and due > record.read_at else "as soon as a worker is free"
    in_time = record.retry_until is not None and record.retry_until > max(due or record.read_at, record.read_at)
    if case is None:
        return f"look it up, or repeat it where that is safe, {at}"
    if not case.can_look:
        return f"repeat it with the same key {at}" if in_time else f"have a person decide {at}"
    again = "look it up again" if case.findings else "look it up"
    if in_time:
        return f"{again} {at}, then repeat it with the same key if that is still needed"
    if case.contract.natural_upsert is not None:
        return f"{again} {at}, then repeat it if the target is unchanged"
    return f"{again} {at}"


def _approval(record: OperationRecord) -> str:
    return "" if record.approval_id is None else f" (under {record.approval_id}, if that still stands then)"


def _told(held: str, case: Case) -> bool:
    """Whether the lines above say what the reason for holding it says: that reading it out would be the same again."""
    return held == no_way_out(case) or held.startswith(f"{looked(case)}. ")


def _case(record: OperationRecord, history: Sequence[HistoryEntry], contract: RetryContract) -> Case:
    attempts = [
        AttemptView(one.attempt or 0, one.at, bool(one.detail.get("doubtful", True))) for one in history if one.kind == "attempt"
    ]
    reads = [
        Dated(_finding(one), one.detail.get("started_at", one.at), one.attempt or 0)
        for one in history
        if one.kind == "evidence" and one.actor == "lookup"
    ]
    view = OperationView(
        record.operation_id, record.state, record.doubts, record.first_sent_at, has_provider_id=record.result_id is not None
    )
    return Case(view, attempts, contract, reads, record.read_at)


def _finding(entry: HistoryEntry) -> Finding:
    """Return the finding as far as its sentence needs it. One that found something is told by the ledger's own reason."""
    if entry.what == "absent":
        return Absent(target_unchanged=bool(entry.detail.get("target_unchanged", False)))
    if entry.what == "target_state":
        return TargetState()
    return Unavailable(str(entry.why or entry.what))


def _at(moment: datetime, record: OperationRecord) -> str:
    """Return a time of the day that the record was read on, or else with its date."""
    text, day = clock(moment), record.read_at.astimezone(UTC).strftime("%Y-%m-%d ")
    return text.removeprefix(day)


def _sentence(text: str, *, capital: bool = True) -> str:
    bare = _bare(text)
    return f"{bare[0].upper() if capital else bare[0]}{bare[1:]}."


def _bare(text: str) -> str:
    return text.strip().rstrip(".")


def _span(span: timedelta) -> str:
    seconds = max(int(span.total_seconds()), 0)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86400} d {seconds % 86400 // 3600} h"
