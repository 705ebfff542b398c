"""The provider: it keeps its promises by the letter and is as unhelpful as they allow. What it does is the schedule's choice."""

import math
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar

from acuse.protocol import (
    Absent,
    Accepted,
    Ambiguous,
    Concerns,
    Finding,
    Found,
    NotSent,
    Outcome,
    Receipt,
    Refused,
    RetryContract,
    Unavailable,
)
from acuse_adapters.explore.promise import CONTRACTS, Blind, Keyed, Lagging, Strong, Upsert
from acuse_adapters.explore.turn import GO, Parked, Turns
from acuse_adapters.port import Adapter, AdapterAction, Operation, Phase, Pin, action

__all__ = ["LAGS", "Effect", "Request", "Shop", "ShopAdapter", "Whim"]

LAGS = "lags"
RETRY_AFTER = timedelta(seconds=15)


class Whim(StrEnum):
    """What may become of a request next."""

    SERVE = "is carried out and answered"
    APPLY = "is carried out"
    REFUSE = "is refused"
    BUSY = "is put off"
    FAULT = "is refused for its account"
    VANISH = "is lost"
    RESET = "loses its connection"
    ANSWER = "is answered"


@dataclass(eq=False)
class Request:
    """The bytes of one attempt on the wire. `ends`: from then on they cannot act. `listener`: who waits for the answer."""

    name: str
    operation: str
    contract: RetryContract
    target: str
    pin: Pin
    ends: float
    answer: Outcome | None = None
    listener: Parked | None = None

    @property
    def heard(self) -> bool:
        """Whether anybody still listens."""
        return self.listener is not None and not self.listener.future.done()


@dataclass(frozen=True)
class Effect:
    """Something that happened."""

    operation: str
    at: float
    result_id: str


