"""What the model is told, in true words: what is known, what is not, and what not to do. Pure."""

from typing import Final

from acuse.agents.answer import Outcome, ToolAnswer
from acuse.protocol import State
from acuse.record import OperationRecord

__all__ = [
    "OURS",
    "cancelled",
    "held_back",
    "in_progress_here",
    "not_done",
    "not_sent",
    "of_operation",
    "other_content",
    "unknown_here",
    "unreadable",
]

_LONGEST_REASON: Final = 500  # characters of what a tool raised
OURS: Final = frozenset({"approval_gone", "cancelled", "dependency_rejected", "expired"})
"""Outcome codes of operations that were rejected by us and not by the provider: nothing was sent."""


def of_operation(call_id: str, record: OperationRecord, *, how: str = "") -> ToolAnswer:
    """What the ledger knows. how: why this operation stands for the call, if another one made it."""
    outcome, words = _of_record(record)
    return _answer(call_id, outcome, f"{how} {words}".strip(), record.operation_id)


def _of_record(record: OperationRecord) -> tuple[Outcome, str]:
    what = f"{record.action} for {record.target}"
    match record.state:
        case State.CONFIRMED:
            version = f", version {record.result_version}" if record.result_version else ""
            return Outcome.CONFIRMED, f"Done: {what} is confirmed. Receipt: {record.result_id}{version}. ({record.operation_id})"
        case State.REJECTED if record.outcome_code in OURS:
            return Outcome.NOT_SENT, f"Not sent: {what}. {record.why} Nothing was done. ({record.operation_id})"
        case State.REJECTED:
            return Outcome.REJECTED, f"Rejected: {what}. {record.why} Nothing was done. ({record.operation_id})"
        case State.UNKNOWN:
            words = f"Outcome unknown: {what} may or may not have happened. Do not repeat it."
            return Outcome.UNKNOWN, f"{words} It is under review as {record.operation_id}."
        case State.PREPARED if record.waiting == "approval":
            words = f"Not sent yet: {what} waits for a person's approval. Do not call again."
            return Outcome.WAITING_FOR_APPROVAL, f"{words} It is kept as {record.operation_id}."
    words = f"In progress: {what} is on its way and not confirmed yet. Do not call again."
    return Outcome.IN_PROGRESS, f"{words} It is {record.operation_id}."


def other_content(call_id: str, record: OperationRecord, how: str) -> ToolAnswer:
    """Something else than what the call asks for stands under its identity, and it happened."""
    words = f"Not sent. {how} What stands is {record.operation_id}, confirmed with receipt {record.result_id}."
    return _answer(call_id, Outcome.NOT_SENT, words, record.operation_id)


def unreadable(call_id: str, operation: str) -> ToolAnswer:
    """An operation was staged, and the ledger cannot be read at this moment."""
    words = f"In progress: it is staged, and its state cannot be read at this moment. Do not call again; it is {operation}."
    return _answer(call_id, Outcome.IN_PROGRESS, words, operation)


def not_sent(call_id: str, why: str) -> ToolAnswer:
    """Nothing was staged, or nothing of it will be sent."""
    return _answer(call_id, Outcome.NOT_SENT, f"Not sent: {why}. Nothing was done.")


def held_back(call_id: str, tool: str) -> ToolAnswer:
    """A tool of the host that waits for a person."""
    words = f"Not done yet: {tool} waits for a person's approval. Do not call again."
    return _answer(call_id, Outcome.WAITING_FOR_APPROVAL, words)


def not_done(call_id: str, why: str) -> ToolAnswer:
    """It is certain that a tool of the host changed nothing."""
    return _answer(call_id, Outcome.NOT_DONE, f"Not done: {why[:_LONGEST_REASON]}. Nothing was changed.")


def cancelled(call_id: str, how: str) -> ToolAnswer:
    """The run was cancelled, or its version of the flow withdrawn, before the call was carried out."""
    what = "the run was cancelled" if how == "cancelled" else "this version of the flow was withdrawn"
    return _answer(call_id, Outcome.NOT_SENT, f"Not sent: {what}. Nothing was done.")


def in_progress_here(call_id: str, tool: str) -> ToolAnswer:
    """The same owner has begun the call, and it has not come back."""
    words = f"In progress: {tool} was begun and has not come back yet. Do not call again."
    return _answer(call_id, Outcome.IN_PROGRESS, words)


def unknown_here(call_id: str, tool: str, why: str, *, safe_again: bool = False) -> ToolAnswer:
    """A tool of the host may have run. safe_again: a repetition leaves the same state."""
    advice = "A new call with the same arguments is safe." if safe_again else "Do not repeat it; a person has to look."
    return _answer(
        call_id, Outcome.UNKNOWN, f"Outcome unknown: {tool} may or may not have taken effect: {why[:_LONGEST_REASON]}. {advice}"
    )


def _answer(call_id: str, outcome: Outcome, content: str, operation: str | None = None) -> ToolAnswer:
    return ToolAnswer(call_id, outcome, content, outcome.is_error, operation)
