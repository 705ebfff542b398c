"""What is true about operations, and cancelling them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine

from acuse.errors import ConfigurationError, InvalidField
from acuse.intent import MAX_TENANT, check_text
from acuse.protocol import FINAL, State
from acuse.record import HistoryEntry, OperationRecord, Page
from acuse.store import read
from acuse.store.caller import AsyncCaller, Caller, run, run_async
from acuse.store.cancel import (
    CANCEL,
    CANCEL_WORKFLOW,
    WITHDRAW,
    Cancellation,
    cancel_values,
    cancellation_of,
    in_the_air,
    withdraw_values,
    workflow_values,
)
from acuse.store.engine import async_engine, sync_engine

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

__all__ = ["AsyncLedger", "Cancellation", "HistoryEntry", "Ledger", "OperationRecord", "Page"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_FIRST_PAUSE: Final = 0.005  # seconds; a quiet system settles an operation in some 20 ms
_LONGEST_PAUSE: Final = 0.25  # a caller that waits long costs four small reads a second

# Reads of one statement need no transaction; a history is three statements that must see the same moment.
_ONE_STATEMENT: Final = "AUTOCOMMIT"
_ONE_MOMENT: Final = "REPEATABLE READ"


class _Reading:
    """What both faces share."""

    def __init__(self, tenant: str | None) -> None:
        self._tenant = None if tenant is None else check_text("tenant", tenant, MAX_TENANT)

    def _writing(self, tenant: str | None) -> str:
        return self._allowed(tenant) or "default"

    def _allowed(self, tenant: str | None) -> str | None:
        if tenant is not None and self._tenant not in (None, tenant):
            raise InvalidField(field="tenant", reason="is not the one that this ledger was opened for")
        return self._tenant if tenant is None else tenant

    def _filters(
        self,
        state: State | Collection[State] | None,
        provider: str | None,
        tenant: str | None,
        workflow: str | None,
        held: bool | None,
        before: str | None,
        limit: int,
    ) -> dict[str, Any]:
        if not 1 <= limit <= read.LARGEST_PAGE:
            raise InvalidField(field="limit", reason=f"must be from 1 to {read.LARGEST_PAGE}")
        return {
            "states": (State(state),) if isinstance(state, str) else state,
            "provider": provider,
            "tenant": self._allowed(tenant),
            "workflow": workflow,
            "held": held,
            "before": before,
            "limit": limit,
        }


class Ledger(_Reading):
    """Reads with an engine of its own or yours, and cancels in your transaction. Safe to share between threads.

    tenant: None sees all tenants, as operators do; else only this one's operations exist.
    Raises `ConfigurationError` for a URL that is not PostgreSQL.
    """

    def __init__(self, engine_or_url: Engine | str, *, tenant: str | None = None) -> None:
        super().__init__(tenant)
        if not isinstance(engine_or_url, Engine | str):
            raise ConfigurationError(f"Ledger takes a SQLAlchemy Engine or a URL, not {type(engine_or_url).__name__}")
        self._owned = isinstance(engine_or_url, str)
        self._engine = sync_engine(engine_or_url, name="acuse ledger") if isinstance(engine_or_url, str) else engine_or_url

    def get(self, operation: str) -> OperationRecord:
        """Read an operation as it is now. Raises `NotFound`, also before the transaction that staged it is committed."""
        return self._read(_ONE_STATEMENT, read.get, operation, self._tenant)

    def wait(self, operation: str, timeout: float | timedelta, until: Collection[State] = FINAL) -> OperationRecord:
        """Wait for one of the states in `until`, at most `timeout` (seconds), and return the truth then.

        "Not yet" is an answer and never an error. Raises `NotFound`, at once: it waits for no operation that does not exist.
        """
        for pause in _pauses(timeout):
            if self._read(_ONE_STATEMENT, read.state_of, operation, self._tenant) in until:
                break
            time.sleep(pause)
        return self.get(operation)

    def history(self, operation: str) -> tuple[HistoryEntry, ...]:
        """Read every transition, attempt and finding, in order, with who and why. Raises `NotFound`."""
        return self._read(_ONE_MOMENT, read.history, operation, self._tenant)

    def find(
        self,
        *,
        state: State | Collection[State] | None = None,
        provider: str | None = None,
        tenant: str | None = None,
        workflow: str | None = None,
        held: bool | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Read operations, newest first. held: those that only a person can move, or the others. before: `Page.before`."""
        return self._read(_ONE_STATEMENT, read.find, **self._filters(state, provider, tenant, workflow, held, before, limit))

    def cancel(self, connection: Caller, operation: str, *, by: str, reason: str, tenant: str | None = None) -> Cancellation:
        """Cancel a prepared operation, in your transaction. What is in the air already is not touched, and the answer says so.

        tenant: the ledger's own by default, else `default`. Raises `NotFound`; nothing was written then.
        """
        values = cancel_values(operation, by, reason, self._writing(tenant))
        return cancellation_of(operation, run(connection, CANCEL, values))

    def cancel_workflow(
        self, connection: Caller, workflow: str, *, by: str, reason: str, tenant: str | None = None
    ) -> tuple[str, ...]:
        """Let nothing of a workflow be sent any more, in your transaction; returns the operations already in the air."""
        return in_the_air(run(connection, CANCEL_WORKFLOW, workflow_values(workflow, by, reason, self._writing(tenant))))

    def withdraw_flow_version(
        self, connection: Caller, flow_version: str, *, by: str, reason: str, tenant: str | None = None
    ) -> tuple[str, ...]:
        """Let nothing of a version of a flow be sent any more, in your transaction; returns the operations in the air."""
        return in_the_air(run(connection, WITHDRAW, withdraw_values(flow_version, by, reason, self._writing(tenant))))

    def close(self) -> None:
        """Close the connections that this ledger opened itself; an engine that it was given stays open."""
        if self._owned:
            self._engine.dispose()

    def _read(
        self, isolation: str, reader: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **options: _P.kwargs
    ) -> _T:
        connected: AbstractContextManager[Connection] = self._engine.connect()
        with connected as connection:
            return reader(connection.execution_options(isolation_level=isolation), *args, **options)


