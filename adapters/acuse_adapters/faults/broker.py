"""What the broker holds of one cell's ledger, and what anybody could put there."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import dramatiq
import redis

from acuse_adapters.actors import ACTOR

__all__ = ["Broker"]


class Broker:
    """One namespace of a Redis. `queue`: that of new operations of the cell's provider."""

    def __init__(self, url: str, namespace: str, queue: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.namespace = namespace
        self.queue = queue

    def push(self, ledger: str, operations: Sequence[str], *, in_doubt: bool = False) -> str:
        """Deliver a message (once more, or a forged one) and return its id. in_doubt: on the queue of those in doubt."""
        identity, queue = uuid4().hex, f"{self.queue}.doubt" if in_doubt else self.queue
        message: dramatiq.Message[Any] = dramatiq.Message(
            queue_name=queue,
            actor_name=ACTOR,
            args=(ledger, list(operations)),
            kwargs={},
            options={"redis_message_id": identity},
            message_id=identity,
        )
        self._put(queue, identity, message.encode())
        return identity

    def push_garbage(self) -> None:
        """Deliver a message that is none."""
        self._put(self.queue, uuid4().hex, b'{"not": "a message"')

    def wipe(self) -> None:
        """Delete everything that is held of this ledger."""
        if keys := list(self.client.scan_iter(f"{self.namespace}*")):
            self.client.delete(*keys)

    def close(self) -> None:
        """Delete everything, and hang up."""
        with suppress(redis.RedisError):
            self.wipe()
        self.client.close()

    def waiting(self) -> int:
        """Count messages that nobody has fetched."""
        return int(self.client.llen(f"{self.namespace}:{self.queue}"))

    def holds(self, identity: str) -> bool:
        """Whether a message waits or is in somebody's hands."""
        return any(
            self.client.hexists(f"{self.namespace}:{queue}.msgs", identity) for queue in (self.queue, f"{self.queue}.doubt")
        )

    def told(self, actor: str) -> str | None:
        """Return the state that the latest word to a host's actor (`queue/name`) carries; None before the first."""
        bodies = self.client.hvals(f"{self.namespace}:{actor.partition('/')[0]}.msgs")
        said = [json.loads(body)["kwargs"] for body in bodies]
        return str(max(said, key=lambda word: word["version"])["state"]) if said else None

    def _put(self, queue: str, identity: str, body: bytes) -> None:
        self.client.hset(f"{self.namespace}:{queue}.msgs", identity, body)
        self.client.rpush(f"{self.namespace}:{queue}", identity)
