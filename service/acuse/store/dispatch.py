"""The guarded step to `dispatching`, the last one before the first byte may leave."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from acuse.protocol import Basis, RetryContract, State
from acuse.store.claim import Claimed
from acuse.store.failure import constraint_of

__all__ = ["CHAIN_INDEX", "Dispatched", "chain_taken", "dispatch", "dispatched_by"]

CHAIN_INDEX = "one_of_a_chain_in_the_air"

_DISPATCH = text(
    """
    select gate, attempt, earlier_doubts, dispatched_at, version, status
      from acuse.dispatch(:id, :fence, :version, :basis, :deadline, cast(:window as interval), :contract, :key,
                          cast(:pin as jsonb))
    """
)

# The row lock waits for a transaction of ours that lost its connection and may still be committing.
_LOCK = text("select 1 from acuse.operation where id = :id for no key update")
_DISPATCHED_BY = text(
    """
    select a.number, a.dispatched_at, o.version, o.status, o.doubts
      from acuse.attempt a join acuse.operation o on o.id = a.operation_id
     where a.operation_id = :id and a.fence = :fence and a.settled_at is null
    """
)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What became of the step. `gate` is `open` when the request may leave; else it names what stood in the way.

    For an open gate `attempt` is the number of the attempt and `earlier_doubts` how many older ones are unresolved.
    """

    gate: str
    attempt: int
    earlier_doubts: int
    dispatched_at: datetime | None
    version: int
    state: State | None

    @property
    def open(self) -> bool:
        """Whether the request may leave."""
        return self.gate == "open"


def dispatch(
    connection: Connection,
    claimed: Claimed,
    contract: RetryContract,
    *,
    key: str,
    pin: Mapping[str, Any],
    basis: Basis | None = None,
    version: int | None = None,
) -> Dispatched:
    """Move an operation to `dispatching` and write its attempt, or say what stood in the way.

    `basis` and `version` are of the verdict that allowed a repeat; None for a first dispatch. The caller commits before a byte
    leaves. Raises `IntegrityError` on the chain's unique index when another of the chain was faster (see `chain_taken`).
    """
    row = connection.execute(
        _DISPATCH,
        {
            "id": claimed.id,
            "fence": claimed.fence,
            "version": claimed.version if version is None else version,
            "basis": "first" if basis is None else basis.value,
            "deadline": contract.deadline,
            "window": _window(contract),
            "contract": contract.version,
            "key": key,
            "pin": json.dumps(pin),
        },
    ).one()
    return Dispatched(
        gate=row.gate,
        attempt=row.attempt or 0,
        earlier_doubts=row.earlier_doubts or 0,
        dispatched_at=row.dispatched_at,
        version=row.version or 0,
        state=State(row.status) if row.status else None,
    )


def dispatched_by(connection: Connection, claimed: Claimed) -> Dispatched | None:
    """Return the dispatch that this claim has committed although its reply was lost, or None if it never did."""
    connection.execute(_LOCK, {"id": claimed.id})
    row = connection.execute(_DISPATCHED_BY, {"id": claimed.id, "fence": claimed.fence}).one_or_none()
    if row is None:
        return None
    return Dispatched("open", row.number, max(row.doubts - 1, 0), row.dispatched_at, row.version, State(row.status))


def chain_taken(error: BaseException) -> bool:
    """Say whether a dispatch failed since another operation of its ordering key was dispatched at the same moment."""
    return isinstance(error, IntegrityError) and constraint_of(error) == CHAIN_INDEX


def _window(contract: RetryContract) -> timedelta | None:
    """Return how long after the first dispatch a repeat with the same key may still be dispatched."""
    if contract.key is None or contract.max_in_flight is None:
        return None
    return contract.key.retention.value - contract.key.margin - contract.max_in_flight.value - contract.deadline
