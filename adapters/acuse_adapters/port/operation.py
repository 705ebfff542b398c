"""What an adapter is given: one operation at one attempt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from acuse.intent import JSON, Action

__all__ = ["Operation", "Pin"]

P_co = TypeVar("P_co", bound=Action, covariant=True)

Pin = Mapping[str, JSON]
"""What `prepare` fixed for good, so that every attempt sends the very same bytes: a version seen, a date, a boundary. Small."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[P_co]):
    """One attempt of one operation.

    `id` (`op_…`) is the provider's key and our marker at once; it never changes, whatever the attempt. `target` is the host's
    reference. `pin` is what `prepare` returned at the first attempt, the same at every later one.
    """

    id: str
    tenant: str
    account: str
    target: str
    payload: P_co
    attempt: int
    pin: Pin

    @property
    def key(self) -> str:
        """The idempotency key: the operation's id, and nothing that changes between attempts."""
        return self.id
