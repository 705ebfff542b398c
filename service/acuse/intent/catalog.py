"""The actions that are known by name, for effects that arrive as JSON."""

import difflib
import json
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Self, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from acuse.errors import ConfigurationError, InvalidField, InvalidPayload, UnknownAction
from acuse.intent.action import Action
from acuse.intent.canonical import plain, render_path
from acuse.intent.declared import DeclaredAction
from acuse.intent.effect import Effect

__all__ = ["ENTRY_POINT_GROUP", "ActionCatalog"]

ENTRY_POINT_GROUP: Final = "acuse.actions"

_Kind = TypeVar("_Kind", bound=type[Action])


class ActionCatalog:
    """Name → class of the action."""

    def __init__(self, actions: Iterable[type[Action]] = ()) -> None:
        self._actions: dict[str, type[Action]] = {}
        for action in actions:
            self.register(action)

    @classmethod
    def from_entry_points(cls, group: str = ENTRY_POINT_GROUP) -> Self:
        """All actions that installed packages offer: each entry point is an action, or an iterable of actions.

        Raises `ConfigurationError` that names the entry point which cannot be loaded, or offers something else.
        """
        catalog = cls()
        for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
            for action in _loaded(entry):
                try:
                    catalog.register(action)
                except ConfigurationError as error:
                    raise ConfigurationError(f"{_named(entry)}: {error}") from error
        return catalog

    def register(self, action: _Kind) -> _Kind:
        """Add a class and return it (usable as a decorator). Raises `ConfigurationError` if another class has its name."""
        if not (isinstance(action, type) and issubclass(action, Action)):
            raise ConfigurationError(f"{action!a} is no Action class")
        declared = getattr(action, "declared", None)
        if not isinstance(declared, DeclaredAction):
            raise ConfigurationError(f"{action.__name__} is a base class; register a class that has a name=")
        known = self._actions.setdefault(declared.name, action)
        if known is not action:
            raise ConfigurationError(
                f"{declared.name} is registered twice, by {_qualified(known)} and {_qualified(action)}; give one a new version"
            )
        return action

    def get(self, name: str) -> type[Action]:
        """The class of an action. Raises `UnknownAction` with the nearest names."""
        try:
            return self._actions[name]
        except KeyError:
            raise UnknownAction(action=name, nearest=difflib.get_close_matches(name, self._actions, n=3)) from None

    def __iter__(self) -> Iterator[type[Action]]:
        return iter(self._actions.values())

    def __len__(self) -> int:
        return len(self._actions)

    def __contains__(self, name: object) -> bool:
        return name in self._actions

    def validate(self, effect: Effect) -> Effect:
        """The effect as its class would have said it: payload complete and in the model's form, order and identity known.

        Raises `UnknownAction`, `InvalidPayload` with the first bad path, and `InvalidField` if the target is not the payload's.
        """
        kind = self.get(effect.action)
        validated = parse_action(kind, effect).effect(effect.account)
        if validated.target != effect.target:
            raise InvalidField(
                field="target",
                reason=f"differs from the payload's {kind.declared.target!r}, the target of {effect.action}; give the same",
            )
        return validated


def parse_action(kind: type[Action], effect: Effect) -> Action:
    """The typed form of an effect. Raises `InvalidPayload` with the first bad path; never the value."""
    # As JSON text, so that a strict model still takes dates and UUIDs; not canonical, where 1e20 would turn into an integer.
    text = json.dumps(plain(effect.payload), ensure_ascii=False, allow_nan=False)
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = min(error.errors(include_url=False, include_context=False, include_input=False), key=_place)
    raise InvalidPayload(path=render_path(first["loc"]), reason=f"{_advice(first['type'])}; see the fields of {kind.__name__}")


def _place(details: ErrorDetails) -> list[tuple[bool, str]]:
    # Fields in alphabetical order, items in theirs: the first bad place does not depend on how the model is written.
    return [(isinstance(step, int), f"{step:09}" if isinstance(step, int) else step) for step in details["loc"]]


_ADVICE: Final = {
    "missing": "the field is missing; fill it in",
    "extra_forbidden": "no such field; remove it or correct its name",
}


def _advice(kind: str) -> str:
    # pydantic's sentences may repeat what a validator of the host said about the value; its error types never do.
    return _ADVICE.get(kind, f"the value does not fit the field ({kind}); correct it")


def _loaded(entry: EntryPoint) -> list[type[Action]]:
    try:
        found = entry.load()
    except Exception as error:
        raise ConfigurationError(f"{_named(entry)} cannot be loaded: {type(error).__name__}: {error}") from error
    offered = [found] if isinstance(found, type) else found
    try:
        return list(offered)
    except TypeError:
        raise ConfigurationError(
            f"{_named(entry)} offers {type(found).__name__}; it must be an Action or an iterable of them"
        ) from None


def _named(entry: EntryPoint) -> str:
    package = f" of {entry.dist.name}" if entry.dist is not None else ""
    return f"entry point '{entry.name} = {entry.value}'{package} in group {entry.group!r}"


def _qualified(action: type[Action]) -> str:
    return f"{action.__module__}.{action.__qualname__}"
