"""One schedule: what its seed draws, or what a list of moves says; then a good day until everything has come to rest."""

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Final

from acuse_adapters.engine import Counters
from acuse_adapters.explore.cast import Cast
from acuse_adapters.explore.chance import owned
from acuse_adapters.explore.ground import Ground
from acuse_adapters.explore.judge import Judge
from acuse_adapters.explore.moves import LOOPS, WORKERS, Mood, Move, drawn, moves
from acuse_adapters.explore.shop import LAGS, Whim
from acuse_adapters.explore.turn import GO, Turns
from acuse_adapters.explore.wish import Wish, draw

__all__ = ["Plan", "Result", "Runner"]

LOOP_POINTS: Final = "acuse.loops"
"""Entry points of the loops beside the workers: they are run here, and nothing of theirs is imported."""

MOVES: Final = (50, 80, 120, 180)
ROUNDS: Final = 40
FREE_SECONDS: Final = 11.0
"""Until a recover loop has looked for those that wait for nothing any more."""
MOST_STEPS_TO_END: Final = 2000
NIGHTS: Final = (0.0, 0.0, 45.0, 300.0)
"""Seconds in which nobody works before all is well: longer than a claim's rest, or than a key is remembered."""

FULL_SCAN_SECONDS: Final = 3.0
"""A relay finds a row that was committed late, or in a queue that it has not seen, at the latest after this."""


@dataclass(frozen=True)
class Plan:
    """What a schedule is made of. `moves`: None to draw them. A move that is not possible when its turn comes is left out."""

    seed: int
    wishes: tuple[Wish, ...]
    moves: tuple[str, ...] | None = None

    @classmethod
    def drawn(cls, seed: int) -> "Plan":
        """The plan of a seed."""
        return cls(seed, draw(random.Random(f"wishes {seed}")))  # noqa: S311  # dice, not a secret

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> "Plan":
        """The plan of a violation as `--json` writes it: `seed`, `wishes` and `moves`."""
        wishes = (Wish(**{**wish, "after": tuple(wish.get("after", ()))}) for wish in written["wishes"])
        return cls(written["seed"], tuple(wishes), tuple(written["moves"]))


