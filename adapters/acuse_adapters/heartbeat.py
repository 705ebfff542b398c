"""A worker is heard of as long as its event loop runs, however long what it has fetched takes."""

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from typing import Protocol, runtime_checkable

import dramatiq
import redis
from dramatiq.asyncio import get_event_loop_thread
from dramatiq.middleware import Middleware

__all__ = ["Heartbeat"]


@runtime_checkable
class _Heard(Protocol):
    def be_heard(self) -> None: ...


class Heartbeat(Middleware):
    """Lets the worker say every `pause` that it lives.

    From the loop that does the work: where that hangs, nothing is heard, and what the worker has fetched goes to others.
    """

    def __init__(self, pause: timedelta) -> None:
        self._pause = pause.total_seconds()
        self._beating: Future[None] | None = None

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        """Begin."""
        thread = get_event_loop_thread()
        if thread is None:
            raise RuntimeError("the AsyncIO middleware must come before Heartbeat")
        if not isinstance(broker, _Heard):
            raise TypeError(f"{type(broker).__name__} cannot be heard of; Heartbeat is for WorkerBroker")
        self._beating = asyncio.run_coroutine_threadsafe(self._beat(broker), thread.loop)

    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        """End, after the last message."""
        if self._beating is not None:
            self._beating.cancel()

    async def _beat(self, broker: _Heard) -> None:
        while True:
            with suppress(redis.RedisError):  # a broker that is away is no news here
                await asyncio.to_thread(broker.be_heard)
            await asyncio.sleep(self._pause)
