"""Everything that the ledger in memory knows, and its clock, which stands still until somebody moves it."""

import secrets
from collections.abc import Iterable, MutableMapping
from copy import copy
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from acuse.testing.memory.row import Approval, Event, Operation
from acuse.testing.memory.transaction import Transaction
from acuse.testing.message import HostMessage, Incident

__all__ = ["Tables"]

_K = TypeVar("_K")
_V = TypeVar("_V")


class Tables:
    """The tables. What is written in a transaction is visible at once, to everybody, and gone when that is rolled back."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)
        self.operations: dict[UUID, Operation] = {}
        self.events: dict[UUID, Event] = {}
        self.approvals: dict[UUID, Approval] = {}
        self.cancelled: dict[tuple[str, str], datetime] = {}
        self.withdrawn: dict[tuple[str, str], datetime] = {}
        self.paused_until: dict[tuple[str, str], datetime] = {}
        self.ready: dict[UUID, None] = {}  # operations with a message in the outbox
        self.messages: list[HostMessage] = []
        self.incidents: list[Incident] = []
        self.transaction = Transaction.none()
        self._seq = 0

    def new_id(self) -> UUID:
        """A UUIDv7 by the tables' clock; ids that are made one after another sort in that order."""
        self._seq += 1
        milliseconds = int(self.now.timestamp() * 1000)
        number = milliseconds << 80 | 7 << 76 | (self._seq & 0xFFF) << 64 | 2 << 62 | secrets.randbits(62)
        return UUID(int=number)

    def next_seq(self) -> int:
        """The next number of the order of staging."""
        self._seq += 1
        return self._seq

    def put(self, table: MutableMapping[_K, _V], key: _K, value: _V) -> None:
        """Insert a row."""
        table[key] = value
        self.transaction.done(lambda: table.__delitem__(key))

    def keep(self, row: object) -> None:
        """Remember a row as it is before it is changed."""
        before = copy(row)
        names = type(row).__slots__  # type: ignore[attr-defined]
        lists = {name: list(value) for name in names if isinstance(value := getattr(row, name), list)}

        def undo() -> None:
            for name in names:
                setattr(row, name, lists.get(name, getattr(before, name)))

        self.transaction.done(undo)

    def want(self, operations: Iterable[UUID]) -> None:
        """Put messages for operations into the outbox."""
        for one in operations:
            if one not in self.ready:
                self.ready[one] = None
                self.transaction.done(lambda one=one: self.ready.pop(one, None) and None)  # type: ignore[misc]

    def tell(self, message: HostMessage) -> None:
        """Put a message for the host's own actor into the outbox."""
        self.messages.append(message)
        self.transaction.done(lambda: self.messages.remove(message))

    def of_tenant(self, tenant: str) -> Iterable[Operation]:
        """The operations of a tenant, in the order of their staging."""
        return (one for one in self.operations.values() if one.tenant == tenant)