@dataclass(frozen=True)
class Result:
    """How a schedule went. `made`: the moves that were made, and which of them were accidents. `wrong`: what must not be."""

    plan: Plan
    made: tuple[str, ...]
    rough: frozenset[str]
    steps: int
    story: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Two runs with the same digest were the same run."""
        return hashlib.sha256("\n".join(self.story).encode()).hexdigest()


@dataclass
class Runner:
    """Runs schedules on a ground, one after another."""

    ground: Ground
    counters: Counters = field(default_factory=Counters)
    loops: Mapping[str, Callable[..., Any]] = field(
        default_factory=lambda: {point.name: point.load() for point in entry_points(group=LOOP_POINTS)}
    )

    def run(self, plan: Plan) -> Result:
        """Run one."""
        self.ground.empty(plan.seed)
        turns = Turns(self.ground)
        self.ground.lines.turns = turns
        made: list[Move] = []
        try:
            with owned(plan.seed, turns.clock):
                cast = Cast(self.ground.engine, turns, plan.wishes, self.counters, self.loops)
                judge = Judge(self.ground, cast)
                cast.shop.on_sent = judge.sent
                self._grant(cast)
                self._play(plan, cast, judge, made)
                if not turns.wrong:
                    _Rest(cast, judge, random.Random(f"rest {plan.seed}")).come()  # noqa: S311  # dice, not a secret
        finally:
            self._leave(turns)
        rough = frozenset(move.name for move in made if move.rough)
        return Result(plan, tuple(move.name for move in made), rough, turns.steps, tuple(turns.story), tuple(turns.wrong))

    def _grant(self, cast: Cast) -> None:
        for wish in cast.wishes.values():
            if wish.approved:
                with self.ground.engine.begin() as connection:
                    cast.approvals[wish.name] = wish.grant(connection)

    def _play(self, plan: Plan, cast: Cast, judge: Judge, made: list[Move]) -> None:
        for move in _drawn(plan, cast) if plan.moves is None else _told(plan.moves, cast):
            made.append(move)
            move.do()
            judge.step()
            if cast.turns.wrong:
                return

    def _leave(self, turns: Turns) -> None:
        for process in {one.process for one in [*turns.parked.values(), *turns.hearing]} | (
            {turns.blocked.process} if turns.blocked else set()
        ):
            turns.kill(process)
        self.ground.lines.turns = None
        turns.end()


def _drawn(plan: Plan, cast: Cast) -> Iterator[Move]:
    dice = random.Random(f"moves {plan.seed}")  # noqa: S311  # dice, not a secret
    mood = Mood.drawn(dice)
    for _ in range(dice.choice(MOVES)):
        yield drawn(cast, dice, mood)


def _told(names: Sequence[str], cast: Cast) -> Iterator[Move]:
    for name in names:
        found = [move for move in moves(cast) if move.name == name]
        if found:
            yield found[0]


class _Rest:
    """A good day: nobody dies, everybody answers, and time passes."""

    def __init__(self, cast: Cast, judge: Judge, dice: random.Random) -> None:
        self._cast, self._judge, self._turns = cast, judge, cast.turns
        self._night = dice.choice(NIGHTS)

    def come(self) -> None:
        """Let everything come to rest, and judge it."""
        self._turns.event("from here on nothing goes wrong")
        self._end_all()
        if self._night:
            self._pass(self._night)
        for wish in self._cast.wishes.values():
            if wish.name not in self._cast.ids and all(name in self._cast.ids for name in wish.after):
                self._cast.stage(wish)
                self._end_all()
        for _ in range(ROUNDS):
            if self._turns.wrong or (not self._judge.restless() and not self._cast.broker.waiting and not self._late()):
                break
            self._round()
        if not self._turns.wrong:
            self._relay_all()  # what the host is told
            for name in self._judge.restless():
                self._turns.accuse(f"{name} never comes to rest")
            self._judge.rest()

    def _late(self) -> bool:
        return any(not request.heard for request in self._cast.shop.wire)

    def _round(self) -> None:
        self._late_requests()
        wait = self._judge.next_moment()
        self._pass(FREE_SECONDS if wait is None else wait + 1)
        self._late_requests()
        self._cast.loop(LOOPS[2])
        self._end_all()
        for _ in range(ROUNDS):
            self._relay_all()
            if self._turns.wrong or not self._cast.broker.waiting:
                break
            for message in self._cast.broker.waiting:
                self._turns.event(f"{WORKERS[0]} fetches {message.name}")
                self._cast.deliver(WORKERS[0], message)
                self._end_all()

    def _pass(self, seconds: float) -> None:
        self._turns.event(f"{seconds:g} s pass")
        self._turns.pass_time(seconds)

    def _relay_all(self) -> None:
        for number in range(ROUNDS):
            if self._turns.wrong or not self._judge.outbox():
                return
            if number:
                self._pass(FULL_SCAN_SECONDS)
            self._cast.loop(LOOPS[0])
            self._end_all()

    def _late_requests(self) -> None:
        """What nobody listens to any more is carried out, as late as it may, or never again."""
        for request in [one for one in self._cast.shop.wire if not one.heard]:
            whims = self._cast.shop.whims(request)
            if whims:
                self._turns.event(f"request {request.name} {whims[0]}")
                self._cast.shop.take(request, whims[0])

    def _end_all(self) -> None:
        """Let everything that runs come to its end."""
        for _ in range(MOST_STEPS_TO_END):
            if self._turns.wrong:
                return
            free, heard = self._turns.free, [one for one in self._cast.shop.wire if one.heard]
            if free:
                # Of a look-up that may lag it is no accident that it does.
                self._turns.go(free[0], LAGS if LAGS in free[0].ways else GO)
                self._judge.step()
            elif heard:
                whim = Whim.SERVE if heard[0].answer is None and Whim.SERVE in self._cast.shop.whims(heard[0]) else Whim.ANSWER
                whim = whim if whim in self._cast.shop.whims(heard[0]) else Whim.RESET
                self._turns.event(f"request {heard[0].name} {whim}")
                self._cast.shop.take(heard[0], whim)
                self._turns.loop.drain()
            elif any(process.work for process in self._cast.processes.values()):
                self._turns.pass_time(1)
            else:
                return
        self._turns.accuse("what runs never comes to its end")
