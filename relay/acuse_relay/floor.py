"""Where the next scan of a queue starts, so that it does not read the dead rows of everything that was moved before."""

from collections.abc import Iterable
from datetime import datetime, timedelta

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

    def emptied(self, queue: str, newest: datetime, *, trail: timedelta = TRAIL) -> None:
        """All rows of a queue were moved that could be seen; the newest of them became available then.

        Behind a backlog, which may be of one moment as a whole, there is no trail: its dead rows would be read again and again.
        """
        reached, known = newest - trail, self._floors.get(queue)
        self._floors[queue] = reached if known is None else max(known, reached)
