"""For the tests of a host: an outbox without servers, the behaviours of a provider, and the fixtures of a pytest plugin.

Nothing here is loaded by production code, and nothing before a test asks for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from acuse.testing.async_transaction_outbox import AsyncTransactionOutbox
    from acuse.testing.behaviour import (
        Behaviour,
        accepted,
        always,
        found_different,
        found_twice,
        hangs,
        key_conflict,
        lagging,
        locked_out,
        lost_reply,
        not_sent,
        rate_limited,
        refused,
        refused_for_key,
        refused_unheard,
        vanished,
    )
    from acuse.testing.memory_outbox import AsyncMemoryOutbox, MemoryOutbox
    from acuse.testing.message import HostMessage, Incident
    from acuse.testing.promises import ASSUMED
    from acuse.testing.session import AsyncFakeSession, FakeSession
    from acuse.testing.transaction_outbox import TransactionOutbox

__all__ = [
    "ASSUMED",
    "AsyncFakeSession",
    "AsyncMemoryOutbox",
    "AsyncTransactionOutbox",
    "Behaviour",
    "FakeSession",
    "HostMessage",
    "Incident",
    "MemoryOutbox",
    "TransactionOutbox",
    "accepted",
    "always",
    "found_different",
    "found_twice",
    "hangs",
    "key_conflict",
    "lagging",
    "locked_out",
    "lost_reply",
    "not_sent",
    "rate_limited",
    "refused",
    "refused_for_key",
    "refused_unheard",
    "vanished",
]

_HOMES: Final = {
    "async_transaction_outbox": ("AsyncTransactionOutbox",),
    "memory_outbox": ("AsyncMemoryOutbox", "MemoryOutbox"),
    "message": ("HostMessage", "Incident"),
    "promises": ("ASSUMED",),
    "session": ("AsyncFakeSession", "FakeSession"),
    "transaction_outbox": ("TransactionOutbox",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # else every wrong name would pass for an object

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'acuse.testing' has no attribute {name!r}")
        value = getattr(import_module(f"acuse.testing.{_HOME_OF.get(name, 'behaviour')}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
