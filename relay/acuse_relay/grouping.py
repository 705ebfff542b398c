"""Which messages carry the rows of a batch: a quiet system sends one operation per message, a busy one few full messages."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar
from uuid import UUID

from acuse.identifier import operation_id
from acuse.intent.actor import OPERATION_QUEUES
from acuse.store.relay import OutboxRow
from acuse_relay.queue.port import PERFORM, Message

__all__ = ["messages_of", "row_limit", "split_evenly"]

T = TypeVar("T")


def row_limit(queue: str, room: int, batch_size: int, most: int) -> int:
    """How many rows of a queue fit into `room` messages, at most `most`."""
    return max(0, min(most, room * batch_size if queue.startswith(OPERATION_QUEUES) else room))


def split_evenly(items: Sequence[T], parts: int, most: int) -> list[Sequence[T]]:
    """Cut `items` into at most `parts` pieces of nearly the same length, in order; into more only if one would pass `most`."""
    if not items:
        return []
    count = max(min(len(items), parts), -(-len(items) // most))
    edges = [len(items) * n // count for n in range(count + 1)]
    return [items[start:end] for start, end in pairwise(edges)]


def messages_of(queue: str, rows: Sequence[OutboxRow], *, ledger: str, room: int, batch_size: int) -> list[Message]:
    """The messages for the rows of one queue. An operation that has several rows goes along once."""
    hosts = [_host_message(queue, row.message) for row in rows if row.message is not None]
    operations: list[UUID] = list(dict.fromkeys(row.operation_id for row in rows if row.operation_id is not None))
    return hosts + [
        Message(queue, PERFORM, (ledger, [operation_id(one) for one in group]))
        for group in split_evenly(operations, max(1, room - len(hosts)), batch_size)
    ]


def _host_message(queue: str, message: dict[str, object]) -> Message:
    return Message(queue, message["actor"], tuple(message["args"]), message["kwargs"], message["options"], message["id"])  # type: ignore[arg-type]
