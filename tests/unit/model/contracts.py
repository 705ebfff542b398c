"""The kinds of contract that the model explores, small enough that every window opens and closes within a few ticks."""

from datetime import date

from acuse.protocol import Consistency, Key, Lookup, Marker, NaturalUpsert, Replays, RetryContract, vendor
from model.world import TICK

__all__ = ["contract", "key", "lagging", "strong", "upsert"]


def key(*, replays: Replays = Replays.SUCCESS_ONLY, on_concurrent: int | None = 409, retention: int = 5) -> Key:
    """Return a key that is remembered for `retention` ticks, less one of margin."""
    return Key(
        header="Idempotency-Key",
        max_length=64,
        retention=vendor(retention * TICK),
        margin=TICK,
        replays=replays,
        on_concurrent=on_concurrent,
    )


def strong() -> Lookup:
    """Return a look-up that sees everything that was applied before it started."""
    return Lookup(by="marker", consistency=Consistency.STRONG)


def lagging(bound: int | None = None) -> Lookup:
    """Return a look-up that lags by up to `bound` ticks, or by nobody knows how much."""
    within = None if bound is None else vendor(bound * TICK)
    return Lookup(by="marker", consistency=Consistency.EVENTUAL, visible_within=within)


def upsert(precondition: str | None = None) -> NaturalUpsert:
    """Return a natural upsert, guarded by the provider or not."""
    return NaturalUpsert(by="case", precondition=precondition)


def contract(
    *,
    key: Key | None = None,
    upsert: NaturalUpsert | None = None,
    lookup: Lookup | None = None,
    in_flight: int | None = 1,
    covering: bool = False,
) -> RetryContract:
    """Return a contract with a deadline of one tick; `covering`: its refusal speaks for the whole key."""
    return RetryContract(
        version="model",
        verified_on=date(2026, 1, 1),
        source="the model",
        deadline=TICK,
        again_means="it happens a second time",
        key=key,
        natural_upsert=upsert,
        lookup=lookup,
        marker=None if lookup is None else Marker(where="marker"),
        max_in_flight=None if in_flight is None else vendor(in_flight * TICK),
        refused=frozenset({402, 422}),
        refusals_cover_key=frozenset({402}) if covering else frozenset(),
    )
