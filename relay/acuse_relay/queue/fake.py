"""The queue port in memory, for tests: what was pushed, what a worker has fetched, and faults on demand."""

from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from uuid import UUID

from acuse.identifier import uuid_of
from acuse_relay.queue.port import PERFORM, Message, QueueUnavailable

__all__ = ["FakeQueue"]


class FakeQueue:
    """Keeps messages until `acknowledge`. Set `failure` to a reason to have everything refused."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.failure: str | None = None
        self._lock = Lock()

    def depth(self, queues: Collection[str]) -> Mapping[str, int]:
        """Count the messages of each queue."""
        self._answer()
        with self._lock:
            return {queue: sum(message.queue == queue for message in self.messages) for queue in queues}

    def push(self, messages: Sequence[Message]) -> None:
        """Keep the messages."""
        self._answer()
        with self._lock:
            self.messages.extend(messages)

    def held(self, queues: Collection[str]) -> set[UUID]:
        """Name the operations that the kept messages of these queues carry."""
        self._answer()
        with self._lock:
            return {
                uuid_of(text, prefix="op", field="operation_id")
                for message in self.messages
                if message.queue in queues and message.actor == PERFORM
                for text in message.args[1]
            }

    def acknowledge(self, message: Message) -> None:
        """Forget a message, as a worker that is done with it does."""
        with self._lock:
            self.messages.remove(message)

    def wipe(self) -> None:
        """Forget everything."""
        with self._lock:
            self.messages.clear()

    def check(self) -> None:
        """Refuse if `failure` is set."""
        self._answer()

    def close(self) -> None:
        """Do nothing."""

    def _answer(self) -> None:
        if self.failure is not None:
            raise QueueUnavailable(self.failure)
