"""The engine of a worker: messages in, each of their operations claimed and carried out on its own, and an orderly end."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import structlog

from acuse.errors import IntakeError
from acuse.identifier import operation_id, uuid_of
from acuse.store.claim import Claimed
from acuse_adapters.engine import call
from acuse_adapters.engine.book import Book
from acuse_adapters.engine.carrier import Carrier
from acuse_adapters.engine.counters import Counters
from acuse_adapters.engine.moment import Moment, Moments, nothing
from acuse_adapters.engine.room import Room
from acuse_adapters.port import Registry

__all__ = ["Engine"]

SAVE_SECONDS = 5.0
"""After the grace time, how long the outcomes of what was torn off may take to be saved; then their claims end by themselves."""

_log = structlog.get_logger(__name__)


class Engine:
    """Carries operations out for one ledger. Lives in one event loop.

    `ledger` is the ledger's own id: messages of another, and forged ones, are counted and dropped. `concurrency` bounds how
    many operations are worked on at once; tenants take turns.
    """

    def __init__(
        self,
        book: Book,
        registry: Registry,
        *,
        ledger: str,
        concurrency: int = 64,
        counters: Counters | None = None,
        moments: Moments = nothing,
    ) -> None:
        self._book = book
        self._registry = registry
        self._ledger = ledger
        self._room = Room(concurrency)
        self._moments = moments
        self.counters = counters or Counters()
        self._carrier = Carrier(book, registry, self.counters, moments)
        self._tasks: set[asyncio.Task[None]] = set()
        self._messages: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Open the adapters' shared parts."""
        for adapter in self._registry.adapters:
            await adapter.open()

    async def stop(self, grace: float) -> None:
        """Start nothing new; let what is in the air end within `grace` seconds, then mark it. Closes the adapters.

        Takes 5 s longer when the database is away. What could not be marked then becomes unknown when its claim ends.
        """
        self._carrier.stopping = True
        if not await self._ended_within(grace):
            _log.warning("torn_off", operations=len(self._tasks))
        for task in set(self._tasks):
            task.cancel()
        if not await self._ended_within(SAVE_SECONDS):
            _log.error("left_unsaved", operations=len(self._tasks))
        for adapter in self._registry.adapters:
            try:
                await adapter.close()
            except Exception:  # noqa: BLE001  # code that is not ours; the others are still to be closed
                _log.exception("adapter_not_closed", provider=adapter.provider)

    async def _ended_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while working := self._tasks | self._messages:
            left = end - time.monotonic()
            if left <= 0:
                return False
            await asyncio.wait(working, timeout=left)
        return True

    async def perform(self, ledger: str, operations: Sequence[str]) -> None:
        """Handle one message: a hint that these operations want work. Never raises for what an operation does."""
        message = asyncio.current_task()
        assert message is not None
        self._messages.add(message)
        try:
            ids = self._wanted(ledger, operations)
            if ids and self._carrier.stopping:
                await self._book.hand_back(ids)
            elif ids:
                await self._perform(ids)
        finally:
            self._messages.discard(message)

    async def _perform(self, ids: Sequence[UUID]) -> None:
        claimed = await self._book.claim(ids)
        await self._moments(Moment.CLAIMED, claimed)
        tasks = [asyncio.create_task(self._guarded(one)) for one in claimed]
        for task in tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        got = {one.id for one in claimed}
        if missed := [one for one in ids if one not in got]:
            self.counters.prevented.labels(kind="delivery").inc(len(missed))
            await self._wake_behind(missed)
        if tasks:
            await asyncio.wait(tasks)

    async def _wake_behind(self, ids: Sequence[UUID]) -> None:
        try:
            await self._book.wake_behind(ids)
        except Exception:  # noqa: BLE001  # a wake-up that is lost here is found by the recover loop
            _log.warning("wake_up_lost", exc_info=True)

    def _wanted(self, ledger: str, operations: Sequence[str]) -> list[UUID]:
        try:
            ids = [uuid_of(one, prefix="op", field="operation") for one in operations] if ledger == self._ledger else []
        except (TypeError, AttributeError, IntakeError):
            ids = []
        if not ids:
            self.counters.foreign.inc()
            _log.warning("message_foreign")
        return ids

    async def _guarded(self, claimed: Claimed) -> None:
        with structlog.contextvars.bound_contextvars(
            operation=operation_id(claimed.id), tenant=claimed.tenant, provider=claimed.provider, fence=claimed.fence
        ):
            try:
                async with self._room.of(claimed.tenant):
                    await self._carrier.carry(claimed)
            except asyncio.CancelledError:
                # Torn off before its dispatch: every later step runs to its end. The claim is given back.
                call.take_cancellation()
                await self._carrier.give_back(claimed)
            except Exception:  # noqa: BLE001  # one operation never takes its neighbours down
                # The claim ends by itself and the operation comes back; nothing is in doubt that was not before.
                _log.exception("operation_failed")
