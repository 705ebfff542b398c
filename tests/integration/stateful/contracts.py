"""The actions of the machine, one for each kind of promise that a provider makes.

Every duration ends a little before a whole tick, and time passes in whole ticks: so what is over does not depend on how fast the
machine is.
"""

from datetime import date, timedelta

from acuse.protocol import Consistency, Key, Lookup, Marker, NaturalUpsert, Replays, RetryContract, vendor

__all__ = ["ACTIONS", "CONTRACTS", "LEASE", "SHORT_LEASE", "TICK"]

TICK = timedelta(seconds=11)
"""No wait of ours is a whole number of them."""

LEASE = timedelta(seconds=28)
"""Long enough for a dispatch until one tick has passed."""

SHORT_LEASE = timedelta(seconds=5)
"""Shorter than any deadline."""

_ALMOST = timedelta(seconds=9)  # a tick
_MARKER = Marker(where="marker")
_STRONG = Lookup(by="marker", consistency=Consistency.STRONG)


def _key(replays: Replays, on_concurrent: int | None) -> Key:
    # Usable until 52 s after the first send; the provider may forget it 70 s after it came.
    return Key(
        header="Idempotency-Key",
        max_length=64,
        retention=vendor(timedelta(seconds=72)),
        margin=timedelta(seconds=2),
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
        deadline=_ALMOST,
        again_means="it happens a second time",
        key=key,
        natural_upsert=upsert,
        lookup=lookup,
        marker=_MARKER if lookup is not None else None,
        max_in_flight=vendor(_ALMOST) if bounded else None,
        refused=frozenset({402, 412, 422}),
        refusals_cover_key=frozenset({402}) if covering else frozenset(),
    )


CONTRACTS: dict[str, RetryContract] = {
    "crm.close.v1": _contract(key=_key(Replays.FIRST_ANSWER, 409), lookup=_STRONG, covering=True),
    "crm.note.v1": _contract(key=_key(Replays.SUCCESS_ONLY, None)),
    "crm.call.v1": _contract(key=_key(Replays.SUCCESS_ONLY, 409), lookup=_STRONG),
    "crm.set.v1": _contract(upsert=NaturalUpsert(by="case", precondition="If-Match"), lookup=_STRONG),
    "desk.open.v1": _contract(lookup=Lookup(by="marker", consistency=Consistency.EVENTUAL, visible_within=vendor(_ALMOST))),
    "desk.ask.v1": _contract(lookup=Lookup(by="marker", consistency=Consistency.EVENTUAL), bounded=False),
    "mail.send.v1": _contract(bounded=False),
}
ACTIONS = tuple(CONTRACTS)
