"""What must come of a strike: by the window that it hit and by what the provider promises. Everything else is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from acuse_adapters.faults.words import Contract, Window

__all__ = ["EXPECTED", "Expected", "expected"]


@dataclass(frozen=True, slots=True)
class Expected:
    """One right end: writes that arrived at the provider, objects there, and the operation's state."""

    calls: int
    objects: int
    state: str


_ONCE: Final = "1/1 confirmed"

_SENT_ALIVE: Final[Mapping[Contract, str]] = {
    Contract.KEYED: "2/1 confirmed",
    Contract.KEY_EXPIRED: "2/1 confirmed | 1/0 unknown",
    Contract.UPSERT_GUARDED: "2/1 confirmed",
    Contract.UPSERT: "2/1 confirmed",
    Contract.STRONG: "1/0 unknown",
    Contract.LAG_BOUND: "2/1 confirmed",
    Contract.LAG_UNBOUND: "1/0 unknown",
    Contract.NONE: "1/0 unknown",
}

# In the cells of the strong look-up somebody else changes the case at the strike: a change of ours is found by its marker, and
# where there is none, nothing is written over what that person did.
#
# calls/objects state; what is not listed is `1/1 confirmed`; `|` parts ends that are both right. Never more than one object.
EXPECTED: Final[Mapping[Window, Mapping[Contract, str]]] = {
    Window.BEFORE_DISPATCH: {},
    Window.KNOWN_UNSENT: {},
    Window.RECEIPT: {},
    Window.UNSENT_LATE: {},  # the late word resolves the doubt, also where nothing else could
    Window.PERHAPS_SENT: {
        Contract.KEY_EXPIRED: "0/0 unknown",
        Contract.STRONG: "0/0 unknown",
        Contract.LAG_UNBOUND: "0/0 unknown",
        Contract.NONE: "0/0 unknown",
    },
    Window.PERHAPS_SENT_ALIVE: {
        Contract.KEY_EXPIRED: "1/1 confirmed | 0/0 unknown",
        Contract.LAG_UNBOUND: "0/0 unknown",
        Contract.NONE: "0/0 unknown",
    },
    Window.SENT: {
        Contract.KEYED: "2/1 confirmed",
        Contract.KEY_EXPIRED: "1/0 unknown",
        Contract.UPSERT_GUARDED: "2/1 confirmed",
        Contract.UPSERT: "2/1 confirmed",
        Contract.STRONG: "1/0 unknown",
        Contract.LAG_BOUND: "2/1 confirmed",
        Contract.LAG_UNBOUND: "1/0 unknown",
        Contract.NONE: "1/0 unknown",
    },
    Window.SENT_ALIVE: _SENT_ALIVE,
    Window.OVERTAKEN: {**_SENT_ALIVE, Contract.STRONG: "2/0 unknown | 1/0 unknown"},  # the precondition refuses it
    Window.APPLIED: {
        Contract.KEYED: "2/1 confirmed",  # the key brings the first answer again
        Contract.KEY_EXPIRED: "1/1 unknown",
        Contract.NONE: "1/1 unknown",
    },
    Window.APPLIED_ALIVE: {
        Contract.KEYED: "2/1 confirmed",
        Contract.KEY_EXPIRED: "2/1 confirmed | 1/1 unknown",
        Contract.NONE: "1/1 unknown",
    },
    Window.HELD_LONG: {
        Contract.KEYED: "1/1 confirmed | 2/1 confirmed | 3/1 confirmed",  # 409 while the first one still runs
        Contract.KEY_EXPIRED: "1/1 confirmed | 2/1 confirmed | 1/1 unknown",
        Contract.NONE: "1/1 confirmed | 1/1 unknown",
    },
    Window.TOLD_LATE: {Contract.KEYED: "2/1 confirmed"},
    Window.REFUSED: dict.fromkeys(Contract, "1/0 rejected"),
    Window.REFUSED_LATE: {
        **_SENT_ALIVE,  # who took over was not refused
        Contract.KEY_EXPIRED: "2/1 confirmed | 1/0 rejected",
        Contract.STRONG: "1/0 rejected",
        Contract.LAG_UNBOUND: "1/0 rejected",
        Contract.NONE: "1/0 rejected",
    },
}


def expected(window: Window, contract: Contract) -> tuple[Expected, ...]:
    """Return the right ends."""
    return tuple(_read(one) for one in EXPECTED[window].get(contract, _ONCE).split(" | "))


def _read(said: str) -> Expected:
    counts, state = said.split(" ")
    calls, objects = counts.split("/")
    return Expected(int(calls), int(objects), state)
