"""A worker is heard of as long as its event loop runs, however long what it has fetched takes."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

import dramatiq
import redis
from dramatiq.asyncio import get_event_loop_thread
from dramatiq.middleware import Middleware

__all__ = ["Heartbeat"]

IN_LOOP_SECONDS = 5
"""How long the loop may take to begin or to end it. Where it hangs, the worker's own steps say so."""


class _Heard(Protocol):
    def be_heard(self) -> None: ...


class Heartbeat(Middleware):
    """Lets the worker say every `pause` that it lives.

    From the loop that does the work: where that hangs, nothing is heard, and what the worker has fetched goes to others.
    """

    def __init__(self, pause: timedelta) -> None:
        self._pause = pause.total_seconds()
        self._beating: asyncio.Task[None] | None = None

    def after_worker_boot(self, broker: Any, worker: dramatiq.Worker) -> None:  # noqa: ANN401  # ours: a WorkerBroker
        """Begin."""
        self._in_loop(self._begin(broker))

    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        """End, after the last message."""
        self._in_loop(self._end())

    @staticmethod
    def _in_loop(work: Coroutine[Any, Any, None]) -> None:
        thread = get_event_loop_thread()
        if thread is None:
            raise RuntimeError("the AsyncIO middleware must come before Heartbeat")
        asyncio.run_coroutine_threadsafe(work, thread.loop).result(IN_LOOP_SECONDS)

    async def _begin(self, broker: _Heard) -> None:
        self._beating = asyncio.create_task(self._beat(broker))

    async def _end(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])

    async def _beat(self, broker: _Heard) -> None:
        while True:
            with suppress(redis.RedisError):  # a broker that is away is no news here
                await asyncio.to_thread(broker.be_heard)
            await asyncio.sleep(self._pause)
