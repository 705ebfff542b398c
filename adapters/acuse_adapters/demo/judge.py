"""The judgement over a demonstration: doubles and losses from the stores and the business rows, and what the ledger said of them.

Pure: it takes values and returns values.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from acuse_adapters.demo.truth import Effects

__all__ = ["KIND_OF", "Judgement", "Told", "judge"]

KIND_OF = {"crm.close_case.v1": "case_closed", "email.send.v1": "email", "ticket.create.v1": "ticket"}


@dataclass(frozen=True, slots=True)
class Told:
    """What the ledger tells of one operation."""

    operation: str
    action: str
    target: str
    provider: str
    state: str
    attempts: int
    waiting: bool
    why: str
    next: str

    @property
    def wish(self) -> tuple[str, str]:
        """The kind of effect and the case."""
        return KIND_OF[self.action], self.target


@dataclass(slots=True)
class Judgement:
    """`duplicates`: effects beyond the first of a wish. `losses`: wishes of the business whose effect is not at the provider
    although the ledger does not say so openly. `broken`: sentences, one for each statement of the ledger that the stores deny.
    """

    effects: int = 0
    duplicates: int = 0
    losses: int = 0
    held: list[Told] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    states: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.duplicates or self.losses or self.broken)


def judge(closed_cases: Iterable[str], happened: Effects, told: Iterable[Told]) -> Judgement:
    """Compare what the business did with what the providers hold, then the ledger's words with both."""
    result = Judgement(effects=happened.total(), duplicates=sum(count - 1 for count in happened.values() if count > 1))
    by_wish: dict[tuple[str, str], Told] = {}
    for one in told:
        result.states[one.provider, one.state] += 1
        _contradictions(one, happened[one.wish], result)
        other = by_wish.setdefault(one.wish, one)
        if other is not one:
            result.broken.append(f"{other.operation} and {one.operation} are two operations of one wish")
    closed = set(closed_cases)
    for kind, case in (set(by_wish) | set(happened)) - {(kind, case) for kind in KIND_OF.values() for case in closed}:
        result.broken.append(f"{kind} of {case} was never wished: the business has not closed that case")
    for case in sorted(closed):
        for kind in KIND_OF.values():
            wish = (kind, case)
            if happened[wish]:
                continue
            record = by_wish.get(wish)
            if record is None or record.state == "confirmed":
                result.losses += 1
                result.broken.append(f"{kind} of {case} is at no provider, and the ledger {_says(record)}")
    return result


def _contradictions(one: Told, count: int, result: Judgement) -> None:
    if one.state == "rejected" and count:
        result.broken.append(f"{one.operation} is rejected, but its effect is at the provider")
    if one.state in {"unknown", "prepared"}:
        result.held.append(one)
        if not (one.why and one.next):
            result.broken.append(f"{one.operation} is {one.state} and nothing says {'what comes next' if one.why else 'why'}")
    if one.state == "dispatching" or (one.state == "prepared" and not one.waiting):
        result.broken.append(f"{one.operation} ({one.action} of {one.target}) was left {one.state}: {one.next}")


def _says(record: Told | None) -> str:
    if record is None:
        return "has never heard of it"
    return f"says {record.state} of {record.operation}"
