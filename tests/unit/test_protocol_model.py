"""Every interleaving of one operation with a hostile provider, a dying worker, late receipts and people who write as well.

First: with the real rules, every property holds in every state, for each kind of contract. Then: with one rule broken, the model
finds a violation, and the message tells the shortest way to it.
"""

import importlib
from collections.abc import Callable, Sequence
from datetime import datetime

import pytest
from model.contracts import contract, key, lagging, strong, upsert
from model.explore import Bounds, Report, explore
from model.ledger import Rules

from acuse.protocol import (
    Absent,
    AttemptView,
    By,
    Dated,
    NotSent,
    OperationView,
    Outcome,
    Refused,
    Replays,
    Requeue,
    RetryContract,
    Settlement,
    State,
    Verdict,
    decide,
    legal,
    settlement,
)
from acuse.protocol.case import Case

KEYED = contract(key=key())
KEYED_STRONG = contract(key=key(replays=Replays.FIRST_ANSWER, on_concurrent=None), lookup=strong())
COVERING = contract(key=key(replays=Replays.FIRST_ANSWER), covering=True)
GUARDED = contract(upsert=upsert("If-Match"), lookup=strong())
UNGUARDED = contract(upsert=upsert(), lookup=strong())
SHORT = Bounds(ticks=5, attempts=2, reads=1)

HOLDS = {
    "key": (KEYED, Bounds(), ["repeats (same_key) attempt 3", "first still runs", "does nothing", "refuses the repetition"]),
    "key, concurrency undocumented": (
        contract(key=key(on_concurrent=None)),
        Bounds(),
        ["repeats (same_key)", "arrives and runs"],
    ),
    "key, first answer replayed": (contract(key=key(replays=Replays.FIRST_ANSWER)), Bounds(), ["repeats its refusal"]),
    "key, refusal covers it": (COVERING, Bounds(), ["reads 'refused_for_key' (attempt 2)"]),
    "key, a repeat says nothing": (contract(key=key(replays=Replays.NOTHING)), Bounds(), ["does nothing"]),
    "key and strong look-up": (
        KEYED_STRONG,
        Bounds(ticks=6, attempts=2, reads=2, slow_reads=True),
        ["repeats (same_key)", "-> requeue", "-> reject", "-> confirm", "comes late"],
    ),
    "key and lagging look-up": (
        contract(key=key(on_concurrent=None), lookup=lagging()),
        Bounds(ticks=6, attempts=2, reads=2),
        ["repeats (same_key)", "-> confirm"],
    ),
    "guarded upsert": (
        GUARDED,
        Bounds(ticks=4, attempts=3, reads=1),
        ["repeats (upsert) attempt 3", "precondition refuses", "'differs' is recorded -> review", "'absent' is recorded"],
    ),
    "guarded upsert, lagging": (
        contract(upsert=upsert("If-Match"), lookup=lagging()),
        SHORT,
        ["repeats (upsert)", "precondition refuses"],
    ),
    "unguarded upsert": (UNGUARDED, Bounds(ticks=5, attempts=2, reads=2), ["-> requeue", "overwrites the target"]),
    "unguarded upsert, lagging": (
        contract(upsert=upsert(), lookup=lagging(1)),
        Bounds(ticks=5, attempts=2, reads=2),
        ["repeats (upsert)", "-> requeue", "overwrites the target"],
    ),
    "strong look-up": (contract(lookup=strong()), Bounds(), ["-> requeue", "-> confirm", "worker died"]),
    "strong look-up, slow": (contract(lookup=strong()), Bounds(attempts=2, slow_reads=True), ["-> requeue", "-> confirm"]),
    "strong look-up, nothing bounds the flight": (contract(lookup=strong(), in_flight=None), Bounds(attempts=2), ["-> check"]),
    "lagging look-up": (contract(lookup=lagging(2)), Bounds(), ["-> requeue", "-> check", "-> confirm"]),
    "lagging look-up without a bound": (contract(lookup=lagging()), Bounds(), ["-> check", "-> confirm"]),
    "nothing at all": (contract(), Bounds(operator=True), ["accepts the risk", "comes late", "worker died"]),
}


