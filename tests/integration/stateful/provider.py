"""A provider that keeps to its contract by the letter, and is as unhelpful as the contract allows."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from acuse.protocol import (
    Absent,
    Accepted,
    Concerns,
    Consistency,
    Finding,
    Found,
    NotSent,
    Outcome,
    Receipt,
    Refused,
    RefusedBefore,
    Replays,
    RetryContract,
    Unavailable,
)
from stateful.clock import Clock

__all__ = ["Effect", "How", "Provider", "Request", "See", "end_of"]


class How(StrEnum):
    """What becomes of a request. Whether anybody hears the answer is another matter."""

    APPLY = "apply"
    HOLD = "hold"  # it may be applied as late as the contract allows, or never
    VANISH = "vanish"
    REFUSE = "refuse"
    REFUSE_KEY = "refuse the key"
    BUSY = "busy"
    FAULT = "account fault"


class See(StrEnum):
    """What a look-up shows."""

    TRUTH = "truth"
    LAG = "as little as the contract allows"
    RECORD = "its own record of a refusal"
    NOTHING = "unavailable"


@dataclass(slots=True)
class Request:
    """The bytes of one attempt. `ends`: from then on it cannot act. `answer`: what was said, heard or not."""

    operation: UUID
    attempt: int
    contract: RetryContract
    place: tuple[str, str]
    pin: dict[str, Any]
    ends: float
    waits: bool = False
    answer: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that happened: for whom, by which attempt, when, and under which id."""

    operation: UUID
    attempt: int
    at: float
    result_id: str


@dataclass(slots=True)
class _Remembered:
    says: Outcome
    until: float


@dataclass(slots=True)
class Provider:
    """The other side of every contract."""

    clock: Clock
    effects: list[Effect] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)
    _keys: dict[UUID, _Remembered] = field(default_factory=dict)
    _versions: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    _markers: dict[tuple[str, str], UUID] = field(default_factory=dict)

    def pin(self, contract: RetryContract, place: tuple[str, str]) -> dict[str, Any]:
        """Return what `prepare` would pin: the target's version, where the provider guards it."""
        return {"version": self._versions[place]} if contract.natural_upsert is not None else {}

    def receive(self, request: Request, how: How) -> None:
        """Take a request off the wire, or leave it there."""
        match how:
            case How.HOLD:
                request.waits = True
                self.waiting.append(request)
            case How.APPLY:
                self._arrive(request)
            case How.REFUSE | How.REFUSE_KEY:
                self._refuse(request, whole=how is How.REFUSE_KEY and bool(request.contract.refusals_cover_key))
            case How.BUSY:
                request.answer = NotSent("429", concerns=Concerns.OPERATION)
            case How.FAULT:
                request.answer = NotSent("401", account_fault=True)
            case How.VANISH:
                pass

    def apply_late(self, request: Request) -> None:
        """Carry out what was on the wire for a while."""
        self.waiting.remove(request)
        request.waits = False
        self._arrive(request)

    def tidy(self) -> None:
        """Forget what is over: requests that can act no more, and keys, a margin early."""
        now = self.clock.now
        self.waiting = [request for request in self.waiting if now < request.ends]
        self._keys = {key: known for key, known in self._keys.items() if now < known.until}

    def effects_of(self, operation: UUID) -> list[Effect]:
        """Return what happened for an operation."""
        return [effect for effect in self.effects if effect.operation == operation]

    def may_still_happen(self, operation: UUID) -> bool:
        """Say whether something on the wire can still have an effect for an operation."""
        known = self._keys.get(operation)
        return any(
            request.operation == operation and not (known is not None and request.ends <= known.until)
            for request in self.waiting
            if self.clock.now < request.ends
        )

    def look_up(self, operation: UUID, contract: RetryContract, place: tuple[str, str], pin: dict[str, Any], see: See) -> Finding:
        """Answer a look-up that starts now."""
        if see is See.NOTHING:
            return Unavailable("down for maintenance")
        known = self._keys.get(operation)
        if see is See.RECORD and known is not None and isinstance(known.says, Refused):
            return RefusedBefore(known.says.code, known.says.reason)
        effects = [effect for effect in self.effects_of(operation) if see is not See.LAG or self._visible(effect, contract)]
        if contract.natural_upsert is not None:
            if self._markers.get(place) == operation:
                return Found(effects[-1].result_id)
            return Absent(target_unchanged=self._versions[place] == pin.get("version"))
        return Found(effects[0].result_id, copies=len(effects)) if effects else Absent()

    def _visible(self, effect: Effect, contract: RetryContract) -> bool:
        if contract.lookup is None or contract.lookup.consistency is Consistency.STRONG:
            return True
        within = contract.lookup.visible_within
        return within is not None and self.clock.now >= effect.at + within.value.total_seconds()

    def _arrive(self, request: Request) -> None:
        known = self._keys.get(request.operation)
        if known is not None:
            request.answer = known.says
            if isinstance(known.says, Accepted):
                request.answer = Accepted(Receipt(known.says.receipt.result_id, replayed=True))
            return
        if request.contract.natural_upsert is not None and self._versions[request.place] != request.pin.get("version"):
            request.answer = Refused("412", "the target has changed")
            return
        result_id = f"R-{len(self.effects) + 1}"
        self.effects.append(Effect(request.operation, request.attempt, self.clock.now, result_id))
        self._versions[request.place] += 1
        self._markers[request.place] = request.operation
        request.answer = Accepted(Receipt(result_id))
        self._remember(request, request.answer)

    def _refuse(self, request: Request, *, whole: bool) -> None:
        known = self._keys.get(request.operation)
        if known is not None and (isinstance(known.says, Refused) or whole):
            self._arrive(request)  # the first answer stands
            return
        request.answer = Refused("402" if whole else "422", "no", covers_key=whole)
        key = request.contract.key
        if known is None and key is not None and key.replays is Replays.FIRST_ANSWER:
            self._remember(request, request.answer)

    def _remember(self, request: Request, says: Outcome) -> None:
        key = request.contract.key
        if key is not None:
            kept = (key.retention.value - key.margin).total_seconds()
            self._keys[request.operation] = _Remembered(says, self.clock.now + kept)


def end_of(contract: RetryContract, dispatched: float) -> float:
    """Return when a request can no longer act."""
    if contract.max_in_flight is None:
        return math.inf
    return dispatched + (contract.deadline + contract.max_in_flight.value).total_seconds()
