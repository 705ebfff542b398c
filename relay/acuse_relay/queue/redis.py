"""Redis or Valkey, under the very keys that Dramatiq's RedisBroker uses, so that its workers find the messages as their own.

`<namespace>:<queue>` is a list of message ids, `<namespace>:<queue>.msgs` a hash of id to message, which keeps a message from
push to acknowledgement; `<namespace>:__acks__.<worker>.<queue>` is what a worker has fetched, `<namespace>:__heartbeats__` when
each worker was last heard. Only the first two are written here. Source: dramatiq 2.2, brokers/redis/dispatch.lua.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeAlias
from uuid import UUID, uuid4

import dramatiq
import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from acuse.errors import ConfigurationError, InvalidField
from acuse.identifier import uuid_of
from acuse.keepalive import socket_keepalive
from acuse_relay.queue.port import PERFORM, Message, QueueUnavailable

__all__ = ["RedisQueue", "Server"]

_log = structlog.get_logger("acuse.relay")

CONNECT_SECONDS = 2.0
"""How long a connection may take to open; a batch holds row locks meanwhile."""

ANSWER_SECONDS = 5.0
"""How long an answer may take. Three of them are less than a batch may stand still in the database."""

WORKER_DEAD_AFTER_SECONDS = 60.0
"""Dramatiq's own default (heartbeat_timeout): from then on any worker may take over what this one had fetched."""

# Both scripts only read, so they work on a full or read-only server too. They are scripts because a message that is fetched
# between two reads, list first and acknowledgements next, or the other way round, would be seen twice or not at all.
#
# A body in the hash whose id is in no list and with no worker reaches nobody (somebody deleted a list by hand). It counts
# neither as depth, where it would fill the room for ever, nor as held, where its operations would never be handed over again.
_DEPTH = """
local workers = redis.call('zrange', KEYS[1] .. ':__heartbeats__', 0, -1)
local depths = {}
for q = 1, #ARGV do
  local depth = redis.call('llen', KEYS[1] .. ':' .. ARGV[q])
  for w = 1, #workers do
    depth = depth + redis.call('scard', KEYS[1] .. ':__acks__.' .. workers[w] .. '.' .. ARGV[q])
  end
  depths[q] = depth
end
return depths
"""
_HELD = """
local now = redis.call('time')
local heard_since = now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[1]
local workers = redis.call('zrangebyscore', KEYS[1] .. ':__heartbeats__', heard_since, '+inf')
local bodies = {}
local function collect(queue, ids)
  for i = 1, #ids do
    local body = redis.call('hget', KEYS[1] .. ':' .. queue .. '.msgs', ids[i])
    if body then bodies[#bodies + 1] = body end
  end
end
for q = 2, #ARGV do
  collect(ARGV[q], redis.call('lrange', KEYS[1] .. ':' .. ARGV[q], 0, -1))
  for w = 1, #workers do
    collect(ARGV[q], redis.call('smembers', KEYS[1] .. ':__acks__.' .. workers[w] .. '.' .. ARGV[q]))
  end
end
return bodies
"""


Field: TypeAlias = bytes | bytearray | memoryview | str | int | float


@dataclass(frozen=True, slots=True)
class Server:
    """A Redis or Valkey. `limit`: its maxmemory in bytes, 0 for none. `policy`: what it drops then, its maxmemory-policy."""

    product: str
    version: str
    limit: int
    policy: str

    @property
    def keeps_all(self) -> bool:
        """Whether it never drops a key to make room."""
        return not self.limit or self.policy == "noeviction"

    @property
    def keeps_queues(self) -> bool:
        """Whether it never drops a queue: keys of queues never expire, so `volatile-…` does not choose them."""
        return self.keeps_all or self.policy.startswith("volatile-")


