"""What a schedule's hosts want: a few operations with what ties them together, drawn from its seed."""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import Connection

from acuse import Approvals, Outbox, Staged
from acuse_adapters.explore.clock import BASE
from acuse_adapters.explore.promise import KINDS

__all__ = ["HOST_QUEUE", "TENANT", "WORKFLOW", "Wish", "draw"]

TENANT: Final = "explorer"
WORKFLOW: Final = "flow"
HOST_QUEUE: Final = "host"


@dataclass(frozen=True)
class Wish:
    """One operation. `after`: the names of those that it needs; times in seconds since the schedule's begin."""

    name: str
    kind: int
    target: str
    after: tuple[str, ...] = ()
    ordering_key: str | None = None
    approved: bool = False
    approval_expires: float | None = None
    approval_uses: int | None = None
    workflow: bool = False
    not_after: float | None = None
    told: bool = False

    def grant(self, connection: Connection) -> str:
        """Grant its approval."""
        expires = None if self.approval_expires is None else BASE + timedelta(seconds=self.approval_expires)
        said = KINDS[self.kind](thing=self.target)
        return Approvals(tenant=TENANT).grant(connection, said, by="alice", expires_at=expires, max_uses=self.approval_uses)

    def stage(self, connection: Connection, approval: str | None, after: list[str]) -> Staged:
        """Stage it in the connection's transaction; said again it is the same operation."""
        return Outbox(tenant=TENANT).stage(
            connection,
            KINDS[self.kind](thing=self.target),
            workflow=WORKFLOW if self.workflow else None,
            effect_key=self.name,
            approval=approval,
            after=after,
            ordering_key=self.ordering_key,
            not_after=None if self.not_after is None else BASE + timedelta(seconds=self.not_after),
            on_settled=f"{HOST_QUEUE}/settled" if self.told else None,
        )


def draw(dice: random.Random) -> tuple[Wish, ...]:
    """Draw the wishes of a schedule."""
    wishes: list[Wish] = []
    kinds = dice.choices(range(len(KINDS)), k=2)
    for number in range(1, dice.choice((1, 1, 2, 2, 3, 4)) + 1):
        approved = dice.random() < 0.4
        wishes.append(
            Wish(
                name=f"op{number}",
                kind=dice.choice(kinds),
                target=dice.choice(("thing-1", f"thing-{number}")),
                after=(dice.choice(wishes).name,) if wishes and dice.random() < 0.35 else (),
                ordering_key="chain" if dice.random() < 0.4 else None,
                approved=approved,
                approval_expires=dice.choice((None, None, 40.0, 150.0)) if approved else None,
                approval_uses=dice.choice((None, 1)) if approved else None,
                workflow=dice.random() < 0.4,
                not_after=dice.choice((40.0, 120.0)) if dice.random() < 0.08 else None,
                told=dice.random() < 0.5,
            )
        )
    return tuple(wishes)
