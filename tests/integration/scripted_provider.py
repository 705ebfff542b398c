"""A provider in memory with an adapter in front of it: it keeps the truth (calls, objects) and misbehaves by a script."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from acuse.intent import Action
from acuse.protocol import (
    Absent,
    Accepted,
    Ambiguous,
    Consistency,
    Finding,
    Found,
    Key,
    Lookup,
    Marker,
    NotSent,
    Outcome,
    Receipt,
    Refused,
    Replays,
    RetryContract,
)
from acuse_adapters.port import Adapter, AdapterAction, Operation, Phase, Pin, action


class Note(Action, name="scripted.note.v1", target="ref"):
    ref: str
    text: str = "hello"
    amount: Decimal | None = None
    at: datetime | None = None
    document: UUID | None = None


def contract(deadline: float = 2.0, **promises: Any) -> RetryContract:
    """A contract that promises what is given and nothing else."""
    return RetryContract(
        version="scripted-1",
        verified_on=date(2026, 11, 30),
        source="https://provider.example/docs",
        deadline=timedelta(seconds=deadline),
        again_means="the note is there a second time",
        **promises,
    )


def key(retention: float = 3600.0) -> Key:
    """A key whose repetition may come while the first request still runs."""
    return Key(
        header="Idempotency-Key",
        max_length=64,
        retention=timedelta(seconds=retention),
        margin=timedelta(seconds=10),
        replays=Replays.FIRST_ANSWER,
        on_concurrent=409,
    )


BARE = contract()
"""Neither a key nor a look-up: every doubt is a person's."""

KEYED = contract(key=key(), max_in_flight=timedelta(seconds=1))
SEEN = contract(
    marker=Marker(where="note.ref"),
    lookup=Lookup(by="ref", consistency=Consistency.STRONG),
    max_in_flight=timedelta(seconds=1),
)
UNHURRIED = contract(
    deadline=30.0,
    marker=Marker(where="note.ref"),
    lookup=Lookup(by="ref", consistency=Consistency.STRONG),
    max_in_flight=timedelta(seconds=1),
)
"""As SEEN, where much happens during one call: on a machine under load no deadline comes in between."""

Behaviour = Callable[["Provider", Operation[Any]], Awaitable[Outcome]]


async def accept(provider: "Provider", operation: Operation[Any]) -> Outcome:
    return Accepted(provider.apply(operation))


async def lose_reply(provider: "Provider", operation: Operation[Any]) -> Outcome:
    """Applied, and nobody hears of it."""
    provider.apply(operation)
    return Ambiguous("the connection closed after the request")


async def vanish(_provider: "Provider", _operation: Operation[Any]) -> Outcome:
    """Not applied, and nobody hears of that either."""
    return Ambiguous("no answer")


async def refuse(_provider: "Provider", _operation: Operation[Any]) -> Outcome:
    return Refused("closed_case", "the case is closed")


async def refuse_for_good(_provider: "Provider", _operation: Operation[Any]) -> Outcome:
    """A refusal that speaks for the whole key."""
    return Refused("closed_case", "the case is closed", covers_key=True)


async def hang_up(_provider: "Provider", _operation: Operation[Any]) -> Outcome:
    return NotSent("connection refused")


async def lock_out(_provider: "Provider", _operation: Operation[Any]) -> Outcome:
    return NotSent("401 unauthorized", account_fault=True)


async def fail(_provider: "Provider", _operation: Operation[Any]) -> Outcome:
    raise RuntimeError("a bug in the adapter")


@dataclass
class Hold:
    """A behaviour that stops a call at the provider until it is released. `inner` runs before the stop."""

    inner: Behaviour = accept
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, provider: "Provider", operation: Operation[Any]) -> Outcome:
        outcome = await self.inner(provider, operation)
        self.arrived.set()
        await self.released.wait()
        return outcome


@dataclass(frozen=True)
class Call:
    """One request as it arrived: which key, which bytes, under which pin."""

    key: str
    attempt: int
    body: bytes
    pin: dict[str, Any]


async def no_step(_operation: Operation[Any]) -> None:
    return None


@dataclass
class Provider:
    """The ground truth, and what comes next. A script that is used up accepts."""

    script: deque[Behaviour] = field(default_factory=deque)
    calls: list[Call] = field(default_factory=list)
    objects: Counter[str] = field(default_factory=Counter)
    prepared: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    on_call: Callable[[Operation[Any]], Awaitable[None]] = no_step
    on_prepare: Callable[[Operation[Any]], Awaitable[None]] = no_step
    on_look_up: Callable[[Operation[Any]], Awaitable[Finding | None]] = no_step
    keeps_keys: bool = True

    def will(self, *behaviours: Behaviour) -> None:
        """Behave like this next, one a call."""
        self.script.extend(behaviours)

    def apply(self, operation: Operation[Any]) -> Receipt:
        """Make the object, once per key for a provider that keeps keys."""
        replayed = self.keeps_keys and self.objects[operation.key] > 0
        if not replayed:
            self.objects[operation.key] += 1
        return Receipt(f"N-{operation.id[-6:]}", "1", "req-1", replayed=replayed)

    async def send(self, operation: Operation[Any]) -> Outcome:
        body = operation.payload.effect(operation.account).body()
        self.calls.append(Call(operation.key, operation.attempt, body, dict(operation.pin)))
        await self.on_call(operation)
        behaviour = self.script.popleft() if self.script else accept
        return await behaviour(self, operation)

    async def look_up(self, operation: Operation[Any]) -> Finding:
        self.reads.append(operation.id)
        said = await self.on_look_up(operation)
        if said is not None:
            return said
        return Found(f"N-{operation.id[-6:]}") if self.objects[operation.key] else Absent()

    def called(self, operation: UUID) -> int:
        """How many requests of an operation arrived."""
        return sum(call.key == f"op_{operation.hex}" for call in self.calls)

    def made(self, operation: UUID) -> int:
        """How many objects an operation has made."""
        return self.objects[f"op_{operation.hex}"]


class ScriptedAdapter(Adapter):
    """Everything goes to the provider in memory. The pin is the number of the preparation."""

    provider = "scripted"

    def __init__(self, world: Provider, promises: RetryContract = BARE) -> None:
        self.world = world
        self.closing: Callable[[Phase], Awaitable[None]] | None = None
        declared = type(self).actions[Note.declared.name]
        self.promise(declared, promises)

    def channel(
        self, operation: Operation[Any], declared: AdapterAction[Any], phase: Phase, seconds: float
    ) -> AbstractAsyncContextManager[Any]:
        stack = AsyncExitStack()
        if self.closing is not None:
            stack.push_async_callback(self.closing, phase)
        return stack

    @action(Note, contract=SEEN)
    async def note(self, operation: Operation[Note], _channel: object) -> Outcome:
        return await self.world.send(operation)

    @note.prepare
    async def _prepare(self, operation: Operation[Note], _channel: object) -> Pin:
        self.world.prepared.append(operation.id)
        await self.world.on_prepare(operation)
        return {"preparation": len(self.world.prepared)}

    @note.look_up
    async def _look_up(self, operation: Operation[Note], _channel: object) -> Finding:
        return await self.world.look_up(operation)


def ids_of(operations: Iterable[UUID]) -> list[str]:
    return [f"op_{one.hex}" for one in operations]