class RedisQueue:
    """The queue port on a Redis client. `namespace`: that of the workers' RedisBroker.

    `worker_dead_after`, in seconds: what a worker fetched that was not heard of for so long is not counted as held. Give the
    `heartbeat_timeout` of the workers' broker if it is not Dramatiq's default.
    """

    def __init__(
        self, client: redis.Redis, *, namespace: str = "dramatiq", worker_dead_after: float = WORKER_DEAD_AFTER_SECONDS
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._worker_dead_after = worker_dead_after
        self._depth = client.register_script(_DEPTH)
        self._held = client.register_script(_HELD)

    @classmethod
    def from_url(cls, url: str, *, namespace: str = "dramatiq", worker_dead_after: float = WORKER_DEAD_AFTER_SECONDS) -> Self:
        """Return a queue for a URL (`redis://`, `rediss://`, `unix://`). Raises `ConfigurationError` for another one."""
        try:
            client = redis.Redis.from_url(
                url,
                socket_connect_timeout=CONNECT_SECONDS,
                socket_timeout=ANSWER_SECONDS,
                socket_keepalive=True,
                socket_keepalive_options=socket_keepalive(),
                # Once more at once, for a connection that the server closed while it was idle; what else fails is for the loops.
                retry=Retry(NoBackoff(), 1),
            )
        except ValueError:
            raise ConfigurationError("redis_url is no URL for Redis: give redis://user:password@host:port/number") from None
        return cls(client, namespace=namespace, worker_dead_after=worker_dead_after)

    def depth(self, queues: Collection[str]) -> Mapping[str, int]:
        """Say how many messages each queue has: waiting, or fetched by any worker, dead or alive, and not acknowledged."""
        if not queues:
            return {}
        with _translated():
            depths = self._depth(keys=[self._namespace], args=list(queues))
        return dict(zip(queues, depths, strict=True))

    def push(self, messages: Sequence[Message]) -> None:
        """Append the messages in one MULTI. Raises `QueueUnavailable`; then they are all in, all out, or some doubled later."""
        if not messages:
            return
        with _translated(), self._client.pipeline(transaction=True) as pipeline:
            for queue, bodies in _by_queue(messages).items():
                pipeline.hset(f"{self._namespace}:{queue}.msgs", mapping=bodies)
                pipeline.rpush(f"{self._namespace}:{queue}", *bodies)
            pipeline.execute()

    def held(self, queues: Collection[str]) -> set[UUID]:
        """Name the operations in messages that wait, or that a worker heard of lately has fetched."""
        if not queues:
            return set()
        # Heartbeats are of the workers' clocks. They are judged by the server's: ours may be any minutes off.
        silence = int(self._worker_dead_after * 1000)
        with _translated():
            bodies = self._held(keys=[self._namespace], args=[silence, *queues])
        return {operation for body in bodies for operation in _operations(body)}

    def check(self) -> None:
        """Raise `ConfigurationError` if Redis may evict queue keys, `QueueUnavailable` if it is away. Warn about others."""
        server = self.server()
        if server.keeps_all:
            return
        if server.keeps_queues:
            _log.warning("queue.may_evict", maxmemory_policy=server.policy, advice="set maxmemory-policy noeviction")
            return
        raise ConfigurationError(
            f"Redis may drop queues when it is full: maxmemory-policy is {server.policy}; "
            "set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in its configuration file)"
        )

    def server(self) -> Server:
        """Say what answers there, and what it drops when it is full. Raises `QueueUnavailable`."""
        with _translated():
            about = self._client.info("server", "memory")
        product = "valkey" if "valkey_version" in about else "redis"
        return Server(
            product=product.capitalize(),
            version=str(about.get(f"{product}_version", "of an unknown version")),
            limit=int(about.get("maxmemory", 0)),
            policy=str(about.get("maxmemory_policy", "noeviction")),
        )

    def close(self) -> None:
        """Close the connections of the client."""
        self._client.close()


def _by_queue(messages: Iterable[Message]) -> dict[str, dict[Field, Field]]:
    """Bodies by queue and id. Each message gets a fresh id in Redis: with a used one a second fetch finds nothing and leaks."""
    bodies: dict[str, dict[Field, Field]] = {}
    for message in messages:
        redis_id = str(uuid4())
        bodies.setdefault(message.queue, {})[redis_id] = _encoded(message, redis_id)
    return bodies


def _encoded(message: Message, redis_id: str) -> bytes:
    """The bytes that `RedisBroker.enqueue` would write, by Dramatiq's own class and encoder."""
    return dramatiq.Message[Any](
        queue_name=message.queue,
        actor_name=message.actor,
        args=message.args,
        kwargs=dict(message.kwargs),
        options={**message.options, "redis_message_id": redis_id},
        message_id=message.message_id,
    ).encode()


def _operations(body: bytes) -> Iterator[UUID]:
    """The operations that a message carries; none for a message of somebody else's or one that cannot be read."""
    with suppress(ValueError, LookupError, TypeError, RecursionError, InvalidField):
        fields = json.loads(body)
        if fields["actor_name"] == PERFORM:
            for text in fields["args"][1]:
                yield uuid_of(str(text), prefix="op", field="operation_id")


_REASONS: tuple[tuple[type[redis.RedisError], str], ...] = (
    (redis.exceptions.ReadOnlyError, "it is a read-only replica (READONLY)"),
    (redis.exceptions.OutOfMemoryError, "it is out of memory (OOM)"),
    (redis.exceptions.BusyLoadingError, "it is loading its data (LOADING)"),
    (redis.exceptions.AuthenticationError, "it refuses the credentials of redis_url"),
    (redis.exceptions.NoPermissionError, "the user of redis_url may not run what Dramatiq needs (NOPERM)"),
    (redis.exceptions.TimeoutError, "it does not answer in time"),
)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        # Without its cause: redis-py quotes the command that failed, and with it the message, in the error's text.
        raise QueueUnavailable(_reason(error)) from None


def _reason(error: redis.RedisError) -> str:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    if isinstance(error, redis.ConnectionError):
        return f"no connection ({error})"
    code = str(error).split(" ", 1)[0]
    return f"it refuses ({code if code.isupper() else type(error).__name__})"
