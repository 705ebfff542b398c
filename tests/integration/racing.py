"""Interleavings of real connections, step by step: nothing sleeps for luck, every step waits on a fact of the server."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from sqlalchemy import Connection, Engine, text

_T = TypeVar("_T")

PATIENCE = 20.0  # seconds; a fact that does not come is a failed test


def until(fact: Callable[[], _T], what: str) -> _T:
    """Wait for a fact to be true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := fact()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.002)
    return found


class Racer(Generic[_T]):
    """Runs a function on a connection of its own, in a thread; the transaction stays open until `commit` or `rollback`."""

    def __init__(self, engine: Engine, function: Callable[[Connection], _T], isolation: str = "READ COMMITTED") -> None:
        self._engine = engine
        self.connection = engine.connect().execution_options(isolation_level=isolation)
        self.pid: int = self.connection.execute(text("select pg_backend_pid()")).scalar_one()
        self._function = function
        self._result: _T | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._result = self._function(self.connection)
        except BaseException as error:
            self._error = error

    def start(self) -> "Racer[_T]":
        self._thread.start()
        return self

    @property
    def alive(self) -> bool:
        """Whether the function still runs."""
        return self._thread.is_alive()

    def again(self, function: Callable[[Connection], _T]) -> "Racer[_T]":
        """Run another function in the same transaction."""
        self.result()
        self._function = function
        self._thread = threading.Thread(target=self._run, daemon=True)
        return self.start()

    def start_blocked(self) -> "Racer[_T]":
        """Start, and come back when the server says that the statement waits for another transaction."""
        self.start()
        return self.wait_blocked()

    def wait_blocked(self) -> "Racer[_T]":
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as observer:
            asked = text("select cardinality(pg_blocking_pids(:pid)) > 0")
            until(lambda: observer.execute(asked, {"pid": self.pid}).scalar_one() or not self._thread.is_alive(), "a lock")
        assert self._thread.is_alive(), f"it did not wait: {self._error or self._result}"
        return self

    def result(self) -> _T:
        """What the function returned; raises what it raised."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it still waits"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def commit(self) -> None:
        self.connection.commit()
        self.connection.close()

    def rollback(self) -> None:
        with suppress(Exception):
            self.connection.rollback()
        self.connection.close()
