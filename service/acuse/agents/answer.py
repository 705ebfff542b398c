"""What a call came to, as the model is told."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Outcome", "ToolAnswer"]


class Outcome(StrEnum):
    """What is true of a call. "Failed" is not among them: it is either known that nothing was done, or it is not known."""

    DONE = "done"  # a tool of the host returned
    NOT_DONE = "not_done"  # it is certain that a tool of the host changed nothing
    CONFIRMED = "confirmed"  # an operation with its receipt
    REJECTED = "rejected"  # the provider refused
    NOT_SENT = "not_sent"  # nothing left: no approval, expired, revoked, cancelled, unusable arguments
    WAITING_FOR_APPROVAL = "waiting_for_approval"  # a person has to decide first
    IN_PROGRESS = "in_progress"  # on its way
    UNKNOWN = "unknown"  # it may or may not have happened

    @property
    def final(self) -> bool:
        """Whether nothing that happens later changes it."""
        return self not in (Outcome.WAITING_FOR_APPROVAL, Outcome.IN_PROGRESS, Outcome.UNKNOWN)

    @property
    def is_error(self) -> bool:
        """Whether the model is told of it as an error: it did not happen, or nobody knows whether it did."""
        return self in (Outcome.NOT_DONE, Outcome.REJECTED, Outcome.NOT_SENT, Outcome.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """One call's answer.

    content: for the model. operation_id: the operation that stands for it. recorded: False when it could not be written down:
    it is the truth all the same, so keep it, and store it with `Journal.answer` as soon as the database is back.
    """

    call_id: str
    outcome: Outcome
    content: str
    is_error: bool
    operation_id: str | None = None
    recorded: bool = True
