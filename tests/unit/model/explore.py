"""Every interleaving, breadth first, so that the first violation has the shortest story."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from acuse.protocol import RetryContract, State
from model.ledger import Ledger, Rules
from model.provider import Provider
from model.world import Action, World

__all__ = ["Bounds", "Report", "explore"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far the exploration goes."""

    ticks: int = 7
    attempts: int = 3
    reads: int = 2
    operator: bool = False  # a person may accept the risk of a repeat once
    slow_reads: bool = False  # anything may happen between the start of a look-up and the record of its finding


@dataclass(slots=True)
class Report:
    """What was seen. `violation` is empty if every property held in every state; `trace` is the shortest way to it."""

    states: int = 0
    violation: str = ""
    trace: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # every kind of step that was taken

    def story(self) -> str:
        """Return the violation and the steps that led to it."""
        return (
            "\n".join([f"VIOLATION: {self.violation}", *self.trace])
            if self.violation
            else f"no violation in {self.states} states"
        )


def explore(
    contract: RetryContract,
    *,
    rules: Rules | None = None,
    bounds: Bounds | None = None,
    provider: RetryContract | None = None,
) -> Report:
    """Explore every state within the bounds; stop at the first violation.

    `provider` is the contract that the provider keeps, where it differs from the one that our side believes.
    """
    limits = bounds or Bounds()
    ledger = Ledger(
        contract,
        rules or Rules(),
        attempts=limits.attempts,
        reads=limits.reads,
        operator=limits.operator,
        slow=limits.slow_reads,
    )
    other = Provider(provider or contract)
    start, report = World(), Report()
    origin: dict[World, tuple[World, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        world = queue.popleft()
        report.states += 1
        for action in _actions(world, ledger, other, limits):
            report.seen.add(action.what)
            if action.world not in origin:
                origin[action.world] = (world, action.what)
                queue.append(action.world)
                problem = action.problem or _problem(action.world, ledger)
                if problem:
                    report.violation, report.trace = problem, _trace(action.world, origin)
                    return report
            elif action.problem:
                report.violation, report.trace = action.problem, [*_trace(world, origin), action.what]
                return report
    return report


def _actions(world: World, ledger: Ledger, provider: Provider, limits: Bounds) -> Iterator[Action]:
    if world.state.final and all(r.stage == "done" for r in world.requests):
        return
    yield from ledger.actions(world, provider.reads)
    yield from provider.actions(world)
    if world.attempts and world.now < limits.ticks and provider.may_end(world):
        yield Action("tick", provider.tick(world))


def _problem(world: World, ledger: Ledger) -> str:
    if not world.risk_accepted and world.effects > 1:
        return f"{world.effects} effects under one key"
    if not world.risk_accepted and world.overwrote:
        return "a repeat overwrote another person's change"
    if world.state in (State.PREPARED, State.REJECTED) and world.effects:
        return f"{world.state} although it happened"
    if world.state is State.PREPARED and world.doubts:
        return "prepared with an open doubt"
    if world.state is State.CONFIRMED and not world.effects:
        return "confirmed although nothing happened"
    if world.doubts != sum(a.doubtful for a in world.attempts):
        return "the count of doubts differs from the attempts in doubt"
    return ledger.stuck(world) if world.state is State.UNKNOWN else ""


def _trace(world: World, origin: dict[World, tuple[World, str] | None]) -> list[str]:
    steps: list[str] = []
    at: World = world
    while (came := origin[at]) is not None:
        steps.append(f"  t={came[0].now} {came[1]}  [{at.state}, {at.doubts} in doubt, {at.effects} effects]")
        at = came[0]
    return steps[::-1]
