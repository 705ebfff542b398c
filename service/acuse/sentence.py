"""Why an operation is where it is and what happens next, in words. Pure; the same facts always read the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from acuse.protocol import State

if TYPE_CHECKING:
    from acuse.record import OperationRecord  # which reads these sentences out

__all__ = ["what_next", "why"]

_REJECTED = {
    "approval_gone": "its approval was gone before it was sent",
    "cancelled": "it was cancelled before it was sent",
    "dependency_rejected": "an operation that it needed was rejected",
    "expired": "the time in not_after had passed before it was sent",
    "operator": "a person settled it",
    "refused": "the provider refused it",
    "refused_before": "the provider's own record says that it refused",
}
_ACCOUNTS = {
    "account_paused": "The account {account} is paused.",
    "breaker_open": "The provider does not answer for {account}, so nothing is sent there but a probe now and then.",
    "account_busy": "The account {account} takes no more calls at this moment: it is at its limit.",
}
_GATES = {
    "approval_missing": "the approval does not exist",
    "approval_mismatch": "the approval is for another action, target or payload",
    "approval_revoked": "the approval was revoked",
    "approval_expired": "the approval had expired",
    "approval_denied": "the approval was denied",
    "approval_superseded": "what it asked for was changed, and the approval went to the newer draft",
    "approval_used_up": "the approval was used up",
    "approval_sum_exceeded": "it went beyond the sum that the approval allows",
    "workflow_cancelled": "the workflow was cancelled",
    "flow_withdrawn": "the flow version was withdrawn",
}


def why(record: OperationRecord) -> str:
    """Return why the operation is in its state."""
    match record.state:
        case State.PREPARED:
            return _why_prepared(record)
        case State.DISPATCHING:
            return f"Attempt {record.attempts} was sent at {_clock(record.updated_at)} and has not come back yet."
        case State.CONFIRMED:
            return _why_confirmed(record)
        case State.REJECTED:
            return _why_rejected(record)
        case State.UNKNOWN:
            return _why_unknown(record)


def what_next(record: OperationRecord) -> str:
    """Return what happens next, and who has to do it."""
    if record.state.final:
        return "Nothing: it is settled."
    if record.held is not None:
        # A verdict that holds an operation is its reason, too: `why` has read it out.
        because = "" if record.held == record.reason else f": {record.held.rstrip('.')}"
        return f"A person has to decide{because}.{_repeat(record)}"
    if record.state is State.DISPATCHING:
        until = f" by {_clock(record.claim_until)}" if record.claim_until else ""
        return f"The worker settles it{until}; if it does not come back, the operation becomes unknown and is looked for."
    if record.claim_until is not None and record.claim_until > record.read_at:
        return f"A worker has it until {_clock(record.claim_until)}."
    if record.state is State.UNKNOWN:
        closed = record.retry_until is not None and record.retry_until < record.read_at
        repeated = "" if closed else ", or repeated where that is safe,"
        return f"{_put_off(record)}It is looked for{repeated} {_when(record)}.{_repeat(record)}"
    if record.waiting is not None:
        return _waits(record)
    return f"{_put_off(record)}It is sent {_when(record)}{_if_it_may(record)}."


def _why_prepared(record: OperationRecord) -> str:
    if record.attempts:
        return f"Sent {_times(record.attempts)}, and it is certain that nothing came of it{_because(record.reason)}."
    if record.waiting is not None:
        return f"Nothing was sent: it waits for {'its approval' if record.waiting == 'approval' else 'others'}."
    return f"Nothing was sent yet{_because(record.reason)}."


def _why_confirmed(record: OperationRecord) -> str:
    what = f"{record.result_id} at the provider" + (f", version {record.result_version}" if record.result_version else "")
    if record.outcome_code == "operator":
        return f"A person confirmed it as {what}{_because(record.reason)}."
    return f"It happened: {what}{_because(record.reason)}."


def _why_rejected(record: OperationRecord) -> str:
    # A provider's own code is the outcome code of what it refused.
    code = record.outcome_code or ""
    text = _REJECTED.get(code, f"the provider refused it ({code})" if code else "it was refused")
    reason = _GATES.get(record.reason or "", record.reason)
    return f"{text[0].upper()}{text[1:]}{_because(None if reason == code else reason)}."


def _why_unknown(record: OperationRecord) -> str:
    if not record.attempts or record.first_sent_at is None:
        return f"It may have been sent, but no attempt is on record{_because(record.reason)}."
    when = f"{'once' if record.attempts == 1 else f'{record.attempts} times, first'} at {_clock(record.first_sent_at)}"
    reason = "" if not record.reason else f" {record.reason[0].upper()}{record.reason[1:].rstrip('.')}."
    return f"Sent {when}; it may or may not have happened.{reason}"


def _waits(record: OperationRecord) -> str:
    if record.waiting == "ordering":
        return f"It is sent when earlier operations with the ordering key {record.ordering_key} are settled."
    if record.waiting == "approval":
        until = "" if record.due_at is None else f", and rejected if nobody has decided by {_clock(record.due_at)}"
        return f"It is sent when a person grants {record.approval_id}{until}."
    if not record.waits_for:
        return "What it waited for is settled; it is sent shortly."
    return f"It is sent when {' and '.join(record.waits_for)} {'is' if len(record.waits_for) == 1 else 'are'} confirmed."


def _put_off(record: OperationRecord) -> str:
    """Return what of its account it waits for, while it waits."""
    if record.put_off is None or record.due_at is None or record.due_at <= record.read_at:
        return ""
    return _ACCOUNTS[record.put_off].format(account=f"{record.provider}/{record.account}") + " "


def _if_it_may(record: OperationRecord) -> str:
    if not _put_off(record):
        return ""
    return ", if its provider answers again by then" if record.put_off == "breaker_open" else ", if the account takes it then"


def _when(record: OperationRecord) -> str:
    if record.due_at is not None and record.due_at > record.read_at:
        return f"from {_clock(record.due_at)} on"
    return "as soon as a worker is free"


def _repeat(record: OperationRecord) -> str:
    if record.state is not State.UNKNOWN or record.retry_until is None:
        return ""
    if _clock(record.retry_until) in f"{record.reason} {record.held}":
        return ""  # the verdict has said it
    if record.retry_until < record.read_at:
        return f" The time in which a repeat was safe ended at {_clock(record.retry_until)}."
    return f" A repeat with the same key is safe until {_clock(record.retry_until)}."


def _because(reason: str | None) -> str:
    return f": {reason.rstrip('.')}" if reason else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _clock(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
