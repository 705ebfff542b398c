"""The Dramatiq side of a worker: one actor, one queue per provider, and the engine's life tied to the worker's."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import dramatiq
import redis
from dramatiq.asyncio import get_event_loop_thread
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import AsyncIO, Middleware
from redis.backoff import NoBackoff
from redis.retry import Retry

from acuse.keepalive import socket_keepalive
from acuse_adapters.engine import Engine

__all__ = ["ACTOR", "EngineLife", "declare", "make_broker", "queues_of"]

ACTOR = "perform"

BOOT_POLL_SECONDS = 0.01

REDIS_SECONDS = 10
"""For an answer of Redis, and for a connection to it. Nothing that a worker asks waits in there, so one that takes longer has
gone without a word; without a bound the threads that fetch would wait for it for hours, and nobody would see it."""

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


class _Broker(RedisBroker):
    """Dramatiq's broker, without the one gap through which a message stays with a worker that does not know of it.

    A fetch whose reply is lost has moved messages to this worker. Asked again by the client itself, it would bring others, and
    those would be taken as in good hands for as long as this worker lives: so the client repeats nothing, and a consumer that
    starts again first puts back what this worker has fetched. What is in its hands then comes a second time, as any hint may.
    """

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> dramatiq.Consumer:
        """Return a consumer of a queue, after putting back what an earlier one had fetched."""
        try:
            if fetched := self.client.smembers(f"{self.namespace}:__acks__.{self.broker_id}.{queue_name}"):
                self.do_requeue(queue_name, *fetched)
        except redis.ConnectionError as error:
            raise ConnectionClosed(error) from None  # type: ignore[no-untyped-call]
        return super().consume(queue_name, prefetch, timeout)

    def _dispatch(self, command: str) -> Callable[..., Any]:
        """Return what asks Redis. No answer in time is a lost connection: Dramatiq knows what to do with that."""
        ask = super()._dispatch(command)  # type: ignore[no-untyped-call]

        def asked(*arguments: Any) -> Any:  # noqa: ANN401  # what the script takes and returns
            try:
                return ask(*arguments)
            except redis.TimeoutError as error:
                raise redis.ConnectionError(str(error)) from error

        return asked


def make_broker(url: str, namespace: str, life: EngineLife) -> RedisBroker:
    """Return Dramatiq's Redis broker with what a worker of ours needs, and nothing that repeats or drops messages by itself.

    No Retries (a message is a hint; the ledger says what comes next), no TimeLimit (every call has a total deadline), no
    AgeLimit (an old hint is as good as a new one).
    """
    client = redis.Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=REDIS_SECONDS,
        socket_connect_timeout=REDIS_SECONDS,
        socket_keepalive=True,  # a Redis that vanished would keep a consumer waiting for its answer
        socket_keepalive_options=socket_keepalive(),
    )
    broker: RedisBroker = _Broker(client=client, namespace=namespace, middleware=[AsyncIO(), life])  # type: ignore[no-untyped-call]
    return broker


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
