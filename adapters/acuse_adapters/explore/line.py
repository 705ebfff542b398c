"""A connection to PostgreSQL on which every statement and every COMMIT is a turn."""

import hashlib
import re
import select
from typing import Any, Final

import psycopg
from psycopg.errors import DeadlockDetected, OperationalError, QueryCanceled
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from acuse.store.dispatch import CHAIN_INDEX
from acuse_adapters.explore.turn import GO, Turns

__all__ = ["Line", "Lines"]

STALL_MILLISECONDS: Final = 3
"""A statement that takes longer is looked at from outside: it may wait for a lock. What is seen does not depend on this."""

CUT_BEFORE: Final = "cut before"
CUT_AFTER: Final = "cut after"

_LOST: Final = frozenset({"40001", "40P01", "57014"})
"""What a statement may lose against others. Anything else that the server refuses is a mistake of ours."""

_CONSTANT: Final = frozenset({"from meta", "a statement", "ensure_partitions"})
"""Statements that read or set what nobody else can see or change: they are no turns."""

_READS: Final = _CONSTANT | {"view", "from operation", "from ledger", "lost_candidates"}
_COUNTS: Final = frozenset({"from outbox_message", "expire_claims", "hand_over_due", "hand_over_free", "hand_over_lost", "claim"})
"""Statements that locked and wrote nothing if they found nothing. A COMMIT after nothing but those is no turn."""

_CALLED: Final = re.compile(r"acuse\.([a-z_]+)\s*\(")
_NAMED: Final = re.compile(r"(insert into|delete from|from) acuse\.([a-z_]+)")


class Lines:
    """The connections of all schedules; `turns` is of the schedule that runs now."""

    def __init__(self, url: str, options: str) -> None:
        self._url, self._options = url, options
        self._free: list[Line] = []
        self.all: list[Line] = []
        self.turns: Turns | None = None

    def take(self) -> "Line":
        """Return a connection that nobody uses."""
        if self._free:
            return self._free.pop()
        line: Line = Line.connect(self._url, options=self._options, cursor_factory=_Cursor, prepare_threshold=1)
        line.lines = self
        line.command("begin")
        self.all.append(line)
        return line

    def give_back(self, line: "Line") -> None:
        """Take a connection back."""
        line.end("rollback")
        if line not in self._free:
            self._free.append(line)

    def close(self) -> None:
        """Close all of them."""
        for line in self.all:
            psycopg.Connection.close(line)


class Line(psycopg.Connection[Any]):
    """One connection. A schedule that kills its user leaves it usable."""

    lines: Lines | None = None
    used = False
    """Whether its transaction has a statement."""
    wrote = False
    """Whether it may have one that anybody could notice."""

    @property
    def turns(self) -> Turns | None:
        """The turns to take; None for what the driver does by itself."""
        turns = self.lines.turns if self.lines is not None else None
        return turns if turns is not None and turns.acting is not None else None

    def close(self) -> None:
        """Give it back."""
        if self.lines is not None:
            self.lines.give_back(self)

    def set_autocommit(self, value: bool) -> None:
        """Nothing: there is always a transaction."""

    def set_isolation_level(self, value: Any) -> None:  # noqa: ANN401  # psycopg's own
        """Nothing: whoever asks asks for READ COMMITTED, and has it."""

    def commit(self) -> None:
        """Take a turn and commit."""
        turns = self.turns
        if turns is None or not self.wrote:
            self.end("commit")
            return
        way = turns.wait_turn("COMMIT", (GO, CUT_BEFORE, CUT_AFTER))
        self.end("rollback" if way == CUT_BEFORE else "commit")
        turns.commits += 1
        if way != GO:
            raise OperationalError("the connection was cut")

    def rollback(self) -> None:
        """Roll back, which is no turn: a transaction that was lost ends by itself."""
        self.end("rollback")

    def end(self, how: str) -> None:
        """End the transaction. The next one begins at once, which saves a journey: until its first statement it sees nothing."""
        if self.used or self.pgconn.transaction_status == TransactionStatus.IDLE:
            self.command(f"{how}; begin")
        self.used = self.wrote = False

    def command(self, said: str) -> None:
        """Say something to the server that waits for nothing and is no turn."""
        result = self.pgconn.exec_(said.encode())
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise AssertionError(f"{said}: {result.get_error_message()}")

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ANN401  # psycopg's own
        """Wait for the server's answer, or for the lock that it waits for."""
        turns = self.turns
        if turns is None:
            return super().wait(gen, interval, timeout)
        try:
            wanted = next(gen)
            while True:
                ready = self._ready(wanted)
                if ready:
                    wanted = gen.send(ready)
                elif turns.watch.waits(self.info.backend_pid):
                    self._wait_lock(turns, gen, wanted)
        except StopIteration as end:
            return end.value

    def _ready(self, wanted: Wait) -> Ready | None:
        poll = select.poll()
        poll.register(self.pgconn.socket, (select.POLLIN if wanted & Wait.R else 0) | (select.POLLOUT if wanted & Wait.W else 0))
        events = poll.poll(STALL_MILLISECONDS)
        if not events:
            return None
        found = events[0][1]
        return Ready((Ready.R if found & ~select.POLLOUT else 0) | (Ready.W if found & select.POLLOUT else 0))

    def _wait_lock(self, turns: Turns, gen: Any, wanted: Wait) -> None:  # noqa: ANN401
        me = self.info.backend_pid
        try:
            if not turns.wait_lock(me):
                return
        except BaseException:
            self._take_back(turns, gen, wanted)
            raise
        deadlock = turns.watch.waits_for(turns.backend, me)
        self._take_back(turns, gen, wanted)
        if deadlock:
            raise DeadlockDetected("deadlock detected")
        raise _TakenBack

    def _take_back(self, turns: Turns, gen: Any, wanted: Wait) -> None:  # noqa: ANN401
        turns.watch.cancel(self.info.backend_pid)
        try:
            while True:
                if ready := self._ready(wanted):
                    wanted = gen.send(ready)
        except (QueryCanceled, StopIteration):
            pass


