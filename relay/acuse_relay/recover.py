"""The recover loop: what nobody works on any more is handed over again. Judged on the ledger, whatever became of the workers.

Expired claims become unknown or just end, due checks are handed over, so are waiting operations whose turn it is, and so are
those whose message the broker lost. One round hands over all claims and checks that were due when it began, whoever they
belong to and however many they are: nobody's operation is left for a later round because of another's. Partitions of the
history are made ahead. Any number of these loops may run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event
from time import monotonic

import structlog
from sqlalchemy import Connection, Engine

from acuse.store import recover as store
from acuse.store.moment import database_now
from acuse_relay.failures import Failures
from acuse_relay.metrics import Meter
from acuse_relay.queue.port import Queue, QueueUnavailable
from acuse_relay.rhythm import Rhythm

__all__ = ["Recover", "Recovered"]

_log = structlog.get_logger("acuse.recover")

BATCH = 500
"""Operations in one transaction: their rows stay locked for its length, a few tens of ms."""

PAGE = 5000
"""Candidates read at once when messages are looked for; nothing is locked by that read."""

FREE_SECONDS = 5.0
"""Waiting operations are woken by what they wait for; this loop is for the wake-ups that met a claim and were lost. With W of
them waiting, one is found within W / 500 rounds and these seconds."""

LOST_SECONDS = 5.0
"""Between two looks for lost messages, each a read of what was handed over and of what the broker holds."""

PARTITIONS_SECONDS = 24 * 3600.0
MONTHS_AHEAD = 13
"""Kept as far ahead as the migration makes them: a recover loop that is down for months stops no stage."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What one round did. `lost_unknown`: the broker could not be asked, so nothing was judged lost."""

    expired: int = 0
    due: int = 0
    free: int = 0
    lost: int = 0
    partitions: int = 0
    lost_unknown: bool = False

    @property
    def handed_over(self) -> int:
        """Operations that were handed over again, of all kinds."""
        return self.expired + self.due + self.free + self.lost


@dataclass(frozen=True, slots=True)
class LostRound:
    """One look for lost messages."""

    handed_over: int = 0
    unknown: bool = False


class Recover:
    """Makes rounds while `run` runs, or one by `run_once`. One object belongs to one thread.

    `pause_seconds`: between rounds. `lost_after`: a message is looked for in the broker when it was handed over so long ago.
    """

    def __init__(
        self,
        engine: Engine,
        queue: Queue,
        *,
        pause_seconds: float = 1.0,
        lost_after: timedelta = timedelta(seconds=30),
        free_after: timedelta = timedelta(seconds=FREE_SECONDS),
        meter: Meter | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine = engine.execution_options(isolation_level="READ COMMITTED")
        self._queue = queue
        self._pause_seconds = pause_seconds
        self._lost_after = lost_after
        self._free_after = free_after
        self._meter = meter or Meter()
        self._free_rhythm = Rhythm(FREE_SECONDS, clock)
        self._free_behind = 0
        self._lost_rhythm = Rhythm(LOST_SECONDS, clock)
        self._partitions_rhythm = Rhythm(PARTITIONS_SECONDS, clock)

    def run(self, stop: Event) -> None:
        """Make rounds until `stop` is set. Failures are logged, waited out and repeated."""
        failures = Failures("recover")
        while not stop.is_set():
            try:
                self.run_once(stop)
                failures.over()
                stop.wait(self._pause_seconds)
            except Exception as error:  # noqa: BLE001 - a loop that ends recovers nothing any more; it is logged there
                failures.wait_out(error, stop)

    def run_once(self, stop: Event | None = None) -> Recovered:
        """Make one round: claims and due operations always, the rest when its time has come; the first round does everything.

        A queue that is unavailable is no error here. Raises SQLAlchemy's errors; what was committed before stays done.
        """
        stop = stop or Event()
        with self._engine.begin() as connection:
            began = database_now(connection)
        expired = self._expire_claims(stop, began)
        due = self._repeat("due", lambda connection: store.hand_over_due(connection, BATCH, began), stop)
        free, lost, partitions = 0, LostRound(), 0
        if self._free_behind or self._free_rhythm.is_due():
            with self._free_rhythm:
                free = self._look_for_free()
        if self._lost_rhythm.is_due():
            with self._lost_rhythm:
                lost = self._look_for_lost()
        if self._partitions_rhythm.is_due():
            with self._partitions_rhythm, self._engine.begin() as connection:
                partitions = store.ensure_partitions(connection, MONTHS_AHEAD)
        return Recovered(expired, due, free, lost.handed_over, partitions, lost.unknown)

    def _look_for_free(self) -> int:
        """Judge one batch of what waits, some 0.2 ms each. Where more waits, the next round goes on behind it."""
        with self._engine.begin() as connection:
            page = store.hand_over_free(connection, BATCH, self._free_after, self._free_behind)
        self._count("free", page.handed_over)
        self._free_behind = page.last or 0
        return page.handed_over

    def _expire_claims(self, stop: Event, began: datetime) -> int:
        def one_batch(connection: Connection) -> int:
            expired = store.expire_claims(connection, BATCH, began)
            if in_doubt := sum(one.was == "dispatching" for one in expired):
                _log.warning("recover.in_doubt", operations=in_doubt, reason="the worker did not come back")
            return len(expired)

        return self._repeat("expired", one_batch, stop)

    def _repeat(self, kind: str, one_batch: Callable[[Connection], int], stop: Event) -> int:
        """Run batches, each a transaction of its own, until one is not full."""
        total = 0
        while not stop.is_set():
            with self._engine.begin() as connection:
                done = one_batch(connection)
            self._count(kind, done)
            total += done
            if done < BATCH:
                break
        return total

    def _look_for_lost(self) -> LostRound:
        # The order matters: PostgreSQL first, the broker second. A message that is pushed between the two reads is then held
        # and no candidate; the other way round it is a candidate that was not held yet, and every one of them looks lost.
        candidates = self._candidates()
        if not candidates:
            return LostRound()
        try:
            held = self._queue.held(sorted({one.queue for one in candidates}))
        except QueueUnavailable as unavailable:
            _log.warning("recover.queue_unavailable", reason=unavailable.reason, candidates=len(candidates))
            return LostRound(unknown=True)
        lost = [one for one in candidates if one.id not in held]
        handed_over = 0
        for batch in (lost[start : start + BATCH] for start in range(0, len(lost), BATCH)):
            with self._engine.begin() as connection:
                done = store.hand_over_lost(connection, batch)
            self._count("lost", done)
            handed_over += done
        return LostRound(handed_over)

    def _candidates(self) -> list[store.Candidate]:
        """All pages: behind a slow provider the oldest candidates are many, and what was lost stands behind them."""
        candidates: list[store.Candidate] = []
        while True:
            with self._engine.begin() as connection:
                page = store.lost_candidates(connection, self._lost_after, PAGE, after=candidates[-1] if candidates else None)
            candidates += page
            if len(page) < PAGE:
                return candidates

    def _count(self, kind: str, operations: int) -> None:
        if operations:
            self._meter.recovered(kind, operations)
            _log.info("recover.handed_over", kind=kind, operations=operations)
