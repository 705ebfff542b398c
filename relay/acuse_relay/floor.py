"""Where the next scan of a queue starts, so that it does not read the dead rows of everything that was moved before."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from acuse.store.relay import OutboxRow

__all__ = ["TRAIL", "Floors"]

TRAIL = timedelta(seconds=1)
"""The floor trails behind the newest row that was moved: a transaction that commits within this is found at once."""


class Floors:
    """The floor of each queue that was seen. One per relay; told only what was committed.

    A row that appears below the floor, from a transaction that took long to commit, is found by the next full scan.
    """

    def __init__(self) -> None:
        self._floors: dict[str, datetime | None] = {}

    def for_scan(self, *, full: bool) -> dict[str, datetime | None]:
        """The known queues, each with the time to start from (None: from the first row)."""
        return dict.fromkeys(self._floors) if full else dict(self._floors)

    def know(self, queues: Iterable[str]) -> None:
        """Remember that these queues exist."""
        for queue in queues:
            self._floors.setdefault(queue, None)

    def moved(self, queue: str, rows: Iterable[OutboxRow], limit: int) -> None:
        """Rows of a queue were moved. If as many as the limit allowed, more may be left right behind them."""
        times = [row.available_at for row in rows]
        if not times:
            return
        reached, known = max(times) - TRAIL, self._floors.get(queue)
        self._floors[queue] = reached if known is None or len(times) >= limit else max(known, reached)
