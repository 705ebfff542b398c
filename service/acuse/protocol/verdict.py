"""What is to be done about an operation in doubt, with the reason in words and five questions answered."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

__all__ = ["Basis", "Check", "Confirm", "Questions", "Reject", "Requeue", "Retry", "Review", "Verdict"]


class Basis(StrEnum):
    """What makes it right to dispatch an unknown operation again."""

    SAME_KEY = "same_key"  # the provider still remembers the key
    UPSERT = "upsert"  # natural upsert, and the target is unchanged since before the first send
    ACCEPTED_RISK = "accepted_risk"  # a person accepted that it may happen twice


@dataclass(frozen=True, slots=True)
class Questions:
    """The five questions that must have an answer before anything is repeated."""

    which_operation: str
    key_or_lookup: str
    observable: str
    old_worker: str
    standing: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """Bound evidence says that it happened."""

    reason: str
    questions: Questions
    result_id: str
    result_version: str | None = None
    duplicates: int = 0  # effects beyond the first: an incident


@dataclass(frozen=True, slots=True)
class Reject:
    """The provider's own record says that it refused."""

    reason: str
    questions: Questions
    outcome_code: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """It conclusively did not happen and nothing is in flight: back to prepared, no doubt left."""

    reason: str
    questions: Questions


@dataclass(frozen=True, slots=True)
class Retry:
    """Dispatch the same operation again, with the same key, account and pinned bytes, not after `until`."""

    reason: str
    questions: Questions
    basis: Basis
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Check:
    """Look again at `at`."""

    reason: str
    questions: Questions
    at: datetime


@dataclass(frozen=True, slots=True)
class Review:
    """Only a person can settle it."""

    reason: str
    questions: Questions
    incident: str | None = None


Verdict = Confirm | Reject | Requeue | Retry | Check | Review
