"""A clock that tests can move forward, so that no test waits for a lag or a retention."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

__all__ = ["Clock"]


class Clock:
    """Wall time plus an offset. `advance` wakes everybody who waits in `reach`."""

    def __init__(self, offset_seconds: float = 0.0) -> None:
        self._offset = timedelta(seconds=offset_seconds)
        self._moved = asyncio.Event()

    @property
    def offset_seconds(self) -> float:
        """How far this clock is ahead of the wall."""
        return self._offset.total_seconds()

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC) + self._offset

    def stamp(self) -> str:
        """The time as ISO 8601 text."""
        return self.now().isoformat()

    def passed(self, since: str, seconds: float) -> bool:
        """Whether this many seconds have passed since a stamp."""
        return self.now() >= datetime.fromisoformat(since) + timedelta(seconds=seconds)

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self._offset += timedelta(seconds=seconds)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def reach(self, moment: datetime) -> None:
        """Return once the clock shows this moment."""
        while (left := (moment - self.now()).total_seconds()) > 0:
            moved = self._moved
            try:
                async with asyncio.timeout(left):
                    await moved.wait()
            except TimeoutError:
                continue
