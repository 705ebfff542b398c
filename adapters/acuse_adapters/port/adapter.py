"""The port: what every adapter is. A provider's file subclasses this, or one of its kinds (`HttpAdapter`)."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from enum import StrEnum
from typing import Any, ClassVar, Self

from acuse.errors import ConfigurationError
from acuse.protocol import RetryContract
from acuse_adapters.port.action import AdapterAction
from acuse_adapters.port.operation import Operation

__all__ = ["Adapter", "Phase"]


class Phase(StrEnum):
    """What a channel is opened for. It decides what a failure means."""

    PREPARE = "prepare"  # nothing has left: every failure is "not sent"
    SEND = "send"  # one request, once: a failure after bytes may have left is ambiguous
    LOOK_UP = "look_up"  # reads only: a failure says nothing


class Adapter:
    """The code for one provider: actions, retry contracts, `prepare`, `send`, `look_up`.

    A subclass names its `provider` and declares actions with `@action`. It writes no retry and catches no transport error.
    """

    provider: ClassVar[str] = ""
    actions: Mapping[str, AdapterAction[Any]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        declared = [value for kind in reversed(cls.__mro__) for value in vars(kind).values() if isinstance(value, AdapterAction)]
        cls.actions = {it.name: it for it in declared}
        for it in declared:
            if cls.provider and it.payload.declared.provider != cls.provider:
                raise ConfigurationError(f"{cls.__name__}: {it.name} belongs to another provider than {cls.provider}")

    @classmethod
    def from_environment(cls) -> Self | None:
        """Return the adapter as the environment configures it, or None if it does not."""
        return cls()

    def promise(self, declared: AdapterAction[Any], contract: RetryContract) -> None:
        """Give this instance's `declared` another contract, as settings say; without a look-up in it, its look-up is dropped."""
        look_up = declared.look_up_step if contract.lookup is not None else None
        promised = replace(declared, contract=contract, look_up_step=look_up)
        self.actions = {**self.actions, declared.name: promised}

    def channel(
        self, operation: Operation[Any], declared: AdapterAction[Any], phase: Phase, seconds: float
    ) -> AbstractAsyncContextManager[Any]:
        """Return what the action's coroutine gets as its last argument, open for one phase of one attempt.

        `seconds` is what is left of the deadline. The channel raises `Ended` when an answer or a failure decides the outcome.
        """
        return AsyncExitStack()

    async def open(self) -> None:
        """Set up what all attempts share (a connection pool). Called once in the worker's event loop."""

    async def close(self) -> None:
        """Release what `open` set up."""

    def problems(self) -> list[str]:
        """Return what must be mended before this adapter may run, in words; empty if nothing must."""
        return [problem for it in self.actions.values() for problem in it.problems()]
