"""What may happen next. Each move has a name that says the same in every run, so that a schedule is a list of names."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from acuse.store.review import Act
from acuse_adapters.explore.cast import Cast
from acuse_adapters.explore.shop import Whim
from acuse_adapters.explore.turn import GO

__all__ = ["LOOPS", "WORKERS", "Mood", "Move", "drawn", "moves"]

WORKERS: Final = ("worker1", "worker2")
LOOPS: Final = ("relay1", "relay2", "recover1", "recover2")
MESSAGES_AT_ONCE: Final = 2

_TIMES: Final = {0.5: 3.0, 3.0: 3.0, 8.0: 2.0, 11.0: 2.0, 35.0: 1.0, 61.0: 1.5, 200.0: 0.4}
"""Seconds that may pass at once, and how likely: back-offs, the deadline, the claim, the bounds and the keys' window."""

_WAYS: Final = {
    "refused": 0.15,
    "lags": 1.0,
    "unavailable": 0.2,
    "twice": 0.05,
    "answer lost": 0.05,
    "cut before": 0.015,
    "cut after": 0.03,
}
"""How likely a step goes wrong in a way, beside 1 for going well."""

_WHIMS: Final = {
    Whim.SERVE: 3.0,
    Whim.APPLY: 2.5,
    Whim.REFUSE: 0.7,
    Whim.BUSY: 0.4,
    Whim.FAULT: 0.15,
    Whim.VANISH: 1.0,
    Whim.RESET: 2.0,
    Whim.ANSWER: 2.0,
}
_ACTS: Final = {Act.RECHECK: 1.0, Act.ACCEPT_RISK: 4.0, Act.CONFIRM: 1.5, Act.REJECT: 1.0, Act.RESUME: 0.5, Act.SUSPECT: 0.5}
TARGET: Final = "thing-1"


@dataclass(frozen=True)
class Move:
    """Something that may happen. `rough`: it is an accident, and a schedule without it is simpler."""

    name: str
    weight: float
    do: Callable[[], None]
    rough: bool = False
    whim: str = ""


def moves(cast: Cast) -> Iterator[Move]:
    """Everything that may happen now."""
    return chain.from_iterable(moves_of(cast) for _, moves_of in _GROUPS)


@dataclass(frozen=True)
class Mood:
    """What a schedule is inclined to: one that does everything a little never comes far into anything."""

    shares: tuple[float, ...]
    whims: Mapping[str, float]

    @classmethod
    def drawn(cls, dice: random.Random) -> "Mood":
        """Draw one."""
        factors: dict[Callable[[Cast], Iterator[Move]], float] = {
            _people: dice.choice((0.0, 1.0, 4.0)),
            _accidents: dice.choice((0.3, 1.0, 3.0)),
            _time: dice.choice((0.5, 1.0, 2.0)),
        }
        return cls(tuple(share * factors.get(moves_of, 1.0) for share, moves_of in _GROUPS), _inclined(dice))

    def weight(self, move: Move) -> float:
        """How likely a move is within its group."""
        return move.weight * self.whims.get(move.whim, 1.0)


def _inclined(dice: random.Random) -> dict[str, float]:
    return {name: dice.choice((0.2, 1.0, 4.0)) for name in (*_WHIMS, *_WAYS)}


def drawn(cast: Cast, dice: random.Random, mood: Mood) -> Move:
    """Draw what happens next: first of which group, so that there being many of one thing leaves the others their share."""
    while True:
        moves_of = dice.choices(_GROUPS, mood.shares)[0][1]
        if possible := list(moves_of(cast)):
            return dice.choices(possible, [mood.weight(move) for move in possible])[0]


def _steps(cast: Cast) -> Iterator[Move]:
    for one in cast.turns.free:
        for way in one.ways:
            if way == GO:
                yield Move(f"{one.name}:{one.what}", 1.0, partial(cast.turns.go, one, way))
            else:
                said, weight = f"{one.name}:{one.what}:{way}", _WAYS[way]
                yield Move(said, weight, partial(cast.turns.go, one, way), rough=True, whim=way)


def _fetches(cast: Cast) -> Iterator[Move]:
    for name in WORKERS:
        if len(cast.processes[name].work) < MESSAGES_AT_ONCE:
            for message in cast.broker.waiting:
                said = f"{name} fetches {message.name}"
                yield Move(said, 1.0, _told(cast, said, cast.deliver, name, message))


