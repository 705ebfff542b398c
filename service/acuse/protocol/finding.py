"""What evidence can say about an operation. Whether it is conclusive is decided in `decide.py`."""

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Absent", "Dated", "Finding", "Found", "RefusedBefore", "TargetState", "Unavailable"]


@dataclass(frozen=True, slots=True)
class Found:
    """Objects at the provider that carry our marker, in our account.

    `content_matches` says whether target and payload are ours. `copies` counts the objects; more than one is a double.
    """

    result_id: str
    content_matches: bool = True
    copies: int = 1
    result_version: str | None = None
    all_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetState:
    """The target is in the wanted state, but nothing carries our marker: somebody else may have done it."""

    result_version: str | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing carries our marker. `target_unchanged`: the target is as it was before our first send (natural upsert)."""

    target_unchanged: bool = False


@dataclass(frozen=True, slots=True)
class RefusedBefore:
    """The provider's own record that it refused the operation."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The look-up itself failed: it says nothing."""

    reason: str


Finding = Found | TargetState | Absent | RefusedBefore | Unavailable


@dataclass(frozen=True, slots=True)
class Dated:
    """A finding with the database time at which its look-up **started** and the attempt number that it speaks of."""

    finding: Finding
    started_at: datetime
    attempt: int
