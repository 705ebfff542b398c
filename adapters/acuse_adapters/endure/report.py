"""The result: what the demonstration's report says, what went down, and the memory of what lived."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console

from acuse_adapters.demo.judge import Judgement, Told
from acuse_adapters.demo.report import as_json as told_as_json
from acuse_adapters.demo.report import show as show_told
from acuse_adapters.endure.memory import ALLOWED_GROWTH, Memory

__all__ = ["as_json", "show"]

_MEGABYTE: Final = 1_000_000

_WORDS: Final = {True: "flat", False: "[red]GROWS[/]", None: "lived too short to be judged"}


def as_json(
    judgement: Judgement, told: list[Told], blows: Counter[str], memory: Sequence[Memory], seconds: float, seed: int
) -> dict[str, Any]:
    """Return the result as values for JSON; memory in bytes, growth as a share."""
    return {
        **told_as_json(judgement, told, seconds, seed),
        "blows": dict(blows),
        "memory": {
            one.process: {
                "samples": one.samples,
                "start": one.start,
                "median": one.median,
                "last": one.last,
                "growth": None if one.growth is None else round(one.growth, 3),
                "flat": one.flat,
            }
            for one in memory
        },
    }


def show(
    judgement: Judgement, told: list[Told], blows: Counter[str], memory: Sequence[Memory], seconds: float, console: Console
) -> None:
    """Print the result for people."""
    console.print("while " + ", ".join(f"{what} {count}×" for what, count in sorted(blows.items())) + ":", highlight=False)
    show_told(judgement, told, seconds, console)
    for one in memory:
        grown = "" if one.growth is None else f", {one.growth:+.0%} from the second to the last fifth"
        sizes = " → ".join(f"{size / _MEGABYTE:.0f}" for size in (one.start, one.median, one.last))
        console.print(f"memory of {one.process}: {sizes} MB (start, median, last){grown}: {_WORDS[one.flat]}", highlight=False)
    console.print(f"flat: no more than {ALLOWED_GROWTH:.0%} from the median of the second fifth to that of the last", style="dim")
