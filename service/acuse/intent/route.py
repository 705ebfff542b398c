"""Fan-out in one place: which effects an event leads to."""

import inspect
from collections.abc import Callable
from typing import TypeVar

from acuse.errors import ConfigurationError
from acuse.intent.declared import DeclaredEvent
from acuse.intent.event import Event
from acuse.intent.plan import Plan, PlannedEffect

__all__ = ["Routes"]

_E = TypeVar("_E", bound=Event)
_Handler = Callable[[_E, Plan], None]


class Routes:
    """Event class → handlers, applied inside the transaction that publishes the event, in the order of their registration.

    A handler is a pure function of the event: it runs while a transaction is open, and again when that transaction is retried.
    """

    def __init__(self) -> None:
        self._handlers: dict[type[Event], list[Callable[..., None]]] = {}

    def on(self, event: type[_E]) -> Callable[[_Handler[_E]], _Handler[_E]]:
        """Decorator: `@routes.on(CaseClosed)`. Raises `ConfigurationError` for a base class, a coroutine, or one twice."""
        if not (isinstance(event, type) and issubclass(event, Event)):
            raise ConfigurationError(f"routes.on takes an Event class, not {event!a}")
        if not isinstance(getattr(event, "declared", None), DeclaredEvent):
            raise ConfigurationError(f"{event.__name__} is a base class; route a class that has a name=")

        def register(handler: _Handler[_E]) -> _Handler[_E]:
            if inspect.iscoroutinefunction(handler):
                raise ConfigurationError(f"{handler.__name__}: a route must be a plain function, it only says what is wanted")
            handlers = self._handlers.setdefault(event, [])
            if handler in handlers:
                raise ConfigurationError(f"this route is registered twice for {event.__name__}; its effects would double")
            handlers.append(handler)
            return handler

        return register

    def plan(self, event: Event) -> tuple[PlannedEffect, ...]:
        """The effects of an event, in order; empty if nothing is routed. What a handler raises comes through."""
        plan = Plan()
        for handler in self._handlers.get(type(event), ()):
            handler(event, plan)
        return tuple(plan)
