"""The schedule's time, and an event loop that lives in it. Nothing here looks at a real clock or waits for anything."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

__all__ = ["BASE", "Clock", "OwnedLoop"]

BASE: Final = datetime(2026, 6, 2, tzinfo=UTC)
"""When every schedule begins. Its month's partitions are the only ones of the explorer's ledger."""


SHORTEST_SECONDS: Final = 0.1


class Clock:
    """Microseconds since `BASE`. In the database each reading is a microsecond later than the last: no two are the same."""

    def __init__(self) -> None:
        self.now = 0

    @property
    def seconds(self) -> float:
        """Seconds since `BASE`."""
        return self.now / 1_000_000

    @property
    def moment(self) -> datetime:
        """The moment, in UTC."""
        return BASE + timedelta(microseconds=self.now)

    def advance(self, seconds: float) -> None:
        """Let time pass: so much that the database's readings are overtaken."""
        self.now += round(max(seconds, SHORTEST_SECONDS) * 1_000_000)


class _NoFiles:
    """In place of a selector: there is never anything to wait for."""

    def select(self, _timeout: float | None) -> Sequence[Any]:
        return ()


class OwnedLoop(asyncio.BaseEventLoop):
    """An event loop without files, whose timers go off by the schedule's clock only."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._selector = _NoFiles()
        self.set_exception_handler(lambda _loop, _context: None)  # who is killed leaves tasks whose end nobody asks for

    def time(self) -> float:
        """The schedule's time in seconds."""
        return self._clock.seconds

    def drain(self) -> None:
        """Run everything that can run now, until all of it waits."""
        while self._ready or (self._scheduled and self._scheduled[0]._when <= self.time()):  # type: ignore[attr-defined]
            self.call_soon(self.stop)
            self.run_forever()

    def _process_events(self, event_list: Sequence[Any]) -> None:
        pass
