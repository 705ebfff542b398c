"""What is done to a site when its operation stands at its boundary."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final
from uuid import uuid4

import redis

from acuse_adapters.faults.site import Site
from acuse_adapters.faults.stuck import until

__all__ = ["DONE", "SERVER_ACTS", "Act", "deliver_again", "empty", "fill"]


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


def deliver_again(site: Site) -> None:
    """Deliver the message once more, and wait until that is dealt with. It names the dependant too, if there is one.

    On the queue of the first one, of which a process that stands still with it in its hands takes no second.
    """
    again = site.broker.push(site.ledger_id, site.operations, in_doubt=site.row().status == "unknown")
    until(lambda: not site.broker.holds(again), "the second message is dealt with")


def _forge(site: Site) -> None:
    """Messages that nobody of ours wrote: of another ledger, of no operation, of no message."""
    site.broker.push(uuid4().hex, site.operations[:1])
    site.broker.push(site.ledger_id, (f"op_{uuid4().hex}", "op_no", "'; drop table acuse.operation; --"))
    site.broker.push_garbage()
    site.broker.push(site.ledger_id, ("confirmed",))


def fill(site: Site) -> None:
    site.broker.client.config_set("maxmemory", 1)


def empty(site: Site) -> None:
    site.broker.client.config_set("maxmemory", 0)


def _fill_a_while(site: Site) -> None:
    fill(site)
    try:
        until(lambda: _refuses(site), "Redis is full")
    finally:
        empty(site)


def _refuses(site: Site) -> bool:
    try:
        site.broker.client.set(f"{site.broker.namespace}-probe", "x")
    except redis.exceptions.OutOfMemoryError:
        return True
    return False


DONE: Final[Mapping[Act, Callable[[Site], None]]] = {
    Act.RESTART_DATABASE: lambda site: site.servers.restart_database(),
    Act.RESTART_REDIS: lambda site: site.servers.restart_redis(),
    Act.WIPE_REDIS: lambda site: site.broker.wipe(),
    Act.FILL_REDIS: _fill_a_while,
    Act.FORGE: _forge,
}
