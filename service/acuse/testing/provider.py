"""The provider of a test: it keeps the truth about every operation, and answers by a script."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from acuse.errors import ConfigurationError
from acuse.identifier import operation_id
from acuse.intent import Action
from acuse.protocol import (
    Absent,
    Accepted,
    Ambiguous,
    Concerns,
    Finding,
    Found,
    NotSent,
    Outcome,
    Receipt,
    Refused,
    RefusedBefore,
)
from acuse.store.claim import Claimed
from acuse.testing.behaviour import Always, Behaviour, Script, accepted
from acuse.testing.promises import Promises

__all__ = ["Outcomes", "Provider"]

Outcomes = Mapping[Any, Script]
"""Action (its name or class), or (action, target) → what its attempts meet."""


@dataclass(frozen=True, slots=True)
class _Truth:
    """What the provider has of one operation."""

    copies: int = 0
    ours: bool = True
    seen_from: datetime | None = None
    refusal: Refused | None = None


class Provider:
    """All providers of a test in one. What they did stays true from one run to the next; scripts are of one run."""

    def __init__(self, promises: Promises) -> None:
        self._promises = promises
        self._truth: dict[str, _Truth] = {}
        self._scripts: dict[tuple[str, str | None], Script] = {}
        self._met: dict[str, int] = {}
        self._otherwise: Script = accepted

    def will(self, outcomes: Outcomes, otherwise: Script) -> None:
        """Behave like this from now on. Raises `ConfigurationError` for what is no script."""
        self._scripts = {_key(name): script for name, script in outcomes.items()}
        self._otherwise = otherwise
        self._met = {}
        for script in (*self._scripts.values(), otherwise):
            _several(script)

    def strange(self, staged: Collection[tuple[str, str]]) -> list[str]:
        """What the scripts name and is not among the actions and targets that were staged: a misspelt name, most likely."""
        known = {action for action, _ in staged}
        strange = [it for it in self._scripts if (it not in staged if it[1] is not None else it[0] not in known)]
        return sorted(action if target is None else f"{action} on {target}" for action, target in strange)

    def send(self, claimed: Claimed, now: datetime) -> Outcome | None:
        """Meet one attempt. None: the worker does not come back."""
        name = operation_id(claimed.id)
        behaviour = self._next(claimed, name)
        before = self._truth.get(name, _Truth())
        knows_key = self._promises.of(claimed.action).key is not None and before.copies > 0
        if behaviour.copies and not knows_key:
            seen_from = now + self._promises.lag(claimed.action) if behaviour.late else now
            before = replace(before, copies=before.copies + behaviour.copies, ours=behaviour.ours, seen_from=seen_from)
        if behaviour.remembers:
            refusal = behaviour.answer if isinstance(behaviour.answer, Refused) else Refused("refused", "the provider refused it")
            before = replace(before, refusal=refusal)
        self._truth[name] = before
        if not behaviour.returns:
            return None
        if behaviour.answer is None:
            return Accepted(Receipt(_result(name), "1", f"request-{claimed.attempts + 1}", replayed=knows_key))
        return _calm(behaviour.answer)

    def look_up(self, claimed: Claimed, now: datetime) -> Finding:
        """Find out what there is of an operation."""
        name = operation_id(claimed.id)
        truth = self._truth.get(name, _Truth())
        if truth.copies and truth.seen_from is not None and truth.seen_from <= now:
            ids = tuple(_result(name, number) for number in range(truth.copies))
            return Found(ids[0], content_matches=truth.ours, copies=truth.copies, result_version="1", all_ids=ids)
        if truth.refusal is not None:
            return RefusedBefore(truth.refusal.code, truth.refusal.reason)
        return Absent(target_unchanged=True)

    def _next(self, claimed: Claimed, name: str) -> Behaviour:
        key = next((it for it in ((claimed.action, claimed.target), (claimed.action, None)) if it in self._scripts), None)
        script = self._otherwise if key is None else self._scripts[key]
        met = self._met[name] = self._met.get(name, 0) + 1
        several = _several(script)
        if isinstance(script, Always):
            return several[0]
        return several[met - 1] if met <= len(several) else accepted


def _key(name: object) -> tuple[str, str | None]:
    action, target = name if isinstance(name, tuple) else (name, None)
    if isinstance(action, type) and issubclass(action, Action):
        action = action.declared.name
    if not isinstance(action, str) or not isinstance(target, str | None):
        raise ConfigurationError(f"{name!a} names no action; give its name, its class, or (action, target)")
    return action, target


def _several(script: Script) -> Sequence[Behaviour]:
    if isinstance(script, Always):
        return [_behaviour(script.behaviour)]
    if isinstance(script, Sequence) and not isinstance(script, str):
        return [_behaviour(one) for one in script]
    return [_behaviour(script)]


def _behaviour(one: object) -> Behaviour:
    match one:
        case Behaviour():
            return one
        case Accepted():
            return accepted
        case Refused() | NotSent() | Ambiguous():
            return Behaviour(type(one).__name__.lower(), one)
    raise ConfigurationError(
        f"{one!a} is no behaviour of a provider; use one of acuse.testing (lost_reply, refused, …), an outcome of "
        "acuse.protocol, a list of them, or always(…) for all attempts"
    )


def _calm(answer: Outcome) -> Outcome:
    # One provider that is away opens the breaker of its account, by lot; a test of a host is about something else.
    if isinstance(answer, NotSent | Ambiguous) and answer.concerns is Concerns.PROVIDER:
        return replace(answer, concerns=Concerns.ACCOUNT)
    return answer


def _result(name: str, number: int = 0) -> str:
    return f"R-{name[-8:]}" if number == 0 else f"R-{name[-8:]}-{number + 1}"
