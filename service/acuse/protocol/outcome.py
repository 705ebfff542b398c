"""What a send can end in, and what that makes of the operation. There is no fifth outcome."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from acuse.protocol.state import State

__all__ = [
    "Accepted",
    "Ambiguous",
    "Concerns",
    "Health",
    "NotSent",
    "Outcome",
    "Receipt",
    "Refused",
    "Settlement",
    "health",
    "settlement",
]


class Concerns(StrEnum):
    """Whose trouble it is that an attempt did not end well."""

    PROVIDER = "provider"  # it is away, or it fails: so many of these in a row open the account's breaker
    ACCOUNT = "account"  # it answers, and asks the account for patience (429)
    OPERATION = "operation"  # this request alone, or this worker: it says nothing of the provider


class Health(StrEnum):
    """What an outcome says of its provider."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The provider's answer that names the thing it made or changed."""

    result_id: str
    result_version: str | None = None
    provider_request_id: str | None = None
    replayed: bool = False  # the provider says that it answers again for an earlier request with the same key


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer names our operation or its result."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Refused:
    """The provider says, per contract, that nothing was done and nothing will be."""

    code: str
    reason: str
    covers_key: bool = False  # the answer speaks for every attempt under this key, not for this attempt alone


@dataclass(frozen=True, slots=True)
class NotSent:
    """No request byte reached the provider, or it said "not executed", or the account is in trouble."""

    reason: str
    retry_after: timedelta | None = None
    account_fault: bool = False  # 401, 403, suspended, quota: our trouble, not the effect's
    concerns: Concerns = Concerns.PROVIDER


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Everything else: it may have happened."""

    reason: str
    review: bool = False  # no look-up can help (the key was used with another body): a person must look
    concerns: Concerns = Concerns.PROVIDER


Outcome = Accepted | Refused | NotSent | Ambiguous


class _Code(StrEnum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    NOT_SENT = "not_sent"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class Settlement:
    """Where the outcome of one attempt takes the operation.

    `doubts` is the number of attempts that stay unresolved; `attempt_doubtful` says whether this attempt is one of them.
    """

    state: State
    doubts: int
    attempt_doubtful: bool
    outcome_code: str


def settlement(outcome: Outcome, earlier_doubts: int) -> Settlement:
    """Decide what an outcome makes of a dispatching operation with `earlier_doubts` older attempts in doubt.

    An outcome speaks for its own attempt: while an older attempt is in doubt, "not sent" and "refused" say nothing about
    that one, so the operation stays unknown, unless the contract says that the refusal covers the whole key.
    """
    if earlier_doubts < 0:
        raise ValueError(f"earlier_doubts is {earlier_doubts}; it counts attempts and cannot be negative")
    match outcome:
        case Accepted():
            return Settlement(State.CONFIRMED, 0, False, _Code.ACCEPTED)
        case Refused(covers_key=covers) if covers or earlier_doubts == 0:
            return Settlement(State.REJECTED, 0, False, _Code.REFUSED)
        case Refused():
            return Settlement(State.UNKNOWN, earlier_doubts, False, _Code.REFUSED)
        case NotSent() if earlier_doubts == 0:
            return Settlement(State.PREPARED, 0, False, _Code.NOT_SENT)
        case NotSent():
            return Settlement(State.UNKNOWN, earlier_doubts, False, _Code.NOT_SENT)
        case Ambiguous():
            return Settlement(State.UNKNOWN, earlier_doubts + 1, True, _Code.AMBIGUOUS)


def health(outcome: Outcome) -> Health | None:
    """Return whether an outcome shows its provider at work or away; None: neither."""
    match outcome:
        case Accepted() | Refused():
            return Health.UP
        case NotSent(account_fault=True) | Ambiguous(review=True):
            return None
        case NotSent(concerns=concerns) | Ambiguous(concerns=concerns):
            return Health.DOWN if concerns is Concerns.PROVIDER else None
