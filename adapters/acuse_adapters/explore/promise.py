"""The actions of the explorer, one for each kind of promise that a provider makes."""

from datetime import date
from typing import Any, Final

from acuse.intent import Action
from acuse.protocol import Consistency, Key, Lookup, Marker, NaturalUpsert, Replays, RetryContract, Seconds, vendor

__all__ = ["CONTRACTS", "KINDS", "LEASE_SECONDS", "Blind", "Keyed", "Lagging", "Strong", "Upsert"]

LEASE_SECONDS: Final = 60

_FLIGHT: Final = vendor(Seconds(30))
_MARKER: Final = Marker(where="marker")


class _Thing(Action):
    thing: str
    text: str = "as agreed"


class Keyed(_Thing, name="shop.keyed.v1", target="thing"):
    """Its provider knows a key, and forgets it."""


class Upsert(_Thing, name="shop.upsert.v1", target="thing"):
    """It overwrites a thing that others write to as well, guarded by the version that it saw."""


class Strong(_Thing, name="shop.strong.v1", target="thing"):
    """What it made can be looked up at once."""


class Lagging(_Thing, name="shop.lagging.v1", target="thing"):
    """What it made can be looked up after a while."""


class Blind(_Thing, name="shop.blind.v1", target="thing"):
    """Nobody promises anything."""


KINDS: Final[tuple[type[_Thing], ...]] = (Keyed, Upsert, Strong, Lagging, Blind)


def _contract(**promises: Any) -> RetryContract:  # noqa: ANN401  # the fields of a contract
    return RetryContract(
        version="explore-1",
        verified_on=date(2026, 6, 1),
        source="the explorer's own provider",
        deadline=Seconds(10),
        again_means="it happens a second time",
        **promises,
    )


CONTRACTS: Final[dict[str, RetryContract]] = {
    # Usable for 180 s after the first send.
    "shop.keyed.v1": _contract(
        key=Key(
            header="Idempotency-Key",
            max_length=64,
            retention=vendor(Seconds(240)),
            margin=Seconds(20),
            replays=Replays.FIRST_ANSWER,
            on_concurrent=409,
        ),
        max_in_flight=_FLIGHT,
    ),
    "shop.upsert.v1": _contract(
        natural_upsert=NaturalUpsert(by="thing", precondition="If-Match"),
        marker=_MARKER,
        lookup=Lookup(by="marker", consistency=Consistency.STRONG),
        max_in_flight=_FLIGHT,
    ),
    "shop.strong.v1": _contract(
        marker=_MARKER, lookup=Lookup(by="marker", consistency=Consistency.STRONG), max_in_flight=_FLIGHT
    ),
    "shop.lagging.v1": _contract(
        marker=_MARKER,
        lookup=Lookup(by="marker", consistency=Consistency.EVENTUAL, visible_within=vendor(Seconds(60))),
        max_in_flight=_FLIGHT,
    ),
    "shop.blind.v1": _contract(),
}
