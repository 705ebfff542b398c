"""The Dramatiq side of a worker: one actor, one queue per provider, and the engine's life tied to the worker's."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import dramatiq
from dramatiq.asyncio import get_event_loop_thread
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Middleware

from acuse_adapters.engine import Engine

__all__ = ["ACTOR", "EngineLife", "declare", "queues_of"]

ACTOR = "perform"

BOOT_POLL_SECONDS = 0.01

CLOSE_SECONDS = 15
"""Beyond the grace time: outcomes are saved and adapters closed, each with a limit of its own below this."""

BOOT_SECONDS = 30
"""How long the engine may take to open its adapters and read the schema version before a worker gives up."""


def queues_of(provider: str) -> tuple[str, str]:
    """Return the queues on which operations of a provider travel: new ones, and those in doubt.

    Behind a backlog of new ones, the windows of the keys of those in doubt would run out.
    """
    return f"acuse.{provider}", f"acuse.{provider}.doubt"


class EngineLife(Middleware):
    """Builds the engine in the worker's event loop at boot, and ends it before the worker's threads are stopped.

    `build` runs in that loop. At shutdown nothing new starts; what is in the air ends within `grace` seconds or is marked.
    """

    def __init__(self, build: Callable[[], Awaitable[Engine]], close: Callable[[], Awaitable[None]], grace: float) -> None:
        self._build = build
        self._close = close
        self._grace = grace
        self.engine: Engine | None = None
        self.failure: Exception | None = None

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        """Open the engine. Dramatiq's threads may hold messages already: `perform` waits for it.

        A failure is kept: Dramatiq logs what a middleware raises and goes on, and a worker without an engine must not.
        """
        try:
            self.engine = self._in_loop(self._build(), BOOT_SECONDS)
        except Exception as error:
            self.failure = error
            raise

    def before_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        """Stop the engine before the threads: they wait for what is in the air."""
        for consumer in worker.consumers.values():
            _fetch_no_more(consumer)
        if self.engine is not None:
            self._in_loop(self.engine.stop(self._grace), self._grace + CLOSE_SECONDS)

    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        """Close what the engine stood on, after the last message."""
        self._in_loop(self._close(), CLOSE_SECONDS)

    @staticmethod
    def _in_loop(work: Awaitable[Any], seconds: float) -> Any:  # noqa: ANN401  # whatever the work returns
        thread = get_event_loop_thread()
        if thread is None:
            raise RuntimeError("the AsyncIO middleware must come before EngineLife")

        async def run() -> Any:  # noqa: ANN401
            return await work

        return asyncio.run_coroutine_threadsafe(run(), thread.loop).result(timeout=seconds)


def _fetch_no_more(consumer: Any) -> None:  # noqa: ANN401  # Dramatiq's thread; what we set is not a part of its types
    # What is fetched during the grace time would go back to the outbox, from there to the broker and to us, round and round.
    # Not `pause`: a paused consumer sleeps for seconds before it ends.
    consumer.prefetch = 0
    if consumer.consumer is not None:
        consumer.consumer.prefetch = 0


def declare(broker: RedisBroker, life: EngineLife, providers: Iterable[str]) -> None:
    """Declare the actor, and the queues of each provider."""

    async def perform(ledger: str, operations: list[str]) -> None:
        engine = life.engine
        while engine is None:  # a message that was fetched while the engine is being opened
            if life.failure is not None:
                raise RuntimeError("the engine could not be opened") from life.failure
            await asyncio.sleep(BOOT_POLL_SECONDS)
            engine = life.engine
        await engine.perform(ledger, operations)

    names = [name for provider in providers for name in queues_of(provider)]
    dramatiq.actor(actor_name=ACTOR, queue_name=names[0], broker=broker)(perform)
    for name in names[1:]:
        broker.declare_queue(name)
