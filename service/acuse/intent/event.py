"""What the business says happened."""

from typing import Any, ClassVar

from acuse.errors import ConfigurationError
from acuse.intent.declared import DeclaredEvent
from acuse.intent.model import Intent

__all__ = ["Event"]


class Event(Intent):
    """Base of events: immutable, with a name and a version.

        class CaseClosed(Event, name="onboarding.case_closed.v1", identity=("case", "reopening")):
            case: str
            reopening: int

    identity: fields that name the occurrence; an event published again with the same ones is the same event. Without it each
    publish is an event of its own, unless the host gives a key.
    per_workflow: the identity holds within one workflow; by default across the tenant.

    A mistake in these raises `ConfigurationError` where the class is defined. A class without `name` is a base for others.
    """

    declared: ClassVar[DeclaredEvent]

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        identity: tuple[str, ...] = (),
        per_workflow: bool = False,
        **config: Any,  # noqa: ANN401 - pydantic's own class arguments
    ) -> None:
        super().__init_subclass__(**config)

    @classmethod
    def __pydantic_init_subclass__(
        cls,
        *,
        name: str | None = None,
        identity: tuple[str, ...] = (),
        per_workflow: bool = False,
        **config: Any,  # noqa: ANN401 - pydantic's own class arguments
    ) -> None:
        super().__pydantic_init_subclass__(**config)
        if name is None:
            if identity or per_workflow:
                raise ConfigurationError(f"{cls.__name__}: name= is missing; say name='area.noun_verbed.v1'")
            if getattr(cls, "declared", None) is not None:
                raise ConfigurationError(f"{cls.__name__} inherits from an event and would pass for it; give it its own name=")
            return
        declared = DeclaredEvent(name=name, identity=identity, per_workflow=per_workflow)
        declared.check(cls.__name__, cls.model_fields)
        cls.declared = declared
