"""The relay: moves committed outbox rows to the broker's queues. It knows queues, not providers.

One batch is one transaction: lock the queues that have rows, ask the broker how deep they are, take as many rows as there is
room for, of each tenant its share, push, COMMIT. A crash before the COMMIT leaves the rows, and after the push it doubles
messages; both are harmless, since the broker is only a hint. Polling is the way, with no NOTIFY in anybody's business commit.
Any number of relays may run.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from datetime import datetime, timedelta
from threading import Event
from time import monotonic

import structlog
from sqlalchemy import Connection, Engine

from acuse.store.relay import OutboxRow, Wanted, ledger_id, ready_queues, take_rows
from acuse_relay.crowd import Crowd, Taken, take_fairly
from acuse_relay.failures import Failures
from acuse_relay.floor import TRAIL, Floors
from acuse_relay.grouping import messages_of, row_limit
from acuse_relay.metrics import Meter
from acuse_relay.queue.port import Message, Queue
from acuse_relay.rhythm import Rhythm
from acuse_relay.share import take_turns

__all__ = ["Relay"]

_log = structlog.get_logger("acuse.relay")

MOST_ROWS = 1000
"""Rows of one queue in one batch: what a failure may double, and how long a batch holds its locks (tens of ms)."""

FULL_SCAN_SECONDS = 2.0
"""Every so often all rows are looked at, not only those from the floor on: a transaction that commits far behind it waits at
most this long."""

FULL_SCAN_SHARE = 20
"""While an old snapshot elsewhere makes full scans slow, they take at most one part in this many of the relay's time."""

SHORTEST_PAUSE_SECONDS = 0.001
"""The first pause after the last row; doubled up to the longest while nothing comes."""