@pytest.mark.invariant(5)
@pytest.mark.invariant(6)
@pytest.mark.invariant(7)
@pytest.mark.parametrize("kind", HOLDS)
def test_with_the_real_rules_every_property_holds_in_every_state(kind: str) -> None:
    promised, bounds, must_happen = HOLDS[kind]

    report = explore(promised, bounds=bounds)

    assert not report.violation, report.story()
    unseen = [what for what in must_happen if not any(what in seen for seen in report.seen)]
    assert not unseen, f"the exploration never came to: {unseen}"  # else it would hold because nothing happened


def broken(report: Report, *violations: str) -> None:
    """Assert that the model noticed, and for the reason that was meant."""
    assert any(violation in report.violation for violation in violations), report.story()
    assert report.trace, report.story()
    print(report.story())  # shown with -s, and by pytest whenever the test fails


# Invariant 5 removed.


def _forgets_older_doubts(kinds: type[Outcome] | tuple[type[Outcome], ...]) -> Callable[[Outcome, int], Settlement]:
    def rule(outcome: Outcome, earlier_doubts: int) -> Settlement:
        return settlement(outcome, 0 if isinstance(outcome, kinds) else earlier_doubts)

    return rule


@pytest.mark.invariant(5)
@pytest.mark.parametrize(
    ("kinds", "violation"),
    [
        pytest.param(NotSent, "prepared although it happened", id="not sent"),
        pytest.param(Refused, "rejected although it happened", id="refused"),
        pytest.param((NotSent, Refused), "although it happened", id="both"),
        pytest.param(Outcome, "doubts differs", id="every outcome"),
    ],
)
def test_the_model_fails_when_an_outcome_speaks_for_older_attempts(kinds: type[Outcome], violation: str) -> None:
    broken(explore(KEYED, rules=Rules(settlement=_forgets_older_doubts(kinds))), violation)


@pytest.mark.invariant(5)
def test_the_model_fails_when_a_refusal_covers_a_key_that_forgets_refusals() -> None:
    forgets = COVERING.model_copy(update={"key": key(replays=Replays.SUCCESS_ONLY)})  # cannot be constructed

    broken(explore(forgets), "rejected although it happened")


@pytest.mark.invariant(5)
def test_the_model_fails_when_an_old_refusal_speaks_for_an_attempt_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "refusal_stands", lambda *_: True)

    broken(explore(KEYED_STRONG, bounds=Bounds(attempts=2)), "rejected although it happened")


# The window arithmetic of invariant 7a removed.


def _window(deadline: int, in_flight: int, margin: int) -> Callable[[RetryContract, datetime], datetime | None]:
    def rule(promised: RetryContract, first_sent_at: datetime) -> datetime | None:
        if promised.key is None or promised.max_in_flight is None:
            return None
        spent = deadline * promised.deadline + in_flight * promised.max_in_flight.value + margin * promised.key.margin
        return first_sent_at + promised.key.retention.value - spent

    return rule


