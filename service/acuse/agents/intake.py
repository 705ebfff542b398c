"""What a run is told, checked before anything is written."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from acuse.agents.answer import Outcome, ToolAnswer
from acuse.agents.call import ToolCall
from acuse.errors import InvalidField
from acuse.identifier import uuid_of
from acuse.intent import MAX_CALL, check_text

__all__ = [
    "MAX_CALLS",
    "MAX_OWNER",
    "MAX_RUN",
    "MAX_TEXT",
    "MAX_TOOL",
    "answer_values",
    "call_values",
    "check_lease",
    "check_number",
    "check_words",
]

MAX_RUN: Final = 200  # as long as a workflow's id, which it is by default
MAX_OWNER: Final = 200  # of a pod or a process
MAX_TOOL: Final = 100  # providers allow 64 to 128 characters; also a label of logs
MAX_TEXT: Final = 4_000_000  # characters of one message or answer; a window of a million tokens is about as long
MAX_CALLS: Final = 128  # calls of one turn; the most that a provider lets a model make
MAX_NUMBER: Final = 2**31 - 1  # the columns are integers
LONGEST_LEASE: Final = timedelta(days=1)  # a dead owner's run stands still for as long


def check_words(field: str, value: str) -> str:
    """A text that is kept byte for byte: any, but PostgreSQL holds neither U+0000 nor half of a surrogate pair."""
    if not isinstance(value, str):
        raise InvalidField(
            field=field, reason=f"must be a string, not {type(value).__name__}; serialise it as it goes to the model"
        )
    if len(value) > MAX_TEXT:
        raise InvalidField(field=field, reason=f"has {len(value)} characters, at most {MAX_TEXT} are kept; store it elsewhere")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidField(field=field, reason="holds U+0000 or half of a surrogate pair, which cannot be stored; remove it")
    return value


def check_number(field: str, value: int, least: int, most: int = MAX_NUMBER) -> int:
    """A whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidField(field=field, reason=f"must be a whole number from {least} to {most}")
    return value


def check_lease(lease: timedelta) -> float:
    """Seconds of a lease."""
    if not isinstance(lease, timedelta) or not timedelta(0) < lease <= LONGEST_LEASE:
        raise InvalidField(field="lease", reason=f"must be a timedelta above zero and at most {LONGEST_LEASE}")
    return lease.total_seconds()


def call_values(calls: Sequence[ToolCall]) -> list[dict[str, str]]:
    """The calls of a decision, whose ids tell them apart."""
    if len(calls) > MAX_CALLS:
        raise InvalidField(field="calls", reason=f"are {len(calls)}, at most {MAX_CALLS} are kept of one turn")
    if len({call.id for call in calls}) < len(calls):
        raise InvalidField(field="calls", reason="have an id twice; give each call of a turn its own")
    return [
        {
            "id": check_text("call id", call.id, MAX_CALL),
            "tool": check_text("tool", call.name, MAX_TOOL),
            "arguments": check_words("arguments", call.arguments),
        }
        for call in calls
    ]


def answer_values(answer: ToolAnswer) -> dict[str, Any]:
    """What of an answer is stored."""
    operation = answer.operation_id
    return {
        "outcome": Outcome(answer.outcome).value,
        "content": check_words("content", answer.content),
        "is_error": bool(answer.is_error),
        "operation_id": None if operation is None else uuid_of(operation, prefix="op", field="operation_id").hex,
    }
