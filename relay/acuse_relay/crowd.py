"""A queue in which more waits than the broker takes: who waits, whose turn is next, and where each share of it starts.

In each batch every tenant that waits gets an equal part of the room, and what one does not need goes to the others. Where the
room is less than one row for each, the next batch goes on behind the last that got one: with room for R rows and T tenants
that wait, each gets a row within ceil(T / R) batches of this relay, however many rows the others have.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy import Connection

from acuse.store.relay import OutboxRow
from acuse.store.share import Start, take_shares, tenants_waiting
from acuse_relay.share import portions

__all__ = ["Crowd", "Taken", "take_fairly"]

MOST_PASSES = 3
"""How often what was left over is divided again in one batch; the next batch follows at once."""

MOST_KNOWN = 5000
"""Tenants whose floors are remembered: past that they are forgotten, which costs a slower look and nothing else."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """What a relay remembers of a crowded queue. `after`: the tenant behind which the next turn begins; None: at the first.

    `floors`: where the rows of each tenant start of whom some were moved. They do not trail, since all rows of a backlog may be
    of one moment: what commits late below them is found by the next full look. `newest`: of all rows that were moved.
    """

    after: str | None = None
    floors: Mapping[str, datetime | None] = field(default_factory=dict)
    newest: datetime | None = None

    @property
    def only(self) -> str | None:
        """The one tenant of whom rows were moved, if it is only one."""
        return next(iter(self.floors)) if len(self.floors) == 1 else None

    def moved(self, rows: Iterable[OutboxRow], asked: Mapping[str, int]) -> "Crowd":
        """The crowd after rows were moved, `asked` being how many of each tenant were wanted."""
        newest: dict[str, datetime] = {}
        counts = Counter[str]()
        for row in rows:
            newest[row.tenant] = max(row.available_at, newest.get(row.tenant, row.available_at))
            counts[row.tenant] += 1
        # A floor falls for rows that committed late only if more of them may be left.
        reached = {
            tenant: time if counts[tenant] >= asked[tenant] else max(time, self.floors.get(tenant) or time)
            for tenant, time in newest.items()
        }
        kept = self.floors if len(self.floors) < MOST_KNOWN else {}
        times = [*newest.values(), *([self.newest] if self.newest else [])]
        return replace(self, floors={**kept, **reached}, newest=max(times, default=None))


@dataclass(frozen=True, slots=True)
class Taken:
    """What one batch took of a queue, and the crowd to remember once it is committed. `more`: rows may be left."""

    rows: list[OutboxRow]
    crowd: Crowd
    more: bool


def take_fairly(
    connection: Connection, queue: str, room: int, crowd: Crowd, *, floor: datetime | None, full: bool = False
) -> Taken:
    """Take at most `room` rows of a queue, of each tenant that waits its share.

    `floor`: where tenants start of whom nothing was moved yet. `full`: all start at their first row.
    """
    # A full look forgets the floors of those whose turn it is not: theirs comes later, and then all their rows are looked at.
    crowd = replace(crowd, floors={}) if full else crowd
    start = Start(crowd.after, floor, crowd.floors)
    waiting = tenants_waiting(connection, queue, start, room)
    rows: list[OutboxRow] = []
    asked, after, hungry = Counter[str](), crowd.after, waiting
    for _ in range(MOST_PASSES):
        given = portions(room - len(rows), hungry)
        if not given:
            break
        if len(given) < len(hungry):
            after = list(given)[-1]
        got = take_shares(connection, queue, given, start)
        asked.update(given)
        rows += got
        counts = Counter(row.tenant for row in got)
        hungry = [tenant for tenant in hungry if tenant not in given or counts[tenant] == given[tenant]]
    if len(waiting) == room:  # more tenants may stand behind them
        after = waiting[-1]
    more = bool(hungry) or len(waiting) == room
    return Taken(rows, replace(crowd.moved(rows, asked), after=after), more)
