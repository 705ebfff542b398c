"""What a class of actions or events says about itself once, checked when the class is defined."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from acuse.errors import ConfigurationError, InvalidField
from acuse.intent.canonical import JSON
from acuse.intent.limits import MAX_ACTION, MAX_ORDERING_KEY, check_text

__all__ = ["DeclaredAction", "DeclaredEvent", "check_action_name"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*\.v[1-9][0-9]*")
_FORM: Final = "must look like provider.verb_noun.v1: lower case, three parts, a version"


def check_action_name(value: str) -> str:
    """Return `value` unchanged, or raise `InvalidField` that shows the form."""
    check_text("action", value, MAX_ACTION)
    if not _NAME.fullmatch(value):
        raise InvalidField(field="action", reason=_FORM)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredAction:
    """The unchanging half of an action.

    name: `crm.close_case.v1`; target: the field that is the host's reference; identity: the fields that name the business intent;
    once_per_tenant: the identity holds across workflows; ordering: the field whose operations go one after another, or None.
    """

    name: str
    target: str
    identity: tuple[str, ...] = ()
    once_per_tenant: bool = False
    ordering: str | None = None

    @property
    def provider(self) -> str:
        return self.name.partition(".")[0]

    def target_of(self, payload: Mapping[str, JSON]) -> str:
        return _reference(self.target, payload)

    def ordering_key_of(self, payload: Mapping[str, JSON]) -> str | None:
        """The key under which operations go one after another; None if this action's need no order."""
        if self.ordering is None:
            return None
        return check_text("ordering_key", _reference(self.ordering, payload), MAX_ORDERING_KEY)

    def check(self, owner: str, fields: Iterable[str]) -> None:
        """Raise `ConfigurationError` unless the declaration fits the model's fields."""
        known = set(fields)
        _check_name(owner, self.name, "provider.verb_noun.v1")
        _check_fields(owner, "target", (self.target,), known)
        _check_fields(owner, "identity", self.identity, known)
        if self.ordering is not None:
            _check_fields(owner, "ordering", (self.ordering,), known)
        if self.once_per_tenant and not self.identity:
            raise ConfigurationError(f"{owner}: once_per_tenant=True needs identity=(…), the fields that may occur only once")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEvent:
    """The unchanging half of an event; `per_workflow`: the identity holds within one workflow, not across the tenant."""

    name: str
    identity: tuple[str, ...] = ()
    per_workflow: bool = False

    def check(self, owner: str, fields: Iterable[str]) -> None:
        """Raise `ConfigurationError` unless the declaration fits the model's fields."""
        _check_name(owner, self.name, "area.noun_verbed.v1")
        _check_fields(owner, "identity", self.identity, set(fields))
        if self.per_workflow and not self.identity:
            raise ConfigurationError(f"{owner}: per_workflow=True needs identity=(…), the fields that may occur only once")


def _check_name(owner: str, name: object, form: str) -> None:
    if not isinstance(name, str) or len(name) > MAX_ACTION or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{owner}: name={name!a} must look like {form}: lower case, three parts, a version, at most {MAX_ACTION} characters"
        )


def _check_fields(owner: str, what: str, names: tuple[str, ...], known: set[str]) -> None:
    if isinstance(names, str):
        raise ConfigurationError(f"{owner}: {what}={names!a} must be a tuple of field names: ({names!a},)")
    for name in names:
        if name not in known:
            have = ", ".join(sorted(known)) or "none"
            raise ConfigurationError(f"{owner}: {what} names {name!a}, which is no field of the model; its fields: {have}")
    if len(set(names)) != len(names):
        raise ConfigurationError(f"{owner}: {what} names a field twice")


def _reference(field: str, payload: Mapping[str, JSON]) -> str:
    value = payload.get(field)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidField(field=field, reason="must be a text or a whole number here, it is a reference of yours; fill it in")
    return str(value)
