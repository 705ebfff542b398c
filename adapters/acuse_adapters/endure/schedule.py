"""What goes down and when, from a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["BLOWS", "Blow", "Schedule"]


@dataclass(frozen=True, slots=True)
class Blow:
    """Something that happens once: when this share of the effects is settled."""

    share: float
    what: str


BLOWS: Final = (Blow(0.2, "wipe"), Blow(0.45, "restart"), Blow(0.7, "wipe"))
"""Redis is wiped twice, and PostgreSQL restarted once between."""


@dataclass(slots=True)
class Schedule:
    """Draws from the seed. `victims` are the processes that may be killed, `rarely` one that is killed now and then.

    pause: the shortest and the longest time between two kills, in seconds.
    """

    seed: int
    victims: Sequence[str]
    rarely: str
    pause: tuple[float, float] = (2.0, 5.0)
    blows: list[Blow] = field(default_factory=lambda: list(BLOWS))
    _dice: random.Random = field(init=False)
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)  # noqa: S311  # dice, not a secret
        self._next = self._dice.uniform(*self.pause)

    def killed(self, elapsed: float) -> list[str]:
        """Return who is to be killed now, `elapsed` seconds after the start: one or two of the victims, or the rare one."""
        if elapsed < self._next:
            return []
        self._next = elapsed + self._dice.uniform(*self.pause)
        if self._dice.random() < 1 / 6:
            return [self.rarely]
        return self._dice.sample(list(self.victims), 2 if self._dice.random() < 1 / 4 else 1)

    def blow(self, settled: int, wanted: int) -> Blow | None:
        """Return the blow whose time has come, each once and in order."""
        if self.blows and settled >= self.blows[0].share * wanted:
            return self.blows.pop(0)
        return None
