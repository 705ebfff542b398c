"""An outbox wholly in memory: the intake of the real one, a ledger without a database, a provider that follows a script."""

import inspect
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session, scoped_session

from acuse.intent import ActionCatalog, Routes
from acuse.outbox import AsyncOutbox, Outbox
from acuse.store.caller import Row, StandIn
from acuse.store.statement import Statement
from acuse.testing.behaviour import Script, accepted
from acuse.testing.memory.answer import answer
from acuse.testing.memory.book import MemoryBook
from acuse.testing.memory.tables import Tables
from acuse.testing.memory.transaction import Transaction
from acuse.testing.observed import Actors, Observed, refuse_awaitable
from acuse.testing.promises import Contracts
from acuse.testing.provider import Outcomes
from acuse.testing.session import AsyncFakeSession, FakeSession
from acuse.testing.watch import Watch

__all__ = ["AsyncMemoryOutbox", "MemoryOutbox"]


class _InMemory:
    """What both faces share: one ledger, and the transactions of whoever stages in it."""

    def __init__(self) -> None:
        self.tables = Tables()
        self._watch = Watch()

    def answer(self, caller: object, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
        if isinstance(caller, StandIn):
            return caller.answer(statement, values)
        return answer(self.tables, self._transaction(caller), statement, values)

    def _transaction(self, caller: object) -> Transaction:
        asyncio = sys.modules.get("sqlalchemy.ext.asyncio")
        if asyncio is not None and isinstance(caller, asyncio.AsyncSession):
            caller = caller.sync_session
        if isinstance(caller, scoped_session) or (asyncio is not None and isinstance(caller, asyncio.async_scoped_session)):
            return self._transaction(caller.registry())
        return self._watch.transaction_of(caller) if isinstance(caller, Session) else Transaction.none()


class MemoryOutbox(Outbox, Observed):
    """An `Outbox` that takes any object as a connection, and `Observed` by the test.

    A SQLAlchemy session (of any database) and a `FakeSession` have their rollbacks honoured; what is staged on any other object
    counts as committed at once. Time stands still until `advance`, or `during` of `run_effects`, lets it pass.
    """

    def __init__(
        self,
        routes: Routes | None = None,
        catalog: ActionCatalog | None = None,
        tenant: str = "default",
        *,
        contracts: Contracts | None = None,
    ) -> None:
        """routes, catalog, tenant: of `Outbox`. contracts: action → `RetryContract`, or adapters; the others have `ASSUMED`."""
        Outbox.__init__(self, routes, catalog, tenant)
        self._memory = _InMemory()
        Observed.__init__(self, MemoryBook(self._memory.tables), contracts)

    def session(self) -> FakeSession:
        """A fake session on this ledger, for all faces of Acuse that take a connection."""
        return FakeSession(self._memory.tables)

    def asynchronous(self) -> "AsyncMemoryOutbox":
        """The face for asynchronous code, on the same ledger."""
        return AsyncMemoryOutbox(self)

    def run_effects(
        self,
        outcomes: Outcomes | None = None,
        *,
        during: timedelta = timedelta(0),
        otherwise: Script = accepted,
        actors: Actors = (),
    ) -> None:
        """Carry out what is due now and, if time is to pass, what comes due `during` it.

        outcomes: action (name or class), or (action, target) → how the provider behaves to its next attempt: `lost_reply`,
        `refused`, a list for several attempts, `always(…)`, or an outcome of `acuse.protocol`. otherwise: to all other actions.
        actors: those of the host that are called with what they are told, as soon as they are: Dramatiq actors, or
        `queue/actor` → function.
        Raises `AssertionError` for staged operations that are not committed, and for outcomes that no attempt has met.
        """
        __tracebackhide__ = True
        for call in self._ran(outcomes, during, otherwise, actors):
            refuse_awaitable(call())

    def _run(self, session: object, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
        return self._memory.answer(session, statement, values)


class AsyncMemoryOutbox(AsyncOutbox, Observed):
    """`MemoryOutbox` for asynchronous code: staging and `run_effects` are awaited, questions are not. `of` shares its ledger."""

    def __init__(self, of: MemoryOutbox) -> None:
        AsyncOutbox.__init__(self, of._routes, of._catalog, of._tenant)
        self._memory = of._memory
        self._book, self._rehearsal = of._book, of._rehearsal

    def session(self) -> AsyncFakeSession:
        """A fake session on this ledger."""
        return AsyncFakeSession(self._memory.tables)

    async def run_effects(
        self,
        outcomes: Outcomes | None = None,
        *,
        during: timedelta = timedelta(0),
        otherwise: Script = accepted,
        actors: Actors = (),
    ) -> None:
        """See `MemoryOutbox.run_effects`; actors may be asynchronous."""
        __tracebackhide__ = True
        for call in self._ran(outcomes, during, otherwise, actors):
            called = call()
            if inspect.isawaitable(called):
                await called

    async def _run(self, session: object, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
        return self._memory.answer(session, statement, values)
