"""The only legal transitions, as data. The database holds the same table; a test compares the two."""

from dataclasses import dataclass
from enum import StrEnum

from acuse.protocol.state import State

__all__ = ["ARROWS", "Arrow", "By", "arrow", "legal"]


class By(StrEnum):
    """Who may move an operation."""

    HOST = "host"  # the code that stages, cancels, revokes
    WORKER = "worker"  # holds a live claim
    RECOVER = "recover"  # the loop beside the relay; also a worker that checks an unknown
    EVIDENCE = "evidence"  # a receipt that came late, a look-up, a webhook
    OPERATOR = "operator"  # a person, with a name and a reason


@dataclass(frozen=True, slots=True)
class Arrow:
    """One legal transition; `source` is None for the birth of an operation."""

    source: State | None
    target: State
    by: frozenset[By]
    when: str


def _arrow(source: State | None, target: State, by: tuple[By, ...], when: str) -> Arrow:
    return Arrow(source, target, frozenset(by), when)


_P, _D, _C, _R, _U = State.PREPARED, State.DISPATCHING, State.CONFIRMED, State.REJECTED, State.UNKNOWN

ARROWS: tuple[Arrow, ...] = (
    _arrow(None, _P, (By.HOST, By.OPERATOR), "stage"),
    _arrow(_P, _D, (By.WORKER,), "live claim; approval, budget, standing, dependencies and ordering key allow it"),
    _arrow(_P, _C, (By.EVIDENCE,), "evidence bound to the operation arrived after an absence that was wrong"),
    _arrow(
        _P,
        _R,
        (By.HOST, By.WORKER, By.OPERATOR),
        "cancelled, approval gone, dependency rejected or not_after passed; no doubt is open",
    ),
    _arrow(_P, _U, (By.OPERATOR,), "after a restore or a lossy failover it may have been sent"),
    _arrow(_D, _C, (By.WORKER, By.EVIDENCE), "a receipt, or evidence bound to the operation"),
    _arrow(_D, _P, (By.WORKER,), "proven not sent and no earlier attempt is in doubt"),
    _arrow(_D, _R, (By.WORKER,), "a definite refusal, and no earlier doubt or the refusal covers the key"),
    _arrow(_D, _U, (By.WORKER, By.RECOVER), "ambiguous answer, an older doubt, or the claim expired"),
    _arrow(_U, _D, (By.WORKER, By.OPERATOR), "same key inside its window, unchanged natural upsert, or accepted risk"),
    _arrow(_U, _P, (By.RECOVER,), "conclusive absence: no doubt is left"),
    _arrow(_U, _C, (By.EVIDENCE, By.OPERATOR), "bound evidence, or the provider's id and a reason"),
    _arrow(_U, _R, (By.EVIDENCE, By.OPERATOR), "the provider's own record of a refusal, or a reason"),
)

_INDEX = {(a.source, a.target): a for a in ARROWS}


def arrow(source: State | None, target: State) -> Arrow | None:
    """Return the arrow between two states, or None if there is none."""
    return _INDEX.get((source, target))


def legal(source: State | None, target: State, by: By) -> bool:
    """Say whether `by` may move an operation from `source` to `target`."""
    found = arrow(source, target)
    return found is not None and by in found.by
