"""Making a failing schedule short: without accidents, without moves, without operations, as long as it still fails."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from acuse_adapters.explore.schedule import Plan, Result
from acuse_adapters.explore.wish import Wish

__all__ = ["MOST_RUNS", "shrunk"]

MOST_RUNS: Final = 400
"""Runs that one shrinking may take."""


def shrunk(failed: Result, run: Callable[[Plan], Result], *, most_runs: int = MOST_RUNS) -> Result:
    """Return the shortest run found that fails like `failed`, in at most `most_runs` runs."""
    best, left, better = replace(failed, plan=replace(failed.plan, moves=failed.made)), most_runs, True
    while better:
        better = False
        for plan in _simpler(best):
            if left <= 0:
                return best
            left -= 1
            result = run(plan)
            if _fails_like(result, failed) and _size(result) < _size(best):
                best, better = replace(result, plan=replace(plan, moves=result.made)), True
                break
    return best


def _fails_like(result: Result, failed: Result) -> bool:
    """Any of its accusations, whoever is accused."""
    return bool({_kind(one) for one in result.wrong} & {_kind(one) for one in failed.wrong})


def _kind(accusation: str) -> str:
    return "".join(character for character in accusation if not character.isdigit())


def _size(result: Result) -> tuple[int, int, int]:
    return len(result.made), sum(name in result.rough for name in result.made), len(result.plan.wishes)


def _simpler(result: Result) -> Iterator[Plan]:
    """Plans that are simpler than what was made, the boldest first."""
    plan, made = result.plan, result.made
    for wish in plan.wishes:
        yield replace(plan, wishes=tuple(_without(plan.wishes, wish)), moves=made)
    calm = tuple(name for name in made if name not in result.rough)
    if len(calm) < len(made):
        yield replace(plan, moves=calm)
    length = len(made) // 2
    while length:
        for start in range(len(made) - length, -1, -length):  # from the end: what comes after the mistake goes first
            yield replace(plan, moves=made[:start] + made[start + length :])
        length //= 2


def _without(wishes: Sequence[Wish], gone: Wish) -> Iterator[Wish]:
    for wish in wishes:
        if wish is not gone:
            yield replace(wish, after=tuple(name for name in wish.after if name != gone.name))
