"""Which fault a write gets: a function of the plan, the marker and how often that marker was seen. No I/O."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.plan import FaultPlan

__all__ = ["Choice", "Chooser", "pick"]


def pick(rates: Mapping[Fault, float], seed: int, marker: str, nth: int) -> Fault | None:
    """The fault that the rates give to the nth (from 1) write of a marker; the same for ever, in any order of arrival."""
    digest = hashlib.sha256(f"{seed}\0{marker}\0{nth}".encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64
    for fault in Fault:
        point -= rates.get(fault, 0.0)
        if point < 0:
            return fault
    return None


@dataclass(frozen=True)
class Choice:
    """A fault (None: behave) and the index of the script entry that it came from (None: from the rates)."""

    fault: Fault | None
    script: int | None


class Chooser:
    """Walks the script and counts the writes of each marker. `peek` looks, `take` counts."""

    def __init__(self, plan: FaultPlan) -> None:
        self._seen: Counter[str] = Counter()
        self._walked: Counter[tuple[int, str]] = Counter()
        self.plan = plan

    def replace(self, plan: FaultPlan) -> None:
        """A new plan starts its script from the top; the counts of each marker stay."""
        self._walked.clear()
        self.plan = plan

    def peek(self, marker: str | None, text: str) -> Choice:
        """What the next write with this marker and text would get."""
        scripted = self._scripted(marker, text, any_walk=True)
        if scripted is not None:
            return scripted
        return Choice(pick(self.plan.rates, self.plan.seed, marker or "", self._seen[marker or ""] + 1), None)

    def peek_unmarked(self, text: str) -> Choice:
        """The same while the marker is not known yet: only a script entry shared by all writes can tell."""
        return self._scripted(None, text, any_walk=False) or Choice(None, None)

    def take(self, marker: str | None, choice: Choice) -> None:
        """Count a write that got this choice."""
        self._seen[marker or ""] += 1
        if choice.script is not None and choice.script < len(self.plan.script):
            self._walked[choice.script, self.plan.script[choice.script].walk_key(marker)] += 1

    def _scripted(self, marker: str | None, text: str, *, any_walk: bool) -> Choice | None:
        for index, entry in enumerate(self.plan.script):
            if not entry.matches(marker, text) or not (any_walk or entry.per == "entry"):
                continue
            step = self._walked[index, entry.walk_key(marker)]
            if step < len(entry.faults):
                return Choice(entry.faults[step], index)
        return None
