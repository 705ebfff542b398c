"""Declaring what an adapter can do: `@action(Payload, contract=…)`, then `@it.prepare` and `@it.look_up`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from acuse.errors import ConfigurationError
from acuse.intent import Action
from acuse.protocol import Finding, Outcome, RetryContract
from acuse_adapters.port.operation import Operation, Pin

__all__ = ["AdapterAction", "action"]

P = TypeVar("P", bound=Action)

Send = Callable[[Any, Operation[Any], Any], Awaitable[Outcome]]
Prepare = Callable[[Any, Operation[Any], Any], Awaitable[Pin]]
LookUp = Callable[[Any, Operation[Any], Any], Awaitable[Finding]]


@dataclass(slots=True)
class AdapterAction(Generic[P]):
    """One action of one adapter: its payload, its contract and up to three coroutines `(self, operation, channel)`."""

    payload: type[P]
    contract: RetryContract
    send: Send
    prepare_step: Prepare | None = None
    look_up_step: LookUp | None = None

    @property
    def name(self) -> str:
        """The action with its version, `crm.close_case.v1`."""
        return self.payload.declared.name

    def prepare(self, step: Prepare) -> Prepare:
        """Register the step that may fail harmlessly: everything before the first byte may leave. Returns the pin."""
        self.prepare_step = step
        return step

    def look_up(self, step: LookUp) -> LookUp:
        """Register the step that finds out what happened without another change."""
        self.look_up_step = step
        return step

    def problems(self) -> list[str]:
        """Return what contradicts the contract, in words; empty if nothing does."""
        found = []
        if self.contract.lookup is not None and self.look_up_step is None:
            found.append(f"{self.name}: its contract promises a look-up by {self.contract.lookup.by}, but no look_up is written")
        if self.contract.lookup is None and self.look_up_step is not None:
            found.append(f"{self.name}: it has a look_up that its contract does not declare")
        upsert = self.contract.natural_upsert
        if upsert is not None and upsert.precondition is not None and self.prepare_step is None:
            found.append(f"{self.name}: its contract names the precondition {upsert.precondition}, but no prepare pins it")
        return found


def action(payload: type[P], *, contract: RetryContract) -> Callable[[Send], AdapterAction[P]]:
    """Declare the coroutine that sends `payload`. Raises `ConfigurationError` if `payload` is no declared action."""
    if getattr(payload, "declared", None) is None:
        raise ConfigurationError(f"{payload.__name__} is no declared action: class {payload.__name__}(Action, name=…, target=…)")

    def declare(send: Send) -> AdapterAction[P]:
        return AdapterAction(payload, contract, send)

    return declare
