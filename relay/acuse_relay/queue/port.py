"""What the relay and the recover loop ask of a broker. The broker is a hint: nothing here has to be reliable, only honest."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from acuse.errors import AcuseError

__all__ = ["PERFORM", "Message", "Queue", "QueueUnavailable"]

PERFORM = "perform"
"""The actor that carries operations out: `perform(ledger_id, ["op_…", …])`. Workers declare an actor of this name."""


class QueueUnavailable(AcuseError):  # noqa: N818 - names state the fact
    """The broker cannot take or show messages now. Field: `reason`, in words; it never quotes a message.

    Nothing is lost by it: the rows stay in the outbox, and what may have been pushed all the same is only doubled.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the queue is unavailable: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Message:
    """One message for a Dramatiq actor."""

    queue: str
    actor: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    message_id: str = field(default_factory=lambda: str(uuid.uuid4()))


class Queue(Protocol):
    """The broker's queues, by name. Every method raises `QueueUnavailable` rather than guess."""

    def depth(self, queues: Collection[str]) -> Mapping[str, int]:
        """Say how many messages each queue has, waiting or fetched by a worker and not acknowledged yet."""

    def push(self, messages: Sequence[Message]) -> None:
        """Append the messages to their queues, in order and in one round trip. May leave them doubled, never counts half."""

    def held(self, queues: Collection[str]) -> set[UUID]:
        """Name the operations that messages of these queues still carry, waiting or fetched by a worker that lives."""

    def check(self) -> None:
        """Raise `ConfigurationError` if the broker is set up so that it may forget messages without being asked to."""

    def close(self) -> None:
        """Give the connections back."""