class Relay:
    """Moves rows while `run` runs, or one batch by `run_once`. One object belongs to one thread.

    `bound`: messages that one queue may hold in the broker; all relays together keep it. `batch_size`: operations that one
    message may carry. `idle_seconds`: longest pause between two looks at an empty outbox.

    No tenant waits for another's backlog. While more waits for a queue than it takes, each batch gives every tenant an equal
    part of the room (see `acuse_relay.crowd`): with room for R rows and T tenants that wait, a tenant's first row leaves within
    ceil(T / R) batches of a relay. R is at least `batch_size` for operations (one message), at least 1 for messages of hosts,
    and at most 1,000. In the broker it then stands behind what was pushed before: less than `bound` messages, and of its own
    batch behind at most one row of each other tenant.
    """

    def __init__(
        self,
        engine: Engine,
        queue: Queue,
        *,
        bound: int = 200,
        batch_size: int = 50,
        idle_seconds: float = 0.02,
        meter: Meter | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        # Under REPEATABLE READ two relays would fail each other with 40001.
        self._engine = engine.execution_options(isolation_level="READ COMMITTED")
        self._queue = queue
        self._bound = bound
        self._batch_size = batch_size
        self._idle_seconds = idle_seconds
        self._meter = meter or Meter()
        self._floors = Floors()
        self._crowds: dict[str, Crowd] = {}
        self._full_scan = Rhythm(FULL_SCAN_SECONDS, clock, share=FULL_SCAN_SHARE)

    def run_once(self) -> int:
        """Move one batch and return how many rows that were.

        Raises `QueueUnavailable` or SQLAlchemy's errors; then the rows are where they were.
        """
        with self._engine.connect() as connection:
            return self._move_batch(connection)

    def run(self, stop: Event) -> None:
        """Move batches until `stop` is set; the batch in hand is finished. Failures are logged, waited out and repeated."""
        failures = Failures("relay")
        while not stop.is_set():
            try:
                with self._engine.connect() as connection:
                    self._poll(connection, stop, failures)
            except Exception as error:  # noqa: BLE001 - a loop that ends moves nothing any more; it is logged there
                failures.wait_out(error, stop)

    def _poll(self, connection: Connection, stop: Event, failures: Failures) -> None:
        pause = SHORTEST_PAUSE_SECONDS
        while not stop.is_set():
            if self._move_batch(connection):
                pause = SHORTEST_PAUSE_SECONDS
            else:
                stop.wait(pause)
                pause = min(pause * 2, self._idle_seconds)
            failures.over()

    def _move_batch(self, connection: Connection) -> int:
        full = self._full_scan.is_due()
        with self._full_scan if full else nullcontext():
            return self._move_from(connection, full=full)

    def _move_from(self, connection: Connection, *, full: bool) -> int:
        floors = self._floors.for_scan(full=full)
        with connection.begin():
            queues = ready_queues(connection, floors, self._crowds)
            rooms = self._rooms(queues)
            taken = self._take(connection, rooms, floors, full=full)
            rows = {queue: take_turns(one.rows) for queue, one in taken.items() if one.rows}
            if rows:
                self._queue.push(self._messages(rows, rooms, ledger_id(connection)))
        # Committed. What is remembered of a batch, or counted, is remembered only now.
        self._floors.know(queues)
        for queue, one in taken.items():
            self._remember(queue, one)
        for queue, moved in rows.items():
            self._meter.relayed(queue, len(moved))
            _log.debug("relay.moved", queue=queue, rows=len(moved), room=rooms[queue])
        return sum(len(moved) for moved in rows.values())

    def _take(
        self, connection: Connection, rooms: Mapping[str, int], floors: Mapping[str, datetime | None], *, full: bool
    ) -> dict[str, Taken]:
        """All that waits for a queue if there is room for it, or if it is one tenant that waits; else of each its share."""
        limits = {queue: self._row_limit(queue, room) for queue, room in rooms.items()}
        simple = [
            self._simply(queue, limit, floors.get(queue), full=full) for queue, limit in limits.items() if self._is_simple(queue)
        ]
        whole = _by_queue(take_rows(connection, simple)) if simple else {}
        taken = {}
        for queue, limit in limits.items():
            crowd = self._crowds.get(queue, Crowd())
            if rows := whole.get(queue):
                taken[queue] = Taken(rows, crowd.moved(rows, Counter({rows[0].tenant: limit})), more=len(rows) == limit)
            else:
                taken[queue] = take_fairly(connection, queue, limit, crowd, floor=floors.get(queue), full=full)
        return taken

    def _is_simple(self, queue: str) -> bool:
        return queue not in self._crowds or self._crowds[queue].only is not None

    def _simply(self, queue: str, limit: int, floor: datetime | None, *, full: bool) -> Wanted:
        if queue not in self._crowds:
            return Wanted(queue, limit, floor)
        ((only, reached),) = self._crowds[queue].floors.items()
        return Wanted(queue, limit, None if full else reached, only, floor)

    def _remember(self, queue: str, taken: Taken) -> None:
        if taken.more:
            self._crowds[queue] = taken.crowd
            return
        was_crowded = self._crowds.pop(queue, None) is not None
        if taken.crowd.newest is not None:
            self._floors.emptied(queue, taken.crowd.newest, trail=timedelta(0) if was_crowded else TRAIL)

    def _rooms(self, queues: list[str]) -> dict[str, int]:
        """How many more messages fit, for the queues that have room. Asked under the locks, so that nobody else fills it."""
        depths = self._queue.depth(queues) if queues else {}
        return {queue: self._bound - depths[queue] for queue in queues if depths[queue] < self._bound}

    def _row_limit(self, queue: str, room: int) -> int:
        return row_limit(queue, room, self._batch_size, MOST_ROWS)

    def _messages(self, rows: Mapping[str, list[OutboxRow]], rooms: Mapping[str, int], ledger: str) -> list[Message]:
        return [
            message
            for queue, taken in rows.items()
            for message in messages_of(queue, taken, ledger=ledger, room=rooms[queue], batch_size=self._batch_size)
        ]


def _by_queue(rows: Iterable[OutboxRow]) -> dict[str, list[OutboxRow]]:
    taken: defaultdict[str, list[OutboxRow]] = defaultdict(list)
    for row in rows:
        taken[row.queue].append(row)
    return dict(taken)