@dataclass
class Shop:
    """What is true at the provider."""

    turns: Turns
    on_sent: Callable[[str], None] = field(default=lambda _operation: None)
    wire: list[Request] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    sent: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _keys: dict[str, tuple[float, Outcome]] = field(default_factory=dict)
    _versions: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _markers: dict[str, str] = field(default_factory=dict)

    # what workers ask of it

    async def prepare(self, operation: Operation[Any], contract: RetryContract) -> Pin:
        """Say which version a thing has."""
        await self.turns.park("reads the version of its target")
        return {"version": self._versions[operation.target]} if contract.natural_upsert is not None else {}

    async def send(self, operation: Operation[Any], contract: RetryContract, seconds: float) -> Outcome:
        """Take a request. `seconds`: until its deadline."""
        if await self.turns.park("connects", (GO, "refused")) == "refused":
            return NotSent("connection refused")
        self.on_sent(operation.id)
        self.sent[operation.id] += 1
        flight = contract.max_in_flight
        ends = math.inf if flight is None else self.turns.clock.seconds + seconds + flight.value.total_seconds()
        name = f"{self.turns.names[operation.id]}#{self.sent[operation.id]}"
        request = Request(name, operation.id, contract, operation.target, operation.pin, ends)
        self.wire.append(request)
        answer: Outcome = await self.turns.hear(lambda parked: setattr(request, "listener", parked))
        return answer

    async def look_up(self, operation: Operation[Any], contract: RetryContract) -> Finding:
        """Say what is there of an operation."""
        assert contract.lookup is not None
        lag = contract.lookup.visible_within
        ways = (GO, "unavailable", LAGS) if lag is not None else (GO, "unavailable")
        way = await self.turns.park("looks up", ways)
        if way == "unavailable":
            return Unavailable("down for maintenance")
        effects = self.effects_of(operation.id)
        if way == LAGS and lag is not None:
            effects = [one for one in effects if one.at + lag.value.total_seconds() <= self.turns.clock.seconds]
        if contract.natural_upsert is not None:
            if self._markers.get(operation.target) == operation.id:
                return Found(effects[-1].result_id)
            return Absent(target_unchanged=self._versions[operation.target] == operation.pin["version"])
        return Found(effects[0].result_id, copies=len(effects)) if effects else Absent()

    # what becomes of requests

    def whims(self, request: Request) -> list[Whim]:
        """What may become of a request now."""
        heard = [Whim.RESET] if request.heard else []
        if request.answer is not None:
            return [*heard, Whim.ANSWER] if heard else []
        if self.turns.clock.seconds >= request.ends:
            return [Whim.VANISH]
        if heard:
            return [Whim.SERVE, Whim.APPLY, Whim.REFUSE, Whim.BUSY, Whim.FAULT, Whim.VANISH, Whim.RESET]
        return [Whim.APPLY, Whim.VANISH]

    def take(self, request: Request, whim: Whim) -> None:
        """Let something become of a request."""
        match whim:
            case Whim.SERVE | Whim.APPLY:
                request.answer = self._arrive(request)
            case Whim.REFUSE:
                request.answer = self._refuse(request)
            case Whim.BUSY:
                request.answer = NotSent("429", retry_after=RETRY_AFTER, concerns=Concerns.ACCOUNT)
            case Whim.FAULT:
                request.answer = NotSent("401", account_fault=True)
            case Whim.VANISH:
                self.wire.remove(request)
                self._tell(request, Ambiguous("the connection was reset"))
            case Whim.RESET:
                self._tell(request, Ambiguous("the connection was reset"))
            case Whim.ANSWER:
                pass
        if whim not in (Whim.VANISH, Whim.RESET, Whim.APPLY) and request.answer is not None:
            self._tell(request, request.answer)
        if request.answer is not None and not request.heard and request in self.wire:
            self.wire.remove(request)

    def touch(self, target: str) -> None:
        """Somebody else changes a thing."""
        self._versions[target] += 1
        self._markers.pop(target, None)

    def effects_of(self, operation: str) -> list[Effect]:
        """What happened for an operation."""
        return [one for one in self.effects if one.operation == operation]

    def may_still_happen(self, operation: str) -> bool:
        """Whether something on the wire may still take effect for an operation."""
        until = self._keys.get(operation, (0.0, None))[0]
        return any(
            one.operation == operation and one.answer is None and self.turns.clock.seconds < one.ends and until < one.ends
            for one in self.wire
        )

    def _arrive(self, request: Request) -> Outcome:
        now, key = self.turns.clock.seconds, request.contract.key
        until, said = self._keys.get(request.operation, (0.0, None))
        if said is not None and now < until:
            return Accepted(Receipt(said.receipt.result_id, replayed=True)) if isinstance(said, Accepted) else said
        if request.contract.natural_upsert is not None and self._versions[request.target] != request.pin["version"]:
            return NotSent("412: the target has changed", concerns=Concerns.OPERATION)
        effect = Effect(request.operation, now, f"R-{len(self.effects) + 1}")
        self.effects.append(effect)
        self._versions[request.target] += 1
        self._markers[request.target] = request.operation
        answer = Accepted(Receipt(effect.result_id))
        if key is not None:
            self._keys[request.operation] = (now + key.retention.value.total_seconds(), answer)
        return answer

    def _refuse(self, request: Request) -> Outcome:
        now, key = self.turns.clock.seconds, request.contract.key
        if request.operation in self._keys and now < self._keys[request.operation][0]:
            return self._arrive(request)  # the first answer stands
        answer = Refused("422", "no")
        if key is not None:
            self._keys[request.operation] = (now + key.retention.value.total_seconds(), answer)
        return answer

    def _tell(self, request: Request, answer: Outcome) -> None:
        if request.listener is not None and not request.listener.future.done():
            request.listener.future.set_result(answer)


async def _send(adapter: "ShopAdapter", operation: Operation[Any], seconds: float) -> Outcome:
    return await adapter.shop.send(operation, _contract(operation), seconds)


async def _see_version(adapter: "ShopAdapter", operation: Operation[Any], _: float) -> Pin:
    return await adapter.shop.prepare(operation, _contract(operation))


async def _look_up(adapter: "ShopAdapter", operation: Operation[Any], _: float) -> Finding:
    return await adapter.shop.look_up(operation, _contract(operation))


def _contract(operation: Operation[Any]) -> RetryContract:
    return CONTRACTS[type(operation.payload).declared.name]


class ShopAdapter(Adapter):
    """The adapter in front of it. Its channel is what is left of the deadline."""

    provider: ClassVar[str] = "shop"

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    def channel(
        self, operation: Operation[Any], declared: AdapterAction[Any], phase: Phase, seconds: float
    ) -> AbstractAsyncContextManager[float]:
        """What is left of the deadline."""
        return nullcontext(seconds)

    keyed = action(Keyed, contract=CONTRACTS["shop.keyed.v1"])(_send)
    upsert = action(Upsert, contract=CONTRACTS["shop.upsert.v1"])(_send)
    upsert.prepare(_see_version)
    upsert.look_up(_look_up)
    strong = action(Strong, contract=CONTRACTS["shop.strong.v1"])(_send)
    strong.look_up(_look_up)
    lagging = action(Lagging, contract=CONTRACTS["shop.lagging.v1"])(_send)
    lagging.look_up(_look_up)
    blind = action(Blind, contract=CONTRACTS["shop.blind.v1"])(_send)
