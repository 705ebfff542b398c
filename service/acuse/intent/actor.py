"""The host's own actor that is told when an operation settles."""

import re
from typing import Final, Protocol

from acuse.errors import InvalidField

__all__ = ["OPERATION_QUEUES", "ActorLike", "actor_address", "check_own_queue"]

OPERATION_QUEUES: Final = "acuse."
"""Queues of this prefix carry operations, several to a message; any other carries messages of the host, one a row."""

_ADDRESS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*/[A-Za-z_][A-Za-z0-9._:-]*")
_MAX_ADDRESS: Final = 200


class ActorLike(Protocol):
    """What a Dramatiq actor has; the broker's library is not imported here."""

    @property
    def queue_name(self) -> str: ...

    @property
    def actor_name(self) -> str: ...


def check_own_queue(field: str, queue: str) -> str:
    """Return the name of a queue of the host's own. Raises `InvalidField` for one that carries operations."""
    if queue.startswith(OPERATION_QUEUES):
        reason = f"begins with {OPERATION_QUEUES!r}, and such a queue carries operations; give a queue of your own"
        raise InvalidField(field=field, reason=reason)
    return queue


def actor_address(on_settled: ActorLike | str, field: str = "on_settled") -> str:
    """`queue/actor`, of an actor or of a text in that form. Raises `InvalidField` that names `field`."""
    if isinstance(on_settled, str):
        address = on_settled
    else:
        try:
            address = f"{on_settled.queue_name}/{on_settled.actor_name}"
        except AttributeError:
            raise InvalidField(field=field, reason="must be a Dramatiq actor or a text 'queue/actor'") from None
    if len(address) > _MAX_ADDRESS or not _ADDRESS.fullmatch(address):
        raise InvalidField(
            field=field,
            reason=f"must be 'queue/actor' in letters, digits and ._- with at most {_MAX_ADDRESS} characters",
        )
    check_own_queue(field, address)
    return address
