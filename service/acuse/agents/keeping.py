"""Renewing a lease for as long as its owner lives, beside whatever it does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from typing import TYPE_CHECKING, Final, Self

import structlog

from acuse.agents.errors import RunError

if TYPE_CHECKING:
    from acuse.agents.journal import AsyncJournal, Journal
    from acuse.agents.run import Run
    from acuse.store.caller import AsyncCaller, Caller

__all__ = ["AsyncKeeping", "Keeping"]

_RENEWALS: Final = 3  # within one lease: two of them may fail before it ends
_log = structlog.get_logger("acuse.agents")


class _Kept:
    """What both share."""

    def __init__(self, run: Run, every: float | None) -> None:
        self._run = run
        self._every = run.lease / _RENEWALS if every is None else every
        self._refused: RunError | None = None

    @property
    def lost(self) -> bool:
        """Whether the run is another's, or has ended."""
        return self._refused is not None

    def check(self) -> None:
        """Raise `RunLost` or `RunEnded` if the run is no longer yours; ask before each step."""
        if self._refused is not None:
            raise self._refused

    def _failed(self, error: Exception) -> bool:
        """Whether to go on."""
        if isinstance(error, RunError):
            self._refused = error
            _log.warning("run_lost", run_id=self._run.run_id, fence=self._run.fence, error=type(error).__name__)
            return False
        _log.warning("lease_not_renewed", run_id=self._run.run_id, error=type(error).__name__)
        return True


class Keeping(_Kept):
    """`with Keeping(journal, engine.begin, run) as kept:` renews the lease in a thread until the block ends.

    sessions: opens a connection and commits at the end of its block, such as `engine.begin` or `sessionmaker.begin`.
    every: seconds between two renewals; a third of the lease if left out. A renewal that fails is tried again.
    """

    def __init__(
        self, journal: Journal, sessions: Callable[[], AbstractContextManager[Caller]], run: Run, every: float | None = None
    ) -> None:
        super().__init__(run, every)
        self._journal, self._sessions = journal, sessions
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease of {run.run_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                with self._sessions() as session:
                    self._journal.renew(session, self._run)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next round may do better
                if not self._failed(error):
                    return


class AsyncKeeping(_Kept):
    """`Keeping` for asyncio, in a task."""

    def __init__(
        self,
        journal: AsyncJournal,
        sessions: Callable[[], AbstractAsyncContextManager[AsyncCaller]],
        run: Run,
        every: float | None = None,
    ) -> None:
        super().__init__(run, every)
        self._journal, self._sessions = journal, sessions
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                async with self._sessions() as session:
                    await self._journal.renew(session, self._run)
            except Exception as error:  # noqa: BLE001 - see Keeping
                if not self._failed(error):
                    return
