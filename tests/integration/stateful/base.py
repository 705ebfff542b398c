"""What all rules stand on: the machine's tenants, the broker, the workers' hands, and the look after each step."""

import sys
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from hypothesis.stateful import RuleBasedStateMachine, invariant
from sqlalchemy import Connection, Engine

from acuse.store.claim import claim
from stateful.clock import Clock
from stateful.contracts import LEASE
from stateful.hand import Hand
from stateful.invariant import INVARIANTS, Truth
from stateful.provider import Provider
from stateful.snapshot import Operation, Snapshot, read
from stateful.wish import Wish

__all__ = ["Base", "pick"]

T = TypeVar("T")


class Base(RuleBasedStateMachine):
    """One example: two tenants that nobody else uses, one provider, one broker.

    `broker` holds hints, in any order and number. `hands` are claims in work, `idle` those that came to their end.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        name = uuid.uuid4().hex[:12]
        self.engine = engine
        self.tenants = (f"t-{name}", f"u-{name}")  # the names of the accounts, too: accounts belong to no tenant
        self.clock = Clock(engine, self.tenants)
        self.provider = Provider(self.clock)
        self.truth = Truth(self.provider)
        self.broker: list[UUID] = []
        self.told: list[dict[str, object]] = []
        self.hands: list[Hand] = []
        self.idle: list[Hand] = []
        self.wishes: dict[UUID, Wish] = {}
        self.numbers = 0
        self.ticks = 0
        self.recovered: object = None
        self._reader = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self.seen = read(self._reader, self.tenants)

    def do(self, step: Callable[[Connection], T]) -> T:
        """Run a step in a transaction of its own."""
        with self.engine.begin() as connection:
            return step(connection)

    def look(self) -> Snapshot:
        """Read what stands in the database now, and check it."""
        self.provider.tidy()
        before, self.seen = self.seen, read(self._reader, self.tenants)
        for holds in INVARIANTS:
            holds(before, self.seen, self.truth)
        return self.seen

    @invariant()
    def everything_holds(self) -> None:
        self.look()

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # else a step has failed, and what comes now would hide it
                self.come_to_rest()
        finally:
            self._reader.close()
            self.clock.end()

    def come_to_rest(self) -> None:
        """Let everything come to its end."""

    def pass_time(self, ticks: int) -> None:
        """Let ticks pass."""
        self.clock.advance(ticks)
        self.ticks += ticks

    def number(self) -> int:
        """A number that this machine has not used."""
        self.numbers += 1
        return self.numbers

    def take(self, ids: Sequence[UUID], *, lease: timedelta = LEASE) -> list[Hand]:
        """Let a worker claim operations."""
        claimed = self.do(lambda connection: claim(connection, ids, lease))
        hands = [Hand(one) for one in sorted(claimed, key=lambda one: self.row(one.id).seq)]
        self.hands += hands
        return hands

    def row(self, operation: UUID) -> Operation:
        """An operation as it was seen last."""
        return self.seen.operations[operation]


def pick(which: int, among: Sequence[T]) -> T:
    """Choose one; the machine's rules are given numbers, since what there is to choose from is known only then."""
    return among[which % len(among)]
