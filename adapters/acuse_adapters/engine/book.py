"""The ledger as a worker sees it: every step one committed transaction, and what may be repeated is repeated here."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from acuse.protocol import Basis, Finding, Outcome, RetryContract, Verdict
from acuse.store import claim as claims
from acuse.store import dispatch as dispatches
from acuse.store import evidence
from acuse.store.claim import Claimed
from acuse.store.dispatch import Dispatched
from acuse.store.evidence import Recorded, View
from acuse.store.failure import worth_repeating
from acuse.store.settle import settle as settle_in

__all__ = ["Book", "firmly"]

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0

_log = structlog.get_logger(__name__)


async def firmly(step: Awaitable[T]) -> tuple[T, bool]:
    """Wait for a database step to its end even if we are cancelled meanwhile. Returns its result and whether we were.

    A step that is torn off half-way may have been committed; then nobody would know what the operation's state means.
    """
    task = asyncio.ensure_future(step)
    cancelled = False
    while True:
        try:
            return await asyncio.shield(task), cancelled
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            cancelled = True
            current = asyncio.current_task()
            if current is not None:
                current.uncancel()  # it is dealt with: the caller is told


class Book:
    """Claim, dispatch, settle, evidence: each in a transaction of its own, never open while a provider is called."""

    def __init__(self, engine: AsyncEngine, lease: timedelta) -> None:
        self._engine = engine
        self.lease = lease

    async def claim(self, ids: Sequence[UUID]) -> list[Claimed]:
        """Claim what is free of `ids`. Repeated with the same token, so that a claim whose reply was lost is found again."""
        token = uuid4()
        return await self._until_done("claim", lambda c: claims.claim(c, ids, self.lease, token=token))

    async def wake_behind(self, ids: Sequence[UUID]) -> None:
        """Wake what waits behind those of `ids` that are final: their message came once more."""

        def wake(connection: Connection) -> None:
            for operation in claims.finished_of(connection, ids):
                claims.wake_next(connection, operation)

        await self._once(wake)

    async def hand_back(self, ids: Sequence[UUID]) -> None:
        """Return operations to the outbox untouched."""
        await self._once(lambda c: claims.hand_back(c, ids))

    async def defer(self, claimed: Claimed, **how: Any) -> bool:  # noqa: ANN401  # the keywords of store.claim.defer
        """Give a claim back. Repeated: it changes nothing the second time."""
        return await self._until_done("defer", lambda c: claims.defer(c, claimed, **how))

    async def pause(self, claimed: Claimed, rest: timedelta, reason: str) -> None:
        """Let the operation's account rest."""
        await self._until_done("pause", lambda c: claims.pause(c, claimed, rest, reason))

    async def rest_with_account(self, claimed: Claimed) -> str | None:
        """Put an operation off whose account rests. Returns why, or None. Repeated: it changes nothing the second time."""
        return await self._until_done("rest", lambda c: claims.rest_with_account(c, claimed))

    async def prepare_found_down(self, claimed: Claimed, took: timedelta) -> None:
        """Tell the account's breaker of a prepare that found the provider away. Not repeated: others will follow."""
        await self._once(lambda c: claims.prepare_found_down(c, claimed, took))

    async def dispatch(
        self,
        claimed: Claimed,
        contract: RetryContract,
        *,
        key: str,
        pin: Mapping[str, Any],
        basis: Basis | None = None,
        version: int | None = None,
    ) -> Dispatched:
        """Take the step to dispatching. Never repeated: a lost reply is resolved by `dispatched_by`."""
        return await self._once(
            lambda c: dispatches.dispatch(c, claimed, contract, key=key, pin=pin, basis=basis, version=version)
        )

    async def dispatched_by(self, claimed: Claimed) -> Dispatched | None:
        """Say whether a dispatch whose reply was lost was committed."""
        return await self._until_done("dispatched_by", lambda c: dispatches.dispatched_by(c, claimed))

    async def settle(
        self, claimed: Claimed, dispatched: Dispatched, outcome: Outcome, *, due: timedelta, pause: timedelta | None = None
    ) -> str:
        """Save an outcome, however long the database takes to come back. The provider is not called again for it."""
        return await self._until_done("settle", lambda c: settle_in(c, claimed, dispatched, outcome, due=due, pause=pause))

    async def record(
        self, operation: UUID, source: str, source_id: str, attempt: int, finding: Finding, started_at: datetime
    ) -> Recorded | None:
        """Write a finding, until it is written."""
        return await self._until_done(
            "record", lambda c: evidence.record(c, operation, source, source_id, attempt, finding, started_at)
        )

    async def view(self, operation: UUID) -> View | None:
        """Read what a decision needs."""
        return await self._once(lambda c: evidence.view(c, operation))

    async def apply(self, operation: UUID, version: int, verdict: Verdict) -> int | None:
        """Apply a verdict to the version it judged."""
        return await self._once(lambda c: evidence.apply_verdict(c, operation, version, verdict))

    async def incident(self, operation: UUID, kind: str, detail: Mapping[str, Any]) -> None:
        """Open an incident."""
        await self._once(lambda c: evidence.open_incident(c, operation, kind, detail))

    async def _once(self, step: Callable[[Connection], T]) -> T:
        async with self._engine.begin() as connection:
            return await connection.run_sync(step)

    async def _until_done(self, name: str, step: Callable[[Connection], T]) -> T:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._once(step)
            except Exception as error:
                if not worth_repeating(error):
                    raise
                _log.warning("database_step_repeated", step=name, error=type(error).__name__)
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  # jitter, not a secret
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
