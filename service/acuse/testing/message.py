"""What leaves the ledger beside effects: messages to the host's own actors, and incidents."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["HostMessage", "Incident"]


@dataclass(frozen=True, slots=True, eq=False)
class HostMessage:
    """A message to an actor of the host: its own (`Outbox.send`), or one by which it is told something.

    told: whether an operation's `on_settled`, or the callback of an approval, asked for it. Of an operation, `kwargs` hold
    `operation_id`, `state`, `outcome_code`, `result_id`, …; `message_id` is the same each time that this message is delivered.
    """

    queue: str
    actor: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    message_id: str
    told: bool
    available_at: datetime

    @property
    def address(self) -> str:
        """`queue/actor`."""
        return f"{self.queue}/{self.actor}"


@dataclass(frozen=True, slots=True)
class Incident:
    """A finding that contradicts what is settled, a double at the provider, or content that differs."""

    operation_id: str
    kind: str
    detail: Mapping[str, Any]
