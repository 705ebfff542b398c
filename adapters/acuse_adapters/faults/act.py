"""What is done to a site when its operation stands at its boundary."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final
from uuid import uuid4

import redis

from acuse_adapters.faults.site import Site, until

__all__ = ["DONE", "SERVER_ACTS", "Act", "empty", "fill"]


class Act(StrEnum):
    """What is done when the operation is there."""

    KILL = "kill"
    TERM = "term"
    CUT = "cut"
    STOP = "stop"
    RESTART_DATABASE = "restart the database"
    RESTART_REDIS = "restart Redis"
    WIPE_REDIS = "wipe Redis"
    FILL_REDIS = "fill Redis"
    DELIVER_AGAIN = "deliver again"
    FORGE = "forge"


SERVER_ACTS = frozenset({Act.RESTART_DATABASE, Act.RESTART_REDIS, Act.FILL_REDIS})
"""What hits everybody on a server, so that such cells run one by one on a pair of their own."""


def _again(site: Site) -> None:
    """The message comes once more, to another process, while the first stands still; that one says that it is taken."""
    name, _ = site.worker()
    until(lambda: site.works(name), f"{name} works")
    site.push()
    until(lambda: site.waiting_messages() == 0, "the second message is taken")


def _forge(site: Site) -> None:
    """Messages that nobody of ours wrote: of another ledger, of no operation, of no message."""
    site.push(ledger=uuid4().hex)
    site.push(operations=(f"op_{uuid4().hex}", "op_no", "'; drop table acuse.operation; --"))
    site.push_garbage()
    site.push(ledger="", operations=("confirmed",))


def fill(site: Site) -> None:
    site.redis.config_set("maxmemory", 1)


def empty(site: Site) -> None:
    site.redis.config_set("maxmemory", 0)


def _fill_a_while(site: Site) -> None:
    fill(site)
    try:
        until(lambda: _refuses(site), "Redis is full")
    finally:
        empty(site)


def _refuses(site: Site) -> bool:
    try:
        site.redis.set(f"{site.namespace}-probe", "x")
    except redis.exceptions.OutOfMemoryError:
        return True
    return False


DONE: Final[Mapping[Act, Callable[[Site], None]]] = {
    Act.RESTART_DATABASE: lambda site: site.servers.restart_database(),
    Act.RESTART_REDIS: lambda site: site.servers.restart_redis(),
    Act.WIPE_REDIS: lambda site: site.wipe_broker(),
    Act.FILL_REDIS: _fill_a_while,
    Act.DELIVER_AGAIN: _again,
    Act.FORGE: _forge,
}
