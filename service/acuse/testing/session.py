"""Fake sessions: connections that are none, with transactions whose rollback takes back what was staged in them."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Self

from acuse.store.caller import Row, StandIn
from acuse.store.statement import Statement
from acuse.testing.memory.answer import answer
from acuse.testing.memory.tables import Tables
from acuse.testing.memory.transaction import Transaction

__all__ = ["AsyncFakeSession", "FakeSession"]


class _Faked(StandIn):
    """Begins a transaction by itself when something is said, as a session does."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._transaction: Transaction | None = None

    def answer(self, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
        """Run one of our statements in the transaction."""
        return answer(self._tables, self._begun(), statement, values)

    def in_transaction(self) -> bool:
        """Whether something was begun and has not ended."""
        return self._transaction is not None

    def _begun(self) -> Transaction:
        if self._transaction is None:
            self._transaction = Transaction()
        return self._transaction

    def _nested(self) -> Transaction:
        self._transaction = Transaction(self._begun())
        return self._transaction

    def _commit(self) -> None:
        while self._transaction is not None:
            self._transaction.commit()
            self._transaction = self._transaction.parent

    def _rollback(self) -> None:
        while self._transaction is not None:
            self._transaction.rollback()
            self._transaction = self._transaction.parent

    def _end(self, transaction: Transaction, failed: bool) -> None:
        """End a transaction or savepoint, and the savepoints in it that are still open, unless it has ended itself."""
        while transaction.open and self._transaction is not None:
            ending = self._transaction
            if failed:
                ending.rollback()
            else:
                ending.commit()
            self._transaction = ending.parent
            if ending is transaction:
                break


class _Scope(AbstractContextManager["_Scope"], AbstractAsyncContextManager["_Scope"]):
    """One transaction or savepoint, as a block."""

    def __init__(self, session: _Faked, transaction: Transaction) -> None:
        self._session, self._its = session, transaction

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._session._end(self._its, kind is not None)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)


class FakeSession(_Faked):
    """What code that takes a session needs of one to stage: `begin`, `begin_nested`, `commit`, `rollback`, `close`.

    Every face of Acuse that works on a connection takes it. Subclass it, or hold it, where your own fake needs more.
    """

    def begin(self) -> AbstractContextManager[Any]:
        """A transaction, committed at the end of the block, rolled back by an exception."""
        return _Scope(self, self._begun())

    def begin_nested(self) -> AbstractContextManager[Any]:
        """A savepoint, likewise."""
        return _Scope(self, self._nested())

    def commit(self) -> None:
        """Commit, savepoints that are open too."""
        self._commit()

    def rollback(self) -> None:
        """Roll back: nothing that was staged since `begin` is there any more."""
        self._rollback()

    def close(self) -> None:
        """Roll back what was not committed."""
        self._rollback()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncFakeSession(_Faked):
    """`FakeSession` for asynchronous code: the same methods, awaited; `begin` and `begin_nested` are `async with` blocks."""

    def begin(self) -> AbstractAsyncContextManager[Any]:
        """See `FakeSession.begin`."""
        return _Scope(self, self._begun())

    def begin_nested(self) -> AbstractAsyncContextManager[Any]:
        """See `FakeSession.begin_nested`."""
        return _Scope(self, self._nested())

    async def commit(self) -> None:
        """See `FakeSession.commit`."""
        self._commit()

    async def rollback(self) -> None:
        """See `FakeSession.rollback`."""
        self._rollback()

    async def close(self) -> None:
        """See `FakeSession.close`."""
        self._rollback()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._rollback()
