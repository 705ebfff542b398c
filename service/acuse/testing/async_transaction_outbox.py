"""`TransactionOutbox` for asynchronous sessions."""

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from acuse.intent import ActionCatalog, Event, Routes
from acuse.outbox import AsyncOutbox
from acuse.protocol import State
from acuse.record import HistoryEntry, OperationRecord
from acuse.testing.behaviour import Script, accepted
from acuse.testing.message import HostMessage, Incident
from acuse.testing.observed import ActionName, Actors
from acuse.testing.promises import Contracts
from acuse.testing.provider import Outcomes
from acuse.testing.transaction_outbox import TransactionOutbox

__all__ = ["AsyncTransactionOutbox"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AsyncTransactionOutbox(AsyncOutbox):
    """An `AsyncOutbox` whose questions are awaited: `await outbox.assert_staged(…)`, `await outbox.told()`."""

    def __init__(self, connection: AsyncConnection, observed: TransactionOutbox) -> None:
        AsyncOutbox.__init__(self, observed._routes, observed._catalog, observed._tenant)
        self._connection = connection
        self._observed = observed

    @classmethod
    async def open(
        cls,
        session: AsyncSession | AsyncConnection,
        routes: Routes | None = None,
        catalog: ActionCatalog | None = None,
        tenant: str = "default",
        *,
        contracts: Contracts | None = None,
    ) -> "AsyncTransactionOutbox":
        """See `TransactionOutbox`."""
        connection = session if isinstance(session, AsyncConnection) else await session.connection()
        return cls(connection, await connection.run_sync(TransactionOutbox, routes, catalog, tenant, contracts=contracts))

    async def now(self) -> datetime:
        """See `Observed`."""
        return await self._ask(lambda observed: observed.now)

    async def staged(
        self,
        action: ActionName | None = None,
        *,
        target: str | None = None,
        payload: Mapping[str, Any] | None = None,
        workflow: str | None = None,
        state: State | str | None = None,
    ) -> tuple[OperationRecord, ...]:
        """See `Observed`."""
        asked = {"target": target, "payload": payload, "workflow": workflow, "state": state}
        return await self._ask(lambda observed: observed.staged(action, **asked))  # type: ignore[arg-type]

    async def only(self, action: ActionName, *, target: str | None = None) -> OperationRecord:
        """See `Observed`."""
        __tracebackhide__ = True
        return await self._ask(TransactionOutbox.only, action, target=target)

    async def payload(self, operation: OperationRecord | str) -> dict[str, Any]:
        """See `Observed`."""
        __tracebackhide__ = True
        return await self._ask(TransactionOutbox.payload, operation)

    async def history(self, operation: OperationRecord | str) -> tuple[HistoryEntry, ...]:
        """See `Observed`."""
        return await self._ask(TransactionOutbox.history, operation)

    async def published(self, event: str | type[Event] | None = None) -> tuple[dict[str, Any], ...]:
        """See `Observed`."""
        return await self._ask(TransactionOutbox.published, event)

    async def told(self) -> tuple[HostMessage, ...]:
        """See `Observed`."""
        return await self._ask(lambda observed: observed.told)

    async def sent(self) -> tuple[HostMessage, ...]:
        """See `Observed`."""
        return await self._ask(lambda observed: observed.sent)

    async def incidents(self) -> tuple[Incident, ...]:
        """See `Observed`."""
        return await self._ask(lambda observed: observed.incidents)

    async def assert_staged(
        self,
        action: ActionName,
        *,
        target: str | None = None,
        payload: Mapping[str, Any] | None = None,
        workflow: str | None = None,
        state: State | str | None = None,
        times: int | None = 1,
    ) -> tuple[OperationRecord, ...]:
        """See `Observed`."""
        __tracebackhide__ = True
        asked = {"target": target, "payload": payload, "workflow": workflow, "state": state, "times": times}
        return await self._ask(lambda observed: observed.assert_staged(action, **asked))  # type: ignore[arg-type]

    async def assert_nothing_staged(self, action: ActionName | None = None, *, target: str | None = None) -> None:
        """See `Observed`."""
        __tracebackhide__ = True
        await self._ask(TransactionOutbox.assert_nothing_staged, action, target=target)

    async def advance(self, by: timedelta) -> None:
        """See `Observed`."""
        await self._ask(TransactionOutbox.advance, by)

    async def run_effects(
        self,
        outcomes: Outcomes | None = None,
        *,
        during: timedelta = timedelta(0),
        otherwise: Script = accepted,
        actors: Actors = (),
    ) -> None:
        """See `MemoryOutbox.run_effects`; actors may be asynchronous, and are called in the test's own loop."""
        __tracebackhide__ = True
        calls = self._observed._ran(outcomes, during, otherwise, actors)
        while (call := await self._ask(lambda _: next(calls, None))) is not None:
            called = call()
            if inspect.isawaitable(called):
                await called

    async def _ask(self, question: Callable[Concatenate[TransactionOutbox, _P], _T], *args: _P.args, **options: _P.kwargs) -> _T:
        __tracebackhide__ = True
        return await self._connection.run_sync(lambda _: question(self._observed, *args, **options))