class _TakenBack(Exception):  # noqa: N818  # a control-flow signal
    """The statement would have waited behind another that waits: it takes its turn later."""


class _Cursor(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:  # noqa: ANN401  # psycopg's own
        line = self.connection
        assert isinstance(line, Line)
        turns = line.turns
        if turns is None:
            line.used = True
            return super().execute(query, params, **options)
        what, postponed = _named(query), False
        if what in _CONSTANT:
            line.used = True
            return super().execute(query, params, **options)
        while True:
            if turns.wait_turn(what, (GO, CUT_BEFORE), postponed=postponed) == CUT_BEFORE:
                line.end("rollback")
                raise OperationalError("the connection was cut")
            line.used = True
            guarded = turns.blocked is not None
            if guarded:
                line.command("savepoint explore")
            try:
                super().execute(query, params, **options)
            except _TakenBack:
                line.command("rollback to savepoint explore")
                turns.tell("comes back later: it would wait behind another")
                postponed = True
                continue
            except psycopg.Error as error:
                _judge(turns, error)
                line.wrote = True
                raise
            line.wrote |= not (what in _READS or (what in _COUNTS and _nothing(self)))
            turns.done(what)
            turns.tell(_digest(self))
            return self


def _named(query: object) -> str:
    said = query if isinstance(query, str) else str(query)
    if called := _CALLED.search(said):
        return called[1]
    found = _NAMED.search(said)
    return "a statement" if found is None else f"{found[1]} {found[2]}"


def _nothing(cursor: psycopg.Cursor[Any]) -> bool:
    result = cursor.pgresult
    return result is not None and (result.ntuples == 0 or (result.ntuples == 1 and result.get_value(0, 0) in (b"0", bytes(4))))


def _digest(cursor: psycopg.Cursor[Any]) -> str:
    result = cursor.pgresult
    if result is None:
        return "-"
    rows = [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]
    whole = hashlib.sha256(repr(rows).encode()).hexdigest()[:10]
    first = b" ".join(value if value is not None else b"-" for value in rows[0][:6]).decode(errors="replace") if rows else ""
    return f"{len(rows)} row{'' if len(rows) == 1 else 's'} {whole} {first[:110]}".rstrip()


def _judge(turns: Turns, error: psycopg.Error) -> None:
    turns.tell(f"{error.sqlstate}: {str(error).splitlines()[0]}")
    if error.sqlstate not in _LOST and error.diag.constraint_name != CHAIN_INDEX:
        turns.accuse(f"the database refused a statement: {str(error).splitlines()[0]}")