@pytest.mark.invariant(7)
@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((0, 0, 0), id="retention only"),
        pytest.param((0, 1, 1), id="without the deadline"),
        pytest.param((1, 0, 1), id="without max_in_flight"),
        pytest.param((1, 1, 0), id="without the margin"),
    ],
)
def test_the_model_fails_when_a_part_of_the_window_is_missing(
    parts: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("acuse.protocol.window", "acuse.protocol.case"):
        monkeypatch.setattr(importlib.import_module(module), "key_usable_until", _window(*parts))

    broken(explore(KEYED), "2 effects under one key")


@pytest.mark.invariant(7)
def test_the_window_as_it_is_holds_when_it_is_written_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("acuse.protocol.window", "acuse.protocol.case"):
        monkeypatch.setattr(importlib.import_module(module), "key_usable_until", _window(1, 1, 1))

    assert not explore(KEYED).violation


@pytest.mark.invariant(7)
def test_the_guard_of_dispatch_alone_holds_the_window_when_the_decision_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, module = _window(0, 0, 0), importlib.import_module("acuse.protocol.decide")
    monkeypatch.setattr(importlib.import_module("acuse.protocol.case"), "key_usable_until", wrong)
    monkeypatch.setattr(module, "key_covers", lambda promised, first, now: now <= (wrong(promised, first) or now))

    assert not explore(KEYED).violation


@pytest.mark.invariant(7)
def test_the_model_fails_when_a_concurrent_repeat_is_not_held_back_by_the_provider() -> None:
    careless = contract(key=key(on_concurrent=None))

    broken(explore(KEYED, provider=careless), "2 effects under one key")


# Absences that are no proof.


def _believes_any_absence(
    operation: OperationView,
    attempts: Sequence[AttemptView],
    contract: RetryContract,
    findings: Sequence[Dated],
    now: datetime,
) -> Verdict:
    verdict = decide(operation, attempts, contract, findings, now)
    if operation.state is State.UNKNOWN and findings and isinstance(findings[-1].finding, Absent):
        return Requeue("not found", verdict.questions)
    return verdict


@pytest.mark.invariant(7)
@pytest.mark.parametrize("promised", [contract(lookup=lagging(2)), contract(lookup=strong())], ids=["lagging", "strong"])
def test_the_model_fails_when_an_absence_is_believed_at_once(promised: RetryContract) -> None:
    broken(explore(promised, rules=Rules(decide=_believes_any_absence)), "prepared although it happened")


@pytest.mark.invariant(7)
def test_the_model_fails_when_an_absence_counts_while_a_request_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    case = importlib.import_module("acuse.protocol.case")
    monkeypatch.setattr(case, "nothing_in_flight_from", lambda promised, sent: sent + promised.deadline)

    broken(explore(contract(lookup=strong())), "prepared although it happened")


@pytest.mark.invariant(7)
def test_the_model_fails_when_the_lag_of_a_look_up_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "readable_from", Case.quiet_from)

    broken(explore(contract(lookup=lagging(2))), "prepared although it happened")


# The natural upsert: what nobody may do to another person's change.


@pytest.mark.invariant(7)
def test_the_model_fails_when_an_unguarded_upsert_is_repeated_on_an_early_look(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("acuse.protocol.decide")

    def any_look(case: Case) -> bool:
        return case.latest is not None and case.absent(case.latest) and case.speaks(case.latest)

    monkeypatch.setattr(module, "_upsert_is_safe", any_look)

    broken(explore(UNGUARDED, bounds=SHORT), "a repeat overwrote another person's change")


@pytest.mark.invariant(7)
def test_the_model_fails_when_the_provider_does_not_keep_its_precondition() -> None:
    broken(explore(GUARDED, provider=UNGUARDED, bounds=SHORT), "a repeat overwrote another person's change")


@pytest.mark.invariant(7)
def test_the_model_fails_when_a_missing_marker_on_a_changed_target_counts_as_an_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "absent", lambda _, dated: isinstance(dated.finding, Absent))

    broken(explore(UNGUARDED, bounds=SHORT), "prepared although it happened")


# Arrows, and a next step.


@pytest.mark.parametrize(("source", "target"), [(State.UNKNOWN, State.PREPARED), (State.DISPATCHING, State.UNKNOWN)])
def test_the_model_fails_when_an_arrow_that_is_taken_is_not_legal(source: State, target: State) -> None:
    def without(start: State | None, end: State, by: By) -> bool:
        return (start, end) != (source, target) and legal(start, end, by)

    broken(explore(contract(lookup=strong()), rules=Rules(legal=without)), f"illegal arrow {source} -> {target}")


def test_the_model_fails_when_an_unknown_has_no_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("acuse.protocol.decide")
    monkeypatch.setattr(module, "_next_look", lambda case: case.now)

    broken(explore(contract(lookup=strong())), "the next check")


def test_a_story_is_the_shortest_way_to_the_violation() -> None:
    report = explore(KEYED, rules=Rules(settlement=_forgets_older_doubts(NotSent)))

    lines = report.story().splitlines()

    assert lines[0] == "VIOLATION: prepared although it happened"
    assert lines[1].startswith("  t=0 a worker dispatches attempt 1")
    assert len(lines) <= 10
