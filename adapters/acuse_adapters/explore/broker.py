"""The broker, which is only a hint: it may lose messages, double them, and deliver them in any order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from acuse.errors import AcuseError
from acuse.identifier import uuid_of
from acuse_adapters.explore.turn import GO, Turns
from acuse_adapters.explore.wish import HOST_QUEUE

__all__ = ["Broker", "Delivery"]

PUSHED_TWICE = "twice"
REFUSED = "refused"
ANSWER_LOST = "answer lost"


class _Away(AcuseError):  # noqa: N818  # names state the fact
    """The broker did not answer."""


class _Message(Protocol):
    """What a relay pushes."""

    @property
    def queue(self) -> str: ...
    @property
    def args(self) -> tuple[Any, ...]: ...
    @property
    def kwargs(self) -> Mapping[str, Any]: ...
    @property
    def message_id(self) -> str: ...


@dataclass(eq=False)
class Delivery:
    """One message in a queue of operations. `fetched_by`: the process that has it."""

    name: str
    queue: str
    ledger: str
    operations: tuple[str, ...]
    fetched_by: str | None = None


class Broker:
    """The queues. `told`: what the host's own actor heard, by message, so that one that came twice counts once."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._count = 0
        self.messages: list[Delivery] = []
        self.told: dict[str, Mapping[str, Any]] = {}

    @property
    def waiting(self) -> list[Delivery]:
        """What nobody has fetched."""
        return [one for one in self.messages if one.fetched_by is None]

    # the port of relay and recover loop

    def depth(self, queues: Collection[str]) -> Mapping[str, int]:
        """Count messages."""
        return {queue: sum(one.queue == queue for one in self.messages) for queue in queues}

    def push(self, messages: Sequence[_Message]) -> None:
        """Take messages."""
        way = self._turns.wait_turn("pushes", (GO, REFUSED, ANSWER_LOST, PUSHED_TWICE))
        if way == REFUSED:
            raise _Away("nothing was pushed")
        for message in [*messages, *(messages if way == PUSHED_TWICE else ())]:
            if message.queue == HOST_QUEUE:
                self.told[message.message_id] = message.kwargs
            else:
                self._add(message.queue, str(message.args[0]), tuple(message.args[1]))
        if way == ANSWER_LOST:
            raise _Away("the connection was cut")

    def held(self, queues: Collection[str]) -> set[UUID]:
        """Name the operations that messages carry."""
        self._turns.wait_turn("asks the broker what it holds")
        held = (
            uuid_of(text, prefix="op", field="operation")
            for one in self.messages
            if one.queue in queues
            for text in one.operations
        )
        return set(held)

    def check(self) -> None:
        """Nothing to refuse."""

    def close(self) -> None:
        """Nothing to close."""

    # what happens to messages

    def double(self, message: Delivery) -> None:
        """Deliver one twice."""
        self._add(message.queue, message.ledger, message.operations)

    def lose(self, message: Delivery) -> None:
        """Lose one."""
        self.messages.remove(message)

    def acknowledge(self, message: Delivery) -> None:
        """Forget one that was handled."""
        if message in self.messages:
            self.messages.remove(message)

    def release(self, process: str) -> None:
        """Deliver again what a dead process had fetched."""
        for one in self.messages:
            if one.fetched_by == process:
                one.fetched_by = None

    def _add(self, queue: str, ledger: str, operations: tuple[str, ...]) -> None:
        self._count += 1
        self.messages.append(Delivery(f"m{self._count}", queue, ledger, operations))
        said = " ".join(self._turns.names[one] for one in operations)
        self._turns.tell(f"m{self._count} carries {said}{' in doubt' if queue.endswith('.doubt') else ''}")
