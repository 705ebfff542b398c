"""Claiming: the right to work on operations for a while, and giving it back before anything left."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from acuse.protocol import State
from acuse.store.storable import storable

__all__ = [
    "MOST_HANDOVERS",
    "Claimed",
    "claim",
    "defer",
    "finished_of",
    "hand_back",
    "pause",
    "prepare_found_down",
    "rest_with_account",
    "wake_next",
]

MOST_HANDOVERS = 20
"""Claims without any progress after which an operation is parked: it may be what kills the workers."""

LONGEST_HELD = 2000

_CLAIM = text(
    """
    select id, fence, version, status, tenant, action, provider, account, target, digest, body, trace_context,
           attempts, pin, doubts, handovers, account_rests
      from acuse.claim(cast(:ids as uuid[]), :lease, :most, cast(:token as uuid))
    """
)
_DEFER = text("select acuse.defer(:id, :fence, cast(:due as interval), :waiting, :held, :progress)")
_REST_WITH_ACCOUNT = text("select acuse.rest_with_account(:id, :fence)")
_PREPARE_FOUND_DOWN = text("select acuse.prepare_found_down(:id, :fence, cast(:took as interval))")
_PAUSE = text("select acuse.pause_account(:provider, :account, clock_timestamp() + :rest, 'acuse', :reason)")
_FINISHED = text("select id from acuse.operation where id = any(cast(:ids as uuid[])) and status in ('confirmed', 'rejected')")
_HAND_BACK = text(
    """
    insert into acuse.outbox_message (queue, tenant, operation_id, available_at)
    select acuse.queue_of(provider, status), tenant, id, clock_timestamp() from acuse.operation
     where id = any(cast(:ids as uuid[])) and handed_at is not null
    """
)
_WAKE_NEXT = text("select acuse.wake_next(:id)")


@dataclass(frozen=True, slots=True)
class Claimed:
    """An operation that this worker may work on until its claim ends, under a new fencing token.

    `body` is the stored canonical text whose SHA-256 must be `digest`; None once retention has dropped it. `pin` is what the
    first attempt pinned, None before it. `handovers` counts the claims since the last progress, this one included.
    `account_rests`: nothing was sent to its account at that moment, which was `taken_at`, a monotonic time of this process.
    """

    id: UUID
    fence: int
    version: int
    state: State
    tenant: str
    action: str
    provider: str
    account: str
    target: str
    digest: bytes
    body: bytes | None
    trace_context: str | None
    attempts: int
    pin: dict[str, Any] | None
    doubts: int
    handovers: int
    account_rests: bool = False
    taken_at: float = field(default_factory=monotonic, compare=False)


def claim(
    connection: Connection,
    ids: Sequence[UUID],
    lease: timedelta,
    *,
    token: UUID | None = None,
    most_handovers: int = MOST_HANDOVERS,
) -> list[Claimed]:
    """Claim those of `ids` that are pending, due and free, in one statement. The others are somebody else's, or settled.

    `token` is of this one request: asked again with it after a lost reply, the claims that it made are found, not missed.
    """
    rows = connection.execute(_CLAIM, {"ids": list(ids), "lease": lease, "most": most_handovers, "token": token})
    return [
        Claimed(
            id=row.id,
            fence=row.fence,
            version=row.version,
            state=State(row.status),
            tenant=row.tenant,
            action=row.action,
            provider=row.provider,
            account=row.account,
            target=row.target,
            digest=bytes(row.digest),
            body=None if row.body is None else bytes(row.body),
            trace_context=row.trace_context,
            attempts=row.attempts,
            pin=row.pin,
            doubts=row.doubts,
            handovers=row.handovers,
            account_rests=row.account_rests,
        )
        for row in rows
    ]


def defer(
    connection: Connection,
    claimed: Claimed,
    *,
    due: timedelta | None = None,
    waiting: str | None = None,
    held: str | None = None,
    progress: bool = False,
) -> bool:
    """Give a claim back: come again after `due`, or wait, or be held for a person. False: the claim was lost meanwhile."""
    why = storable(held, LONGEST_HELD)
    values = {"id": claimed.id, "fence": claimed.fence, "due": due, "waiting": waiting, "held": why, "progress": progress}
    return bool(connection.execute(_DEFER, values).scalar_one())


def rest_with_account(connection: Connection, claimed: Claimed) -> str | None:
    """Put an operation off if its account is paused or its breaker open. Returns the gate; None: it may be prepared."""
    values = {"id": claimed.id, "fence": claimed.fence}
    gate: str | None = connection.execute(_REST_WITH_ACCOUNT, values).scalar_one()
    return gate


def prepare_found_down(connection: Connection, claimed: Claimed, took: timedelta) -> None:
    """Tell the account's breaker of a prepare, begun so long ago, that found the provider away."""
    connection.execute(_PREPARE_FOUND_DOWN, {"id": claimed.id, "fence": claimed.fence, "took": took})


def pause(connection: Connection, claimed: Claimed, rest: timedelta, reason: str) -> None:
    """Let the operation's account rest: its fault was seen before anything was dispatched."""
    values = {"provider": claimed.provider, "account": claimed.account, "rest": rest, "reason": storable(reason, LONGEST_HELD)}
    connection.execute(_PAUSE, values)


def finished_of(connection: Connection, ids: Sequence[UUID]) -> list[UUID]:
    """Return those of `ids` that are final."""
    return list(connection.execute(_FINISHED, {"ids": list(ids)}).scalars())


def wake_next(connection: Connection, operation: UUID) -> int:
    """Wake what waits behind a final operation whose message came once more."""
    return int(connection.execute(_WAKE_NEXT, {"id": operation}).scalar_one())


def hand_back(connection: Connection, ids: Sequence[UUID]) -> int:
    """Put operations whose message this worker will not handle back into the outbox."""
    return connection.execute(_HAND_BACK, {"ids": list(ids)}).rowcount
