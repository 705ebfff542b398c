"""What one event leads to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from acuse.errors import ConfigurationError
from acuse.intent.action import Action
from acuse.intent.actor import ActorLike, actor_address
from acuse.intent.effect import DEFAULT_ACCOUNT, Effect
from acuse.intent.limits import MAX_ORDERING_KEY, check_moment, check_text, check_value

__all__ = ["Plan", "PlannedEffect"]

_MAX_NAME: Final = 100
_MAX_APPROVAL: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEffect:
    """One effect of a plan; also the handle by which later ones wait for it.

    ordinal: place in the plan, from 0; name: given by the route, steadier than the ordinal when routes change.
    after: ordinals of effects that must be confirmed first, all smaller than its own.
    ordering_key: as given, else as the action says. on_settled: `queue/actor`.
    """

    ordinal: int
    effect: Effect
    name: str | None = None
    after: tuple[int, ...] = ()
    approval: str | None = None
    ordering_key: str | None = None
    not_after: datetime | None = None
    on_settled: str | None = None
    value: Decimal | None = None
    distinct: bool = False

    @property
    def which(self) -> int | str:
        """Name or ordinal: what tells this effect from the others of its event (see `planned_key`)."""
        return self.ordinal if self.name is None else self.name


class Plan:
    """Collects the effects of one event, in order."""

    def __init__(self) -> None:
        self._effects: list[PlannedEffect] = []

    def effect(
        self,
        said: Action | Effect,
        *,
        after: PlannedEffect | Sequence[PlannedEffect] | None = None,
        account: str | None = None,
        approval: str | None = None,
        ordering_key: str | None = None,
        not_after: datetime | None = None,
        on_settled: ActorLike | str | None = None,
        name: str | None = None,
        value: Decimal | float | None = None,
        distinct: bool = False,
    ) -> PlannedEffect:
        """Add an effect; it waits until those in `after` are confirmed.

        Raises `InvalidField` and `InvalidPayload` for what the host said, `ConfigurationError` for a name used twice or an
        `after` of another plan.
        """
        effect = _untyped(said, account)
        planned = PlannedEffect(
            ordinal=len(self._effects),
            effect=effect,
            name=self._new_name(name),
            after=self._ordinals(after),
            approval=None if approval is None else check_text("approval", approval, _MAX_APPROVAL),
            ordering_key=_ordering_key(effect, ordering_key),
            not_after=None if not_after is None else check_moment("not_after", not_after),
            on_settled=None if on_settled is None else actor_address(on_settled),
            value=None if value is None else check_value(value),
            distinct=distinct,
        )
        self._effects.append(planned)
        return planned

    def __iter__(self) -> Iterator[PlannedEffect]:
        return iter(self._effects)

    def __len__(self) -> int:
        return len(self._effects)

    def _new_name(self, name: str | None) -> str | None:
        if name is None:
            return None
        check_text("name", name, _MAX_NAME)
        if any(planned.name == name for planned in self._effects):
            raise ConfigurationError(f"two effects of one event are called {name!a}; give each its own name")
        return name

    def _ordinals(self, after: PlannedEffect | Sequence[PlannedEffect] | None) -> tuple[int, ...]:
        handles = () if after is None else (after,) if isinstance(after, PlannedEffect) else tuple(after)
        for handle in handles:
            if not any(handle is planned for planned in self._effects):
                raise ConfigurationError("after= takes what plan.effect(…) returned earlier for the same event")
        return tuple(sorted({handle.ordinal for handle in handles}))


def _untyped(said: Action | Effect, account: str | None) -> Effect:
    if isinstance(said, Action):
        return said.effect(DEFAULT_ACCOUNT if account is None else account)
    if not isinstance(said, Effect):
        raise ConfigurationError(f"plan.effect takes an Action or an Effect, not {type(said).__name__}")
    if account is None or account == said.account:
        return said
    return Effect(said.action, said.target, said.payload, account, said.declared)


def _ordering_key(effect: Effect, given: str | None) -> str | None:
    return effect.ordering_key if given is None else check_text("ordering_key", given, MAX_ORDERING_KEY)
