"""Which intent this is. A hash of the payload never says so: two equal emails may both be meant, and a model words things anew.

Derived keys are hashes, so that they can stand in logs and indexes: `i:` from a declared identity, `e:` from an event and its
route, `c:` from a workflow and the call in it. A host's own key stays as it is.
"""

import hashlib
from collections.abc import Mapping

from acuse.errors import IdentityMissing, InvalidField
from acuse.intent.canonical import JSON, canonical
from acuse.intent.effect import Effect
from acuse.intent.event import Event
from acuse.intent.limits import MAX_CALL, MAX_EFFECT_KEY, MAX_WORKFLOW, check_text
from acuse.intent.model import payload_of

__all__ = ["effect_key", "event_key", "planned_key"]


def effect_key(
    effect: Effect,
    *,
    workflow: str | None = None,
    call: str | None = None,
    given: str | None = None,
    planned: str | None = None,
) -> str:
    """The key of one intent: the action's declared identity, else `given`, else `planned`, else workflow and call.

    effect: from a class, or validated by the catalog; else no declared identity is known. given: the host's own effect key.
    planned: of `planned_key`, for effects that a route made out of an event.
    Raises `InvalidField` (also for `given` beside a declared identity: one of them would be ignored) and `IdentityMissing`.
    """
    _check_ids(workflow, call)
    declared = effect.declared
    if declared is not None and declared.identity:
        if given is not None:
            raise InvalidField(
                field="effect_key",
                reason=f"{declared.name} declares its identity ({', '.join(declared.identity)}); leave effect_key out",
            )
        scope = ["tenant"] if declared.once_per_tenant else _workflow_scope(declared.name, workflow)
        return _hashed("i:", [declared.name, scope, _identity_values(declared.identity, effect.payload)])
    if given is not None:
        return check_text("effect_key", given, MAX_EFFECT_KEY)
    if planned is not None:
        return planned
    if workflow is not None and call is not None:
        return _hashed("c:", [workflow, call])
    raise IdentityMissing(action=effect.action)


def event_key(event: Event, workflow: str | None = None, key: str | None = None) -> str | None:
    """The key of one event: the host's own `key`, else its declared identity, else None (each publish is a new event)."""
    _check_ids(workflow, None)
    if key is not None:
        return check_text("key", key, MAX_EFFECT_KEY)
    declared = event.declared
    if not declared.identity:
        return None
    scope = _workflow_scope(declared.name, workflow) if declared.per_workflow else ["tenant"]
    return _hashed("i:", [declared.name, scope, _identity_values(declared.identity, payload_of(event))])


def planned_key(event: str, action: str, which: int | str) -> str:
    """The key of an effect that a route made: the event's key (or id), the action, the effect's ordinal or name in the plan."""
    return _hashed("e:", [event, action, which])


def _check_ids(workflow: str | None, call: str | None) -> None:
    if workflow is not None:
        check_text("workflow", workflow, MAX_WORKFLOW)
    if call is not None:
        check_text("call", call, MAX_CALL)


def _workflow_scope(name: str, workflow: str | None) -> list[str]:
    if workflow is None:
        raise InvalidField(
            field="workflow",
            reason=f"is missing; the identity of {name} holds within one workflow: give its id, or declare a tenant-wide one",
        )
    return ["workflow", workflow]


def _identity_values(fields: tuple[str, ...], payload: Mapping[str, JSON]) -> list[JSON]:
    values = [payload.get(field) for field in fields]
    for field, value in zip(fields, values, strict=True):
        if value is None or value == "":
            # All the wishes without it would become one operation.
            raise InvalidField(field=field, reason="names the intent and must not be empty; fill it in")
    return values


def _hashed(prefix: str, parts: list[JSON]) -> str:
    return prefix + hashlib.sha256(canonical(parts)).hexdigest()
