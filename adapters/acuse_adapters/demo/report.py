"""The result of a demonstration: a table for people, JSON for machines."""

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from acuse_adapters.demo.judge import Judgement, Told

__all__ = ["as_json", "show"]

STATES = ("confirmed", "rejected", "unknown", "prepared", "dispatching")

ALWAYS = ("confirmed", "rejected", "unknown")

MOST_SHOWN = 12


def as_json(judgement: Judgement, told: list[Told], seconds: float, seed: int) -> dict[str, Any]:
    """Return the result as values for JSON."""
    states = {state: sum(n for (_, s), n in judgement.states.items() if s == state) for state in STATES}
    return {
        "seed": seed,
        "operations": {state: count for state, count in states.items() if count},
        "attempts": sum(one.attempts for one in told),
        "effects": judgement.effects,
        "duplicates": judgement.duplicates,
        "losses": judgement.losses,
        "held": [
            {
                "operation": one.operation,
                "action": one.action,
                "target": one.target,
                "state": one.state,
                "why": one.why,
                "next": one.next,
            }
            for one in judgement.held
        ],
        "broken": judgement.broken,
        "seconds": round(seconds, 1),
    }


def show(judgement: Judgement, told: list[Told], seconds: float, console: Console) -> None:
    """Print the table and, in sentences, what is not settled and why."""
    table = Table(title="Operations by provider and state", title_justify="left")
    table.add_column("provider")
    states = [state for state in STATES if state in ALWAYS or any(s == state for _, s in judgement.states)]
    for state in (*states, "attempts"):
        table.add_column(state, justify="right")
    for provider in sorted({one.provider for one in told}):
        counts = [judgement.states[provider, state] for state in states]
        attempts = sum(one.attempts for one in told if one.provider == provider)
        table.add_row(provider, *(str(count or "") for count in counts), str(attempts))
    console.print(table)
    console.print(
        f"effects at the providers [bold]{judgement.effects}[/]   doubles [bold]{judgement.duplicates}[/]   "
        f"losses [bold]{judgement.losses}[/]   not settled [bold]{len(judgement.held)}[/]   {seconds:.1f} s"
    )
    if judgement.held:
        console.print("\nNot settled, and why:")
    for one in sorted(judgement.held, key=lambda told: told.state, reverse=True)[:MOST_SHOWN]:
        console.print(f"  [bold]{one.operation}[/] {one.action} {one.target}: {one.state}", highlight=False)
        for sentences in filter(None, (one.why, one.next)):
            console.print(Padding(Text(sentences), (0, 0, 0, 4)))
    if len(judgement.held) > MOST_SHOWN:
        console.print(f"  … and {len(judgement.held) - MOST_SHOWN} more (--json FILE lists them)")
    for sentence in judgement.broken:
        console.print(f"[red]BROKEN[/] {sentence}", highlight=False)
    if judgement.good:
        console.print("\n[green]Nothing doubled, nothing lost, and what is uncertain says so.[/]")
