"""The actions of the machine, one for each kind of promise that a provider makes.

Time passes in whole ticks, and no duration ends shortly after one: so what is over does not depend on how fast the machine is,
as long as the steps between two ticks take less than half a minute.
"""

from datetime import date, timedelta

from acuse.protocol import Consistency, Key, Lookup, Marker, NaturalUpsert, Replays, RetryContract, vendor

__all__ = ["ACTIONS", "CONTRACTS", "LEASE", "SHORT_LEASE", "TICK"]

TICK = timedelta(seconds=110)
"""No wait of ours is a whole number of them."""

LEASE = timedelta(seconds=250)
"""Long enough for a dispatch until one tick has passed, over after three."""

SHORT_LEASE = timedelta(seconds=20)
"""Shorter than any deadline."""

_DEADLINE = timedelta(seconds=40)
_IN_FLIGHT = vendor(timedelta(seconds=120))
_MARKER = Marker(where="marker")
_STRONG = Lookup(by="marker", consistency=Consistency.STRONG)


def _key(replays: Replays, on_concurrent: int | None) -> Key:
    # Usable until 480 s after the first send, four ticks; the provider may forget it 640 s after it came, five.
    return Key(
        header="Idempotency-Key",
        max_length=64,
        retention=vendor(timedelta(seconds=690)),
        margin=timedelta(seconds=50),
        replays=replays,
        on_concurrent=on_concurrent,
    )


def _contract(
    *,
    key: Key | None = None,
    lookup: Lookup | None = None,
    upsert: NaturalUpsert | None = None,
    bounded: bool = True,
    covering: bool = False,
) -> RetryContract:
    return RetryContract(
        version="machine",
        verified_on=date(2026, 1, 1),
        source="the machine",
        deadline=_DEADLINE,
        again_means="it happens a second time",
        key=key,
        natural_upsert=upsert,
        lookup=lookup,
        marker=_MARKER if lookup is not None else None,
        max_in_flight=_IN_FLIGHT if bounded else None,
        refused=frozenset({402, 412, 422}),
        refusals_cover_key=frozenset({402}) if covering else frozenset(),
    )


CONTRACTS: dict[str, RetryContract] = {
    "crm.close.v1": _contract(key=_key(Replays.FIRST_ANSWER, 409), lookup=_STRONG, covering=True),
    "crm.note.v1": _contract(key=_key(Replays.SUCCESS_ONLY, None)),
    "crm.call.v1": _contract(key=_key(Replays.SUCCESS_ONLY, 409), lookup=_STRONG),
    "crm.set.v1": _contract(upsert=NaturalUpsert(by="case", precondition="If-Match"), lookup=_STRONG),
    "desk.open.v1": _contract(lookup=Lookup(by="marker", consistency=Consistency.EVENTUAL, visible_within=_IN_FLIGHT)),
    "desk.ask.v1": _contract(lookup=Lookup(by="marker", consistency=Consistency.EVENTUAL), bounded=False),
    "mail.send.v1": _contract(bounded=False),
}
ACTIONS = tuple(CONTRACTS)
