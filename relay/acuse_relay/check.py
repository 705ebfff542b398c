"""What must be true of the broker, for `acuse doctor`. The relay checks the same when it starts."""

from collections.abc import Iterator

from acuse.errors import ConfigurationError
from acuse.settings import Settings
from acuse_relay.queue.port import QueueUnavailable
from acuse_relay.queue.redis import RedisQueue

__all__ = ["check"]


def check(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield level, subject and sentence for each thing seen (entry-point group `acuse.checks`)."""
    try:
        queue = RedisQueue.from_url(settings.redis_url, namespace=settings.redis_namespace)
    except ConfigurationError as error:
        yield "wrong", "redis", str(error)
        return
    try:
        seen = queue.server()
        yield "ok", "redis", f"{seen.product} {seen.version} answers"
        if seen.keeps_all:
            limit = "" if seen.limit else ", no limit"
            yield "ok", "redis", f"it drops nothing to make room (maxmemory-policy {seen.policy}{limit})"
        elif seen.keeps_queues:
            sentence = f"maxmemory-policy is {seen.policy}: queues stay, but what else expires in there may go; set noeviction"
            yield "note", "redis", sentence
        else:
            queue.check()  # it says what is wrong and what to do
    except QueueUnavailable as error:
        yield "wrong", "redis", f"{error}; nothing is lost meanwhile, commits go on and rows wait in the outbox"
    except ConfigurationError as error:
        yield "wrong", "redis", str(error)
    finally:
        queue.close()
