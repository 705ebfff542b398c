"""The tool gate: between a model that has named a tool and the tool, in one fixed order. Did it happen? Should it?

A call that happened is answered from the ledger and nobody is asked about it. An effect becomes an operation, staged in the
transaction of the call's record. A tool of the host runs after it was written down that it begins. What the model is told is
true: "failed" is never said of something that may have happened.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from typing import Any, Final, TypeVar

from acuse.agents.answer import ToolAnswer
from acuse.agents.asking import AsksForApproval
from acuse.agents.call import ToolCall
from acuse.agents.journal import AsyncJournal, Journal
from acuse.agents.passing import Passing
from acuse.agents.placing import Placing
from acuse.agents.run import Run
from acuse.agents.script import Do, Invoke, Script, Transact, Wait, again
from acuse.agents.tool import Tools
from acuse.agents.writing import Step
from acuse.errors import ConfigurationError
from acuse.ledger import AsyncLedger, Ledger
from acuse.outbox import AsyncOutbox, Outbox
from acuse.store.caller import AsyncCaller, Caller, run_async
from acuse.store.caller import run as run_sync

__all__ = ["WAIT", "AsyncToolGate", "ToolGate"]

_T = TypeVar("_T")

WAIT: Final = timedelta(seconds=10)
"""How long a call waits for its operation to be settled. A quiet system takes some 20 ms."""

_NOTHING: Final[Mapping[str, str]] = {}


class ToolGate(Passing):
    """Give it the tools, and where its transactions come from: `engine.begin`, `sessionmaker.begin`, or the like.

    approvals: `Approvals`, where a tool needs one. wait: how
    long a call waits for its operation; zero returns at once with what is true then.
    """

    def __init__(
        self,
        sessions: Callable[[], AbstractContextManager[Caller]],
        tools: Tools,
        journal: Journal,
        outbox: Outbox,
        ledger: Ledger,
        approvals: AsksForApproval | None = None,
        *,
        wait: timedelta = WAIT,
    ) -> None:
        super().__init__(tools, Placing(journal, outbox, approvals), wait)
        self._sessions = sessions
        self._ledger = ledger

    def call(
        self,
        run: Run,
        call: ToolCall,
        *,
        wait: timedelta | None = None,
        approval: str | None = None,
        distinct: bool = False,
    ) -> ToolAnswer:
        """Answer one call of the run's last turn, and store the answer if it is final.

        A call that was answered gets the same answer. What is not settled is not stored yet: call again, or let `answers` store
        what the model is told. approval: one that the host has already (of a pattern), in place of asking for an effect.
        distinct: a deliberate repetition of what is still in doubt.
        Raises `InvalidField` for a call that was not decided, `StaleRun`, `RunEnded`, and whatever keeps it from the database
        before anything was done.
        """
        return self._act(self._one(run, call, wait=wait, approval=approval, distinct=distinct))

    def answers(
        self,
        run: Run,
        calls: Sequence[ToolCall],
        *,
        wait: timedelta | None = None,
        approvals: Mapping[str, str] = _NOTHING,
        store_pending: bool = True,
    ) -> list[ToolAnswer]:
        """Answer all calls of a turn, in their order, and store every answer, as the model is now told all of them.

        Effects are staged first and waited for together. approvals: by call id. store_pending: False leaves calls that are in
        progress, in doubt or waiting for a person unanswered, for a host that stops here and resumes later.
        """
        return self._act(self._all(run, calls, wait=wait, approvals=approvals, store_pending=store_pending))

    def _act(self, script: Script[_T], session: Caller | None = None) -> _T:
        told: Callable[[], Any] = lambda: next(script)  # noqa: E731 - the first of three ways to go on
        while True:
            try:
                act = told()
            except StopIteration as end:
                result: _T = end.value
                return result
            try:
                value = self._perform(act, session)
            except Exception as error:  # noqa: BLE001 - the script decides what it means
                told = _throwing(script, error)
            else:
                told = _sending(script, value)

    def _perform(self, act: Any, session: Caller | None) -> Any:  # noqa: ANN401 - whatever the act results in
        match act:
            case Step() if session is not None:
                return act.told(run_sync(session, act.statement, act.values))
            case Do(what) if session is not None:
                return what(session)
            case Transact(body):
                return self._transact(body)
            case Wait(operation, seconds):
                return self._ledger.wait(operation, seconds)
            case Invoke(function, args, kwargs):
                value = function(*args, **kwargs)
                if inspect.isawaitable(value):
                    raise ConfigurationError("a tool of ToolGate must not be a coroutine function; use AsyncToolGate")
                return value
        raise AssertionError(act)

    def _transact(self, body: Callable[[], Script[_T]]) -> _T:
        tries = 1
        while True:
            try:
                with self._sessions() as session:
                    return self._act(body(), session)
            except Exception as error:
                if not again(error, tries):
                    raise
                tries += 1


class AsyncToolGate(Passing):
    """`ToolGate` for asyncio. Tools may be coroutine functions; others run in a thread. Its faces are the asynchronous ones."""

    def __init__(
        self,
        sessions: Callable[[], AbstractAsyncContextManager[AsyncCaller]],
        tools: Tools,
        journal: AsyncJournal,
        outbox: AsyncOutbox,
        ledger: AsyncLedger,
        approvals: AsksForApproval | None = None,
        *,
        wait: timedelta = WAIT,
    ) -> None:
        super().__init__(tools, Placing(journal, outbox, approvals), wait)
        self._sessions = sessions
        self._ledger = ledger

    async def call(
        self,
        run: Run,
        call: ToolCall,
        *,
        wait: timedelta | None = None,
        approval: str | None = None,
        distinct: bool = False,
    ) -> ToolAnswer:
        """See `ToolGate.call`."""
        return await self._act(self._one(run, call, wait=wait, approval=approval, distinct=distinct))

    async def answers(
        self,
        run: Run,
        calls: Sequence[ToolCall],
        *,
        wait: timedelta | None = None,
        approvals: Mapping[str, str] = _NOTHING,
        store_pending: bool = True,
    ) -> list[ToolAnswer]:
        """See `ToolGate.answers`."""
        return await self._act(self._all(run, calls, wait=wait, approvals=approvals, store_pending=store_pending))

    async def _act(self, script: Script[_T], session: AsyncCaller | None = None) -> _T:
        told: Callable[[], Any] = lambda: next(script)  # noqa: E731 - as in ToolGate
        while True:
            try:
                act = told()
            except StopIteration as end:
                result: _T = end.value
                return result
            try:
                value = await self._perform(act, session)
            except Exception as error:  # noqa: BLE001 - the script decides what it means
                told = _throwing(script, error)
            else:
                told = _sending(script, value)

    async def _perform(self, act: Any, session: AsyncCaller | None) -> Any:  # noqa: ANN401 - whatever the act results in
        match act:
            case Step() if session is not None:
                return act.told(await run_async(session, act.statement, act.values))
            case Do(what) if session is not None:
                return await what(session)
            case Transact(body):
                return await self._transact(body)
            case Wait(operation, seconds):
                return await self._ledger.wait(operation, seconds)
            case Invoke(function, args, kwargs):
                if inspect.iscoroutinefunction(function):
                    return await function(*args, **kwargs)
                value = await asyncio.to_thread(function, *args, **kwargs)
                return await value if inspect.isawaitable(value) else value
        raise AssertionError(act)

    async def _transact(self, body: Callable[[], Script[_T]]) -> _T:
        tries = 1
        while True:
            try:
                async with self._sessions() as session:
                    return await self._act(body(), session)
            except Exception as error:
                if not again(error, tries):
                    raise
                tries += 1


def _sending(script: Script[Any], value: object) -> Callable[[], Any]:
    return lambda: script.send(value)


def _throwing(script: Script[Any], error: Exception) -> Callable[[], Any]:
    return lambda: script.throw(error)
