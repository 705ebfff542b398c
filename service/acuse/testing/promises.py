"""Which retry contract each action is judged by in a test."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any, Final, Protocol

from acuse.errors import ConfigurationError
from acuse.protocol import Consistency, Lookup, Marker, Minutes, RetryContract, Seconds, team

__all__ = ["ASSUMED", "AdapterLike", "Contracts", "Promises"]

_ON: Final = date(2026, 11, 30)

ASSUMED: Final = RetryContract(
    version="assumed-1",
    verified_on=_ON,
    source="acuse.testing: what a test assumes of a provider of which nobody says more",
    deadline=Seconds(20),
    again_means="whatever it does, it does a second time",
    marker=Marker(where="the operation's id"),
    lookup=Lookup(
        by="the operation's id",
        consistency=Consistency.EVENTUAL,
        visible_within=team(Minutes(5), by="acuse.testing", on=_ON, because="long enough to be noticed"),
    ),
    max_in_flight=team(Minutes(2), by="acuse.testing", on=_ON, because="twice the longest gateway timeout that is common"),
)
"""No key, no upsert, and a look-up that lags by up to five minutes: a provider that makes code meet its doubts."""


class AdapterLike(Protocol):
    """An adapter, or its class: what it declares for each action."""

    @property
    def actions(self) -> Mapping[str, Any]: ...


Contracts = Mapping[str, RetryContract] | Iterable[AdapterLike | type]
"""Action → contract, or adapters (objects or classes), which know theirs."""


class Promises:
    """Contracts by action; `ASSUMED` for the others."""

    def __init__(self, contracts: Contracts | None = None) -> None:
        """Raises `ConfigurationError` for something that declares no contracts."""
        self._contracts = _by_action(contracts or {})

    def of(self, action: str) -> RetryContract:
        """The contract of an action."""
        return self._contracts.get(action, ASSUMED)

    def lag(self, action: str) -> timedelta:
        """How long an effect may stay unseen. Raises `ConfigurationError` where the contract says: not at all."""
        lookup = self.of(action).lookup
        if lookup is not None and lookup.consistency is Consistency.STRONG:
            raise ConfigurationError(
                f"lagging: the contract of {action} promises a strongly consistent look-up, which never lags; use lost_reply"
            )
        stated = None if lookup is None else lookup.visible_within
        return ASSUMED.lookup.visible_within.value if stated is None else stated.value  # type: ignore[union-attr]


def _by_action(contracts: Contracts) -> dict[str, RetryContract]:
    if isinstance(contracts, Mapping):
        return dict(contracts)
    found: dict[str, RetryContract] = {}
    for adapter in contracts:
        actions = getattr(adapter, "actions", None)
        if not isinstance(actions, Mapping):
            raise ConfigurationError(f"contracts: {adapter!a} is no adapter; give {{action: RetryContract}}, or adapters")
        found |= {name: declared.contract for name, declared in actions.items()}
    return found