class AsyncLedger(_Reading):
    """`Ledger` for asyncio, with an `AsyncEngine` or a URL. The methods are those of `Ledger`, awaited."""

    def __init__(self, engine_or_url: AsyncEngine | str, *, tenant: str | None = None) -> None:
        super().__init__(tenant)
        loaded = sys.modules.get("sqlalchemy.ext.asyncio")  # needs greenlet, which a host may do without
        if not isinstance(engine_or_url, str) and not (loaded and isinstance(engine_or_url, loaded.AsyncEngine)):
            raise ConfigurationError(f"AsyncLedger takes a SQLAlchemy AsyncEngine or a URL, not {type(engine_or_url).__name__}")
        self._owned = isinstance(engine_or_url, str)
        self._engine = async_engine(engine_or_url, name="acuse ledger") if isinstance(engine_or_url, str) else engine_or_url

    async def get(self, operation: str) -> OperationRecord:
        """See `Ledger.get`."""
        return await self._read(_ONE_STATEMENT, read.get, operation, self._tenant)

    async def wait(self, operation: str, timeout: float | timedelta, until: Collection[State] = FINAL) -> OperationRecord:  # noqa: ASYNC109 - the truth at the deadline, where asyncio.timeout would raise
        """See `Ledger.wait`."""
        for pause in _pauses(timeout):
            if await self._read(_ONE_STATEMENT, read.state_of, operation, self._tenant) in until:
                break
            await asyncio.sleep(pause)
        return await self.get(operation)

    async def history(self, operation: str) -> tuple[HistoryEntry, ...]:
        """See `Ledger.history`."""
        return await self._read(_ONE_MOMENT, read.history, operation, self._tenant)

    async def find(
        self,
        *,
        state: State | Collection[State] | None = None,
        provider: str | None = None,
        tenant: str | None = None,
        workflow: str | None = None,
        held: bool | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> Page:
        """See `Ledger.find`."""
        filters = self._filters(state, provider, tenant, workflow, held, before, limit)
        return await self._read(_ONE_STATEMENT, read.find, **filters)

    async def cancel(
        self, connection: AsyncCaller, operation: str, *, by: str, reason: str, tenant: str | None = None
    ) -> Cancellation:
        """See `Ledger.cancel`."""
        values = cancel_values(operation, by, reason, self._writing(tenant))
        return cancellation_of(operation, await run_async(connection, CANCEL, values))

    async def cancel_workflow(
        self, connection: AsyncCaller, workflow: str, *, by: str, reason: str, tenant: str | None = None
    ) -> tuple[str, ...]:
        """See `Ledger.cancel_workflow`."""
        values = workflow_values(workflow, by, reason, self._writing(tenant))
        return in_the_air(await run_async(connection, CANCEL_WORKFLOW, values))

    async def withdraw_flow_version(
        self, connection: AsyncCaller, flow_version: str, *, by: str, reason: str, tenant: str | None = None
    ) -> tuple[str, ...]:
        """See `Ledger.withdraw_flow_version`."""
        values = withdraw_values(flow_version, by, reason, self._writing(tenant))
        return in_the_air(await run_async(connection, WITHDRAW, values))

    async def close(self) -> None:
        """See `Ledger.close`."""
        if self._owned:
            await self._engine.dispose()

    async def _read(
        self, isolation: str, reader: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **options: _P.kwargs
    ) -> _T:
        connected: AbstractAsyncContextManager[AsyncConnection] = self._engine.connect()
        async with connected as connection:
            await connection.execution_options(isolation_level=isolation)
            return await connection.run_sync(reader, *args, **options)


def _pauses(timeout: float | timedelta) -> Iterator[float]:
    """Pauses between reads, in seconds: short at first, longer later, none beyond the deadline."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while (left := deadline - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
