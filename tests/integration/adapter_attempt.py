"""One operation at one adapter, taken through prepare, send and look-up the way the engine does it, without a ledger."""

import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from acuse.intent import Action
from acuse.protocol import Finding, NotSent, Outcome
from acuse_adapters.engine import call
from acuse_adapters.port import Adapter, Operation, Pin

__all__ = ["DEADLINE", "Attempt", "eventually", "opened"]

DEADLINE = 0.5
"""Seconds of a send to a simulator that stalls."""

_numbers = itertools.count(1)


class Attempt:
    """An operation with an id of its own. `send` prepares first if that was not done yet; the pin is kept."""

    def __init__(self, adapter: Adapter, payload: Action, account: str = "main") -> None:
        self.adapter = adapter
        self.payload = payload
        self.id = f"op_{next(_numbers):032x}"
        self.account = account
        self.number = 0
        self.pin: Pin | None = None
        self.declared = adapter.actions[payload.declared.name]

    @property
    def operation(self) -> Operation[Any]:
        effect = self.payload.effect(self.account)
        return Operation(self.id, "t", self.account, effect.target, self.payload, max(self.number, 1), self.pin or {})

    async def prepare(self) -> Pin | NotSent:
        prepared = await call.prepare(self.adapter, self.declared, self.operation)
        if not isinstance(prepared, NotSent):
            self.pin = prepared
        return prepared

    async def send(self) -> Outcome:
        if self.pin is None and isinstance(unprepared := await self.prepare(), NotSent):
            return unprepared
        self.number += 1
        return await call.send(self.adapter, self.declared, self.operation, self.declared.contract.deadline.total_seconds())

    async def look_up(self) -> Finding:
        return await call.look_up(self.adapter, self.declared, self.operation)


@contextlib.asynccontextmanager
async def opened(adapter: Adapter) -> AsyncIterator[Adapter]:
    await adapter.open()
    try:
        yield adapter
    finally:
        await adapter.close()


def eventually(fact: Callable[[], Any]) -> Any:
    """What `fact` returns, as soon as it is true."""
    end = time.monotonic() + 10
    while not (value := fact()):
        assert time.monotonic() < end, "did not become true in time"
        time.sleep(0.01)
    return value
