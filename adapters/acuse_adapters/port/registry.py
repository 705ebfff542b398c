"""All adapters of a worker, found by entry points, so that a third party's adapter is a peer of ours."""

from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import Any

from acuse.errors import ConfigurationError
from acuse_adapters.port.action import AdapterAction
from acuse_adapters.port.adapter import Adapter

__all__ = ["ENTRY_POINTS", "Registry"]

ENTRY_POINTS = "acuse.adapters"


class Registry:
    """Adapters by action. One action belongs to one adapter."""

    def __init__(self, adapters: Iterable[Adapter]) -> None:
        self.adapters = tuple(adapters)
        self._by_action: dict[str, tuple[Adapter, AdapterAction[Any]]] = {}
        for adapter in self.adapters:
            for name, declared in adapter.actions.items():
                if name in self._by_action:
                    other = type(self._by_action[name][0]).__name__
                    raise ConfigurationError(f"{name} is declared by {other} and by {type(adapter).__name__}")
                self._by_action[name] = (adapter, declared)

    @classmethod
    def from_entry_points(cls, providers: Iterable[str] = ()) -> "Registry":
        """Load every adapter that the environment configures; only those of `providers` if any are named.

        Raises `ConfigurationError` naming the entry point that does not load, or a provider that nobody serves.
        """
        wanted = set(providers)
        found: list[Adapter] = []
        for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: p.name):
            if wanted and point.name not in wanted:
                continue
            kind = point.load()
            if not (isinstance(kind, type) and issubclass(kind, Adapter)):
                raise ConfigurationError(f"entry point {point.name} of {ENTRY_POINTS} is no Adapter class")
            adapter = kind.from_environment()
            if adapter is not None:
                found.append(adapter)
        missing = wanted - {adapter.provider for adapter in found}
        if missing:
            raise ConfigurationError(
                f"no configured adapter serves {', '.join(sorted(missing))}: see the settings of the adapter"
            )
        return cls(found)

    def find(self, action: str) -> tuple[Adapter, AdapterAction[Any]] | None:
        """Return who carries out an action, or None if it is not ours."""
        return self._by_action.get(action)

    @property
    def providers(self) -> tuple[str, ...]:
        """The providers that are served, sorted."""
        return tuple(sorted({adapter.provider for adapter in self.adapters}))

    def problems(self) -> list[str]:
        """Return what must be mended before a worker may start, in words."""
        return [problem for adapter in self.adapters for problem in adapter.problems()]
