"""Typed effects: one class per action, whose model is the action's contract with the host."""

from typing import Any, ClassVar

from acuse.errors import ConfigurationError
from acuse.intent.declared import DeclaredAction
from acuse.intent.effect import DEFAULT_ACCOUNT, Effect
from acuse.intent.model import Intent, payload_of

__all__ = ["Action"]


class Action(Intent):
    """Base of typed payloads.

        class CloseCase(Action, name="crm.close_case.v1", target="case", identity=("case",), overwrites=True):
            case: str
            resolution: str

    name: `provider.verb_noun.vN`; the provider is the part before the first dot.
    target: the field with the host's own reference; it stays in the payload too.
    identity: fields that name the business intent; then neither wording nor call ids make a second operation of it.
    once_per_tenant: the identity holds across workflows, not only within one.
    overwrites: a later one replaces what an earlier one wrote, so they go one after another per target.
    ordering: the field to order by, if it is not the target (or "target").

    A mistake in these raises `ConfigurationError` where the class is defined. A class without `name` is a base for others.
    """

    declared: ClassVar[DeclaredAction]

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        target: str | None = None,
        identity: tuple[str, ...] = (),
        once_per_tenant: bool = False,
        overwrites: bool = False,
        ordering: str | None = None,
        **config: Any,  # noqa: ANN401 - pydantic's own class arguments
    ) -> None:
        super().__init_subclass__(**config)

    @classmethod
    def __pydantic_init_subclass__(
        cls,
        *,
        name: str | None = None,
        target: str | None = None,
        identity: tuple[str, ...] = (),
        once_per_tenant: bool = False,
        overwrites: bool = False,
        ordering: str | None = None,
        **config: Any,  # noqa: ANN401 - pydantic's own class arguments
    ) -> None:
        # Runs when the fields are known, which they are not yet in __init_subclass__.
        super().__pydantic_init_subclass__(**config)
        if name is None:
            _refuse_nameless(cls, target, identity, once_per_tenant, overwrites, ordering)
            return
        if target is None:
            raise ConfigurationError(f"{cls.__name__}: target= is missing; name the field with your own reference to the thing")
        if ordering == "target" and "target" not in cls.model_fields:
            ordering = target
        if ordering is None and overwrites:
            ordering = target
        if "effect" in cls.model_fields:
            raise ConfigurationError(f"{cls.__name__}: a field cannot be called 'effect', it would hide the method")
        declared = DeclaredAction(name=name, target=target, identity=identity, once_per_tenant=once_per_tenant, ordering=ordering)
        declared.check(cls.__name__, cls.model_fields)
        cls.declared = declared

    def effect(self, account: str = DEFAULT_ACCOUNT) -> Effect:
        """The untyped form, in JSON types. Raises `InvalidField` (target) and `InvalidPayload`."""
        declared = _declared(type(self))
        payload = payload_of(self)
        return Effect(declared.name, declared.target_of(payload), payload, account, declared)


def _declared(kind: type[Action]) -> DeclaredAction:
    declared = getattr(kind, "declared", None)
    if not isinstance(declared, DeclaredAction):
        raise ConfigurationError(f"{kind.__name__} is a base class; stage a class that has a name=")
    return declared


def _refuse_nameless(kind: type[Action], *said: object) -> None:
    if any(said):
        raise ConfigurationError(f"{kind.__name__}: name= is missing; say name='provider.verb_noun.v1'")
    if getattr(kind, "declared", None) is not None:
        raise ConfigurationError(
            f"{kind.__name__} inherits from an action and would pass for it; give it its own name=, target=, …"
        )