def _rounds(cast: Cast, *, wanted: bool) -> Iterator[Move]:
    for name in LOOPS:
        if not cast.processes[name].work and cast.wants(name) is wanted:
            yield Move(f"{name} makes a round", 1.0, partial(cast.loop, name))


def _provider(cast: Cast) -> Iterator[Move]:
    for request in cast.shop.wire:
        for whim in cast.shop.whims(request):
            said = f"request {request.name} {whim}"
            rough = whim not in (Whim.SERVE, Whim.ANSWER)
            take = _told(cast, said, cast.shop.take, request, whim)
            yield Move(said, _WHIMS[whim], take, rough=rough, whim=whim)


def _hosts(cast: Cast, *, again: bool = False) -> Iterator[Move]:
    for wish in cast.wishes.values():
        ready = f"host.{wish.name}" not in cast.processes["people"].work and all(name in cast.ids for name in wish.after)
        if ready and (wish.name in cast.ids) is again:
            yield Move(f"a host stages {wish.name}", 1.0, partial(cast.stage, wish), rough=again)


def _people(cast: Cast) -> Iterator[Move]:
    work = cast.processes["people"].work
    for effect in cast.shop.effects:
        if f"webhook.{effect.result_id}" not in work:
            name = cast.turns.names[effect.operation]
            yield Move(f"a webhook tells of {name}'s {effect.result_id}", 3.0, partial(cast.webhook, effect))
    for wish in cast.wishes.values():
        if wish.name not in cast.ids:
            continue
        if wish.approved and f"revoker.{wish.name}" not in work:
            yield Move(f"the approval of {wish.name} is revoked", 2.0, partial(cast.revoke, wish))
        if f"canceller.{wish.name}" not in work:
            yield Move(f"a host cancels {wish.name}", 0.4, partial(cast.cancel, wish))
        for act, weight in _ACTS.items() if cast.shop.sent[cast.ids[wish.name]] else ():
            if f"operator.{wish.name}.{act}" not in work:
                yield Move(f"an operator wants to {act} {wish.name}", weight, partial(cast.operate, wish.name, act))
    if any(wish.workflow for wish in cast.wishes.values()) and "canceller" not in work:
        yield Move("a host cancels the workflow", 0.6, partial(cast.cancel_workflow))


def _accidents(cast: Cast) -> Iterator[Move]:
    said = f"somebody else changes {TARGET}"
    yield Move(said, 0.5, _told(cast, said, cast.shop.touch, TARGET), rough=True)
    yield from _hosts(cast, again=True)
    yield from _rounds(cast, wanted=False)
    for name in (*WORKERS, *LOOPS, "people"):
        if cast.processes[name].work:
            said = f"{name} is killed"
            yield Move(said, 1.0, _told(cast, said, cast.kill, name), rough=True)
    for name in WORKERS:
        if cast.processes[name].work and f"{name}.stop" not in cast.processes[name].work:
            said = f"{name} is told to stop"
            yield Move(said, 0.5, _told(cast, said, cast.stop, name), rough=True)
    for message in cast.broker.waiting:
        for what, do in (("loses", cast.broker.lose), ("doubles", cast.broker.double)):
            said = f"the broker {what} {message.name}"
            yield Move(said, 0.5, _told(cast, said, do, message), rough=True)


def _time(cast: Cast) -> Iterator[Move]:
    for seconds, weight in _TIMES.items():
        said = f"{seconds:g} s pass"
        yield Move(said, weight, partial(_pass, cast, said, seconds))


def _pass(cast: Cast, said: str, seconds: float) -> None:
    cast.turns.event(said)
    cast.turns.pass_time(seconds)


def _told(cast: Cast, said: str, do: Callable[..., object], *values: object) -> Callable[[], None]:
    def run() -> None:
        cast.turns.event(said)
        do(*values)
        cast.turns.loop.drain()

    return run


_GROUPS: Final[tuple[tuple[float, Callable[[Cast], Iterator[Move]]], ...]] = (
    (10.0, _steps),
    (4.0, _fetches),
    (2.0, partial(_rounds, wanted=True)),
    (5.0, _provider),
    (2.0, _hosts),
    (0.3, _people),
    (0.4, _accidents),
    (0.5, _time),
)
