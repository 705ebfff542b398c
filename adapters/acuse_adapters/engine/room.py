"""Room for so many operations at once, given to tenants in turns."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Room"]


class Room:
    """At most `size` operations are inside. Those that wait are let in one of each tenant after the other.

    The n-th operation of a tenant that waits is let in after at most n of each other tenant: places become free as operations
    end, and none lasts longer than a prepare and a deadline. One event loop.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[None]:
        """Wait for a place and keep it."""
        await self._enter(tenant)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, tenant: str) -> None:
        if self._free:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave()  # it was given a place that it cannot use any more
            raise

    def _leave(self) -> None:
        while self._waiting:
            tenant = next(iter(self._waiting))
            row = self._waiting.pop(tenant)
            place = row.popleft()
            if row:
                self._waiting[tenant] = row  # at the end: its next one comes after one of each other
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
