"""Dramatiq's Redis broker as a worker of ours needs it: nothing stays with a worker that is dead, or that cannot read it."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import dramatiq
import redis
import structlog
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import current_millis
from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import AsyncIO, Middleware
from redis.backoff import NoBackoff
from redis.retry import Retry

from acuse.keepalive import socket_keepalive
from acuse_adapters.heartbeat import Heartbeat

__all__ = ["WorkerBroker", "make_broker"]

_log = structlog.get_logger(__name__)

REDIS_SECONDS = 10
"""For an answer of Redis, and for a connection to it. Nothing that a worker asks waits in there, so one that takes longer has
gone without a word; without a bound the threads that fetch would wait for it for hours, and nobody would see it."""

BEATS: Final = 4
"""How often a worker says that it lives in the time after which it is taken for dead."""

MAINTENANCE_CHANCE: Final = 10_000
"""In a million fetches, those that look for the messages of dead workers. An idle worker fetches tens of times a second from each
queue, a busy one when it has room: Dramatiq's thousand would add minutes."""


class WorkerBroker(RedisBroker):
    """Dramatiq's broker, without the gaps through which a message stays with a worker that does not know of it.

    A fetch whose reply is lost has moved messages to this worker. Asked again by the client itself, it would bring others, and
    those would be taken as in good hands for as long as this worker lives: so the client repeats nothing, and a consumer that
    starts again first puts back what this worker has fetched. What is in its hands then comes a second time, as any hint may.

    What nobody can read would end the consumer, and again each time it is fetched: it is thrown away when it comes.
    """

    def close(self) -> None:
        """Close its connections, which Dramatiq leaves to the garbage collector."""
        self.client.close()

    def be_heard(self) -> None:
        """Say that this worker lives. Dramatiq does so only when it fetches or acknowledges."""
        self.client.zadd(f"{self.namespace}:__heartbeats__", {self.broker_id: current_millis()})

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
                answer = ask(*arguments)
                return self._readable(arguments[0], answer) if command == "fetch" else answer
            except redis.TimeoutError as error:
                raise redis.ConnectionError(str(error)) from error

        return asked

    def _readable(self, queue_name: str, fetched: Sequence[bytes | None]) -> list[bytes]:
        """Return what can be read, and drop the rest from the broker: its ids are found by their bodies."""
        good = [body for body in fetched if body is not None and _is_readable(body)]
        if len(good) < len(fetched):
            acks = f"{self.namespace}:__acks__.{self.broker_id}.{queue_name}"
            for identity in self.client.smembers(acks):
                body: Any = self.client.hget(f"{self.namespace}:{queue_name}.msgs", identity)
                if body is None or not _is_readable(body):
                    self.do_ack(queue_name, identity)
            _log.warning("messages_unreadable", queue=queue_name, messages=len(fetched) - len(good))
        return good


def _is_readable(body: bytes) -> bool:
    try:
        message = dramatiq.Message.decode(body)
    except Exception:  # noqa: BLE001  # anybody may have written anything
        return False
    return isinstance(message.options.get("redis_message_id"), str)


def make_broker(url: str, namespace: str, life: Middleware, dead_after: timedelta) -> WorkerBroker:
    """Return Dramatiq's Redis broker with what a worker of ours needs, and nothing that repeats or drops messages by itself.

    No Retries (a message is a hint; the ledger says what comes next), no TimeLimit (every call has a total deadline), no
    AgeLimit (an old hint is as good as a new one). What a worker fetched that was not heard of for `dead_after` goes to others.
    """
    client = redis.Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=REDIS_SECONDS,
        socket_connect_timeout=REDIS_SECONDS,
        socket_keepalive=True,  # a Redis that vanished would keep a consumer waiting for its answer
        socket_keepalive_options=socket_keepalive(),
    )
    return WorkerBroker(  # type: ignore[no-untyped-call]
        client=client,
        namespace=namespace,
        middleware=[AsyncIO(), Heartbeat(dead_after / BEATS), life],
        heartbeat_timeout=int(dead_after.total_seconds() * 1000),
        maintenance_chance=MAINTENANCE_CHANCE,
    )
