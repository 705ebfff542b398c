"""Read and run the language-neutral vectors: what any other implementation of this protocol must decide as well.

`python -m acuse.protocol.vector` runs them all. The format is described in `vectors/README.md`.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import TypeAdapter

from acuse.protocol.arrow import ARROWS
from acuse.protocol.contract import RetryContract
from acuse.protocol.decide import AttemptView, OperationView, decide
from acuse.protocol.finding import Absent, Dated, Found, RefusedBefore, TargetState, Unavailable
from acuse.protocol.outcome import Accepted, Ambiguous, NotSent, Outcome, Refused, settlement
from acuse.protocol.verdict import Verdict

__all__ = ["DecideVector", "OutcomeVector", "arrow_problems", "decide_vectors", "main", "outcome_vectors", "verdict_json"]

_Json = Mapping[str, Any]  # what a JSON object is before it is checked
_T = TypeVar("_T")

_FINDINGS: dict[str, type[Found | TargetState | Absent | RefusedBefore | Unavailable]] = {
    "found": Found,
    "target_state": TargetState,
    "absent": Absent,
    "refused_before": RefusedBefore,
    "unavailable": Unavailable,
}
_OUTCOMES: dict[str, type[Outcome]] = {
    "accepted": Accepted,
    "refused": Refused,
    "not_sent": NotSent,
    "ambiguous": Ambiguous,
}


@dataclass(frozen=True, slots=True)
class DecideVector:
    """A contract, a history and a moment, with the verdict and its reason that follow."""

    name: str
    contract: RetryContract
    operation: OperationView
    attempts: tuple[AttemptView, ...]
    findings: tuple[Dated, ...]
    now: datetime
    verdict: dict[str, object]
    reason: str
    questions: dict[str, str]

    def decided(self) -> Verdict:
        """Return what this implementation decides."""
        return decide(self.operation, self.attempts, self.contract, self.findings, self.now)

    def problems(self) -> list[str]:
        """Return where the decision differs from the vector; empty if it does not."""
        verdict = self.decided()
        pairs: tuple[tuple[str, object, object], ...] = (
            ("verdict", verdict_json(verdict), self.verdict),
            ("reason", verdict.reason, self.reason),
            ("questions", asdict(verdict.questions), self.questions),
        )
        return [f"{self.name}: {what} is {got!r}, not {want!r}" for what, got, want in pairs if got != want]


@dataclass(frozen=True, slots=True)
class OutcomeVector:
    """The outcome of one attempt and the number of older attempts in doubt, with the settlement that follows."""

    name: str
    outcome: Outcome
    earlier_doubts: int
    settlement: dict[str, object]

    def problems(self) -> list[str]:
        """Return where the settlement differs from the vector; empty if it does not."""
        result = settlement(self.outcome, self.earlier_doubts)
        got = {
            "state": result.state.value,
            "doubts": result.doubts,
            "attempt_doubtful": result.attempt_doubtful,
            "outcome_code": str(result.outcome_code),
        }
        return [] if got == self.settlement else [f"{self.name}: settlement is {got!r}, not {self.settlement!r}"]


def decide_vectors() -> Iterator[DecideVector]:
    """Yield the vectors of the decision. Raises `ValueError`, naming the vector, if one cannot be read."""
    for data in _objects("decide.json"):
        try:
            yield DecideVector(
                name=data["name"],
                contract=RetryContract.model_validate(data["contract"]),
                operation=_read(OperationView, data["operation"]),
                attempts=tuple(_read(AttemptView, attempt) for attempt in data["attempts"]),
                findings=tuple(_dated(finding) for finding in data["findings"]),
                now=datetime.fromisoformat(data["now"]),
                verdict=dict(data["verdict"]),
                reason=data["reason"],
                questions=dict(data["questions"]),
            )
        except (KeyError, ValueError) as error:
            raise ValueError(f"decide.json, vector {data.get('name')!r} cannot be read: {error!r}") from error


def outcome_vectors() -> Iterator[OutcomeVector]:
    """Yield the vectors of the settlement. Raises `ValueError`, naming the vector, if one cannot be read."""
    for data in _objects("outcome.json"):
        try:
            outcome = _read(_OUTCOMES[data["outcome"]["kind"]], _without_kind(data["outcome"]))
            yield OutcomeVector(data["name"], outcome, data["earlier_doubts"], dict(data["settlement"]))
        except (KeyError, ValueError) as error:
            raise ValueError(f"outcome.json, vector {data.get('name')!r} cannot be read: {error!r}") from error


def arrow_problems() -> list[str]:
    """Return the arrows in which this implementation differs from `arrows.json`; empty if it does not."""
    ours = {(_name(a.source), a.target.value, frozenset(by.value for by in a.by)) for a in ARROWS}
    theirs = {(data["from"], data["to"], frozenset(data["by"])) for data in _objects("arrows.json")}
    return [f"arrow {source} -> {target} by {sorted(by)}" for source, target, by in sorted(ours ^ theirs, key=str)]


def verdict_json(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as the vectors write it: `kind` and its own fields, times in ISO 8601 UTC."""
    shown: dict[str, object] = {"kind": type(verdict).__name__.lower()}
    for field in fields(verdict):
        if field.name not in ("reason", "questions"):
            value = getattr(verdict, field.name)
            shown[field.name] = _time(value) if isinstance(value, datetime) else value
    return shown


def main() -> int:
    """Run every vector, print the count, and return 1 if one differs."""
    decisions, outcomes = list(decide_vectors()), list(outcome_vectors())
    problems = [p for vector in decisions for p in vector.problems()]
    problems += [p for vector in outcomes for p in vector.problems()]
    problems += arrow_problems()
    for problem in problems:
        print(problem)
    print(f"{len(decisions)} decisions, {len(outcomes)} outcomes, {len(ARROWS)} arrows: {len(problems)} differ")
    return 1 if problems else 0


def _objects(name: str) -> list[_Json]:
    text = (files("acuse.protocol") / "vectors" / name).read_text(encoding="utf-8")
    return TypeAdapter(list[_Json]).validate_python(json.loads(text))


def _read(shape: type[_T], data: _Json) -> _T:
    known = TypeAdapter(shape)
    written = known.dump_python(read := known.validate_python(data))
    if unknown := data.keys() - written.keys():
        raise ValueError(f"{shape.__name__} has no {', '.join(sorted(unknown))}")
    return read


def _dated(data: _Json) -> Dated:
    shape = _FINDINGS[data["kind"]]
    own = {k: v for k, v in _without_kind(data).items() if k not in ("started_at", "attempt")}
    return Dated(_read(shape, own), datetime.fromisoformat(data["started_at"]), data["attempt"])


def _without_kind(data: _Json) -> _Json:
    return {k: v for k, v in data.items() if k != "kind"}


def _name(value: str | None) -> str | None:
    return None if value is None else str(value)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


if __name__ == "__main__":
    sys.exit(main())
