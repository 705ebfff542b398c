"""What a run of the explorer says: figures, and each violation as the shortest story that shows it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from acuse_adapters.explore.promise import KINDS
from acuse_adapters.explore.schedule import Result
from acuse_adapters.explore.wish import Wish

__all__ = ["as_json", "told"]


def told(result: Result) -> str:
    """A schedule as people read it: what was wanted, what happened, and what is wrong."""
    return "\n".join(
        [
            f"seed {result.plan.seed}: {'; '.join(result.wrong) or 'nothing is wrong'}",
            *(f"  {_said(wish)}" for wish in result.plan.wishes),
            *(f"  {line}" for line in result.story),
        ]
    )


def as_json(seed: int, schedules: int, steps: int, seconds: float, violations: Sequence[Result], digest: str) -> dict[str, Any]:
    """`schedules`, `steps` and `violations`: each with its seed, what is wrong, its moves and its story.

    `digest` is of all stories: two runs with the same one were the same.
    """
    return {
        "seed": seed,
        "schedules": schedules,
        "steps": steps,
        "seconds": round(seconds, 1),
        "digest": digest,
        "violations": [
            {
                "seed": one.plan.seed,
                "wrong": list(one.wrong),
                "wishes": [asdict(wish) for wish in one.plan.wishes],
                "moves": list(one.made),
                "story": list(one.story),
            }
            for one in violations
        ],
    }


def _said(wish: Wish) -> str:
    parts = [f"{wish.name}: {KINDS[wish.kind].declared.name} on {wish.target}"]
    parts += [f"after {name}" for name in wish.after]
    parts += ["in order"] if wish.ordering_key else []
    if wish.approved:
        expires = "" if wish.approval_expires is None else f" until {wish.approval_expires:g} s"
        parts.append(f"approved{expires}")
    parts += ["of the workflow"] if wish.workflow else []
    parts += [f"not after {wish.not_after:g} s"] if wish.not_after is not None else []
    return ", ".join(parts)
