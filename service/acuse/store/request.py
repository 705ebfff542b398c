"""The request to `acuse.stage`, built out of what the host says. Pure: all drivers share it."""

import dataclasses
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias, Union

from acuse.errors import InvalidField
from acuse.identifier import uuid_of
from acuse.intent import (
    MAX_FLOW_VERSION,
    MAX_TENANT,
    MAX_WORKFLOW,
    Action,
    ActionCatalog,
    ActorLike,
    Effect,
    Event,
    Plan,
    PlannedEffect,
    Routes,
    canonical,
    check_text,
    effect_key,
    event_key,
    payload_of,
    planned_key,
)
from acuse.store.staged import Staged

__all__ = ["Needed", "Request", "Setting", "Wish", "effect_of", "publishing", "staging", "tenant_of"]

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_LARGEST_VALUE: Final = Decimal(10) ** 16  # the column is numeric(20, 4)

Needed: TypeAlias = Union[str, Staged, "Wish"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What one request says of all its items. trace: a W3C `traceparent`.

    Raises `InvalidField`.
    """

    tenant: str
    workflow: str | None = None
    flow_version: str | None = None
    trace: str | None = None

    def __post_init__(self) -> None:
        tenant_of(self.tenant)
        if self.workflow is not None:
            check_text("workflow", self.workflow, MAX_WORKFLOW)
        if self.flow_version is not None:
            check_text("flow_version", self.flow_version, MAX_FLOW_VERSION)
        if self.trace is not None and not (isinstance(self.trace, str) and _TRACEPARENT.fullmatch(self.trace)):
            raise InvalidField(field="trace", reason="must be a W3C traceparent, 00-<32 hex>-<16 hex>-<2 hex>, in lower case")


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """One call of `stage`, as a value, for `stage_many`.

    call: the stored id of the tool call. effect_key: the host's own key, where the action declares no identity.
    after: operations (ids, or what `stage` returned) or earlier wishes of the same list that must be confirmed first.
    succeeds: a rejected operation that is taken up again. compensates: the operation that this one undoes.
    on_settled: a Dramatiq actor, or `queue/actor`, that is told how it ended. distinct: a repetition on purpose.
    """

    said: Action | Effect
    call: str | None = None
    effect_key: str | None = None
    approval: str | None = None
    after: Needed | Sequence[Needed] = ()
    ordering_key: str | None = None
    succeeds: str | Staged | None = None
    compensates: str | Staged | None = None
    not_after: datetime | None = None
    on_settled: ActorLike | str | None = None
    value: Decimal | float | None = None
    distinct: bool = False
    account: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """JSON for the function, and the bodies in it, to compare with what is stored when they conflict."""

    text: str
    bodies: tuple[bytes, ...]
    accounts: tuple[str, ...]
    event_body: bytes | None = None


def tenant_of(tenant: str) -> str:
    """Return `tenant` unchanged, or raise `InvalidField`."""
    return check_text("tenant", tenant, MAX_TENANT)


def effect_of(said: Action | Effect, catalog: ActionCatalog | None, account: str | None = None) -> Effect:
    """The untyped form, validated by the catalog's class of the action if there is a catalog.

    Raises `UnknownAction`, `InvalidField`, `InvalidPayload`, and `TypeError` for something else than an action or effect.
    """
    if not isinstance(said, Action | Effect):
        raise TypeError(f"expected an Action or an Effect, got {type(said).__module__}.{type(said).__qualname__}")
    [planned] = _planned(said, account)
    return planned.effect if catalog is None else _validated(planned.effect, said, catalog)


def staging(wishes: Sequence[Wish], setting: Setting, catalog: ActionCatalog | None) -> Request:
    """The request that stages `wishes`. Raises what intake raises; see `Outbox.stage`."""
    items = [_wished(wish, setting, catalog, wishes[:at]) for at, wish in enumerate(wishes)]
    return _request(setting, items)


def publishing(event: Event, setting: Setting, routes: Routes, catalog: ActionCatalog | None, key: str | None) -> Request:
    """The request that publishes `event` with the operations of its routes. Raises what intake and the routes raise."""
    name, known = event.declared.name, event_key(event, setting.workflow, key)
    # An event without a key is an occurrence of its own, and so are its effects.
    occurrence = f"{name} {known or secrets.token_hex(16)}"
    items = [_routed(planned, setting, catalog, occurrence) for planned in routes.plan(event)]
    body = canonical(payload_of(event))
    return _request(setting, items, {"name": name, "key": known, "body": body.decode()}, body)


def _wished(wish: Wish, setting: Setting, catalog: ActionCatalog | None, earlier: Sequence[Wish]) -> dict[str, Any]:
    effect = effect_of(wish.said, catalog, wish.account)
    [planned] = _planned(
        effect,
        None,
        approval=wish.approval,
        ordering_key=wish.ordering_key,
        not_after=wish.not_after,
        on_settled=wish.on_settled,
        value=wish.value,
        distinct=wish.distinct,
    )
    if wish.succeeds is not None and wish.effect_key is not None:
        raise InvalidField(
            field="effect_key", reason="leave it out beside succeeds: the key is that of the operation taken up again"
        )
    key = None
    if wish.succeeds is None:
        key = effect_key(effect, workflow=setting.workflow, call=wish.call, given=wish.effect_key)
    return {
        **_item(planned, key),
        "call": wish.call,
        "succeeds": _operation("succeeds", wish.succeeds),
        "compensates": _operation("compensates", wish.compensates),
        "after": [_needed(needed, earlier) for needed in _several(wish.after)],
    }


def _routed(planned: PlannedEffect, setting: Setting, catalog: ActionCatalog | None, occurrence: str) -> dict[str, Any]:
    if catalog is not None:
        effect = _validated(planned.effect, planned.effect, catalog)
        planned = dataclasses.replace(planned, effect=effect, ordering_key=planned.ordering_key or effect.ordering_key)
    derived = planned_key(occurrence, planned.effect.action, planned.which)
    key = effect_key(planned.effect, workflow=setting.workflow, planned=derived)
    return {**_item(planned, key), "after": [{"ref": ordinal} for ordinal in planned.after]}


def _planned(said: Action | Effect, account: str | None, **options: Any) -> Plan:  # noqa: ANN401 - of Plan.effect, which checks them
    # By way of a plan, so that one place says what may stand beside an effect.
    plan = Plan()
    plan.effect(said, account=account, **options)
    return plan


def _validated(effect: Effect, said: Action | Effect, catalog: ActionCatalog) -> Effect:
    known = catalog.get(effect.action)
    return effect if isinstance(said, known) else catalog.validate(effect)


def _item(planned: PlannedEffect, key: str | None) -> dict[str, Any]:
    effect = planned.effect
    return {
        "effect_key": key,
        "action": effect.action,
        "account": effect.account,
        "target": effect.target,
        "body": effect.body().decode(),
        "approval": None if planned.approval is None else uuid_of(planned.approval, prefix="apr", field="approval").hex,
        "ordering_key": planned.ordering_key,
        "not_after": None if planned.not_after is None else planned.not_after.isoformat(),
        "on_settled": planned.on_settled,
        "value": None if planned.value is None else _value(planned.value),
        "distinct": planned.distinct,
    }


def _value(value: Decimal) -> str:
    if abs(value) >= _LARGEST_VALUE or value != round(value, 4):
        raise InvalidField(
            field="value", reason="must be below 10^16 and have at most four decimal places; round it, or use a larger unit"
        )
    return f"{value:f}"


def _operation(field: str, said: str | Staged | None) -> str | None:
    if said is None:
        return None
    return uuid_of(said.operation_id if isinstance(said, Staged) else said, prefix="op", field=field).hex


def _several(after: Needed | Sequence[Needed]) -> Sequence[Needed]:
    return (after,) if isinstance(after, str | Staged | Wish) else after


def _needed(needed: Needed, earlier: Sequence[Wish]) -> dict[str, Any]:
    if not isinstance(needed, Wish):
        return {"id": _operation("after", needed)}
    for at, wish in enumerate(earlier):
        if wish is needed:
            return {"ref": at}
    raise InvalidField(field="after", reason="names a wish that does not stand earlier in the same list")


def _request(
    setting: Setting, items: Sequence[dict[str, Any]], event: dict[str, Any] | None = None, event_body: bytes | None = None
) -> Request:
    whole: dict[str, Any] = dataclasses.asdict(setting) | {"items": [_present(item) for item in items]}
    if event is not None:
        whole["event"] = _present(event)
    return Request(
        # In ASCII, so that the encoding of the host's connection does not matter; the server hashes the characters as UTF-8.
        text=json.dumps(_present(whole)),
        bodies=tuple(item["body"].encode() for item in items),
        accounts=tuple(item["account"] for item in items),
        event_body=event_body,
    )


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
