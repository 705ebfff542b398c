"""The decision about an operation in doubt: tables of cases, and what people read. The vectors hold many more."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from model.example import (
    DAY,
    GUARDED,
    KEY,
    LAGS,
    LAGS_5_MIN,
    QUIET,
    SENT,
    STRONG,
    UNGUARDED,
    UNKNOWN,
    WINDOW,
    after,
    contract,
    reads,
    tries,
    verdict,
)

from acuse.protocol import (
    Absent,
    AttemptView,
    Basis,
    By,
    Check,
    Confirm,
    Finding,
    Found,
    RefusedBefore,
    Reject,
    Requeue,
    Retry,
    RetryContract,
    Review,
    Seconds,
    State,
    TargetState,
    Unavailable,
    Verdict,
    key_covers,
    key_usable_until,
    legal,
    nothing_in_flight_from,
    team,
)

# The window: invariant 7a.


@pytest.mark.invariant(7)
def test_the_window_of_a_key_is_its_retention_less_everything_a_repeat_may_still_take() -> None:
    until = key_usable_until(contract(key=KEY), SENT)

    assert until == after(WINDOW)
    assert key_covers(contract(key=KEY), SENT, after(WINDOW))
    assert not key_covers(contract(key=KEY), SENT, after(WINDOW) + timedelta(microseconds=1))


@pytest.mark.invariant(7)
@pytest.mark.parametrize(
    "more",
    [
        {"deadline": Seconds(21)},
        {"max_in_flight": team(Seconds(121), by="ops", on=DAY, because="longest seen")},
        {"key": KEY.model_copy(update={"margin": Seconds(301)})},
    ],
)
def test_each_part_of_the_arithmetic_shortens_the_window(more: dict[str, Any]) -> None:
    assert key_usable_until(contract(**{"key": KEY} | more), SENT) == after(WINDOW - 1)


def test_without_a_key_there_is_no_window() -> None:
    assert key_usable_until(contract(), SENT) is None
    assert not key_covers(contract(), SENT, SENT)


def test_nothing_is_in_flight_after_the_deadline_and_what_the_provider_may_take_longer() -> None:
    assert nothing_in_flight_from(contract(), SENT) == after(QUIET)
    assert nothing_in_flight_from(contract(max_in_flight=None), SENT) is None


@pytest.mark.invariant(7)
@pytest.mark.parametrize(
    ("now", "kind"),
    [(0, Check), (QUIET - 1, Check), (QUIET, Retry), (3600, Retry), (WINDOW, Retry), (WINDOW + 1, Review), (10**6, Review)],
)
def test_a_key_is_repeated_inside_its_window_once_the_first_request_has_ended(now: float, kind: type[Verdict]) -> None:
    decided = verdict(now, contract(key=KEY))

    assert isinstance(decided, kind)
    if isinstance(decided, Retry):
        assert (decided.basis, decided.until) == (Basis.SAME_KEY, after(WINDOW))


@pytest.mark.invariant(7)
def test_a_documented_answer_to_a_concurrent_repeat_lets_it_go_earlier() -> None:
    documented = contract(key=KEY.model_copy(update={"on_concurrent": 409}))

    assert isinstance(verdict(1, documented), Retry)
    assert isinstance(verdict(1, contract(key=KEY)), Check)


@pytest.mark.invariant(7)
@pytest.mark.parametrize("promised", [contract(key=KEY), GUARDED])
def test_nothing_is_repeated_without_standing(promised: RetryContract) -> None:
    gone = replace(UNKNOWN, standing="approval apr_9f2 was revoked")
    found = reads((150, Absent(target_unchanged=True)))[: 1 if promised.lookup else 0]

    assert not isinstance(verdict(139, promised, [], gone), Retry)
    assert isinstance(verdict(160, promised, found, gone), Review | Requeue)


# Evidence: section by section of what is conclusive.


@pytest.mark.invariant(5)
@pytest.mark.parametrize("state", [State.UNKNOWN, State.DISPATCHING, State.PREPARED])
def test_our_marker_confirms_from_every_state_that_is_open(state: State) -> None:
    decided = verdict(9, contract(lookup=LAGS), reads((8, Found("T-81", result_version="3"))), replace(UNKNOWN, state=state))

    assert isinstance(decided, Confirm)
    assert (decided.result_id, decided.result_version, decided.duplicates) == ("T-81", "3", 0)


def test_our_marker_more_than_once_is_confirmed_and_counted() -> None:
    decided = verdict(9, contract(lookup=LAGS), reads((8, Found("T-81", copies=3))))

    assert isinstance(decided, Confirm)
    assert decided.duplicates == 2
    assert "it happened 3 times" in decided.reason


@pytest.mark.invariant(5)
@pytest.mark.parametrize("later", [Absent(), Unavailable("503"), TargetState()])
def test_a_later_miss_does_not_free_what_once_carried_our_marker(later: Finding) -> None:
    findings = reads((8, Found("T-81", content_matches=False)), (600, later), (700, later))

    decided = verdict(701, contract(lookup=STRONG), findings)

    assert isinstance(decided, Review)
    assert decided.incident == "content_differs"


@pytest.mark.invariant(5)
def test_a_matching_end_state_without_our_marker_proves_nothing() -> None:
    decided = verdict(900, contract(lookup=STRONG), reads((800, TargetState("7"))))

    assert isinstance(decided, Check)
    assert "somebody else may have done it" in decided.reason


def test_the_provider_s_own_record_of_a_refusal_rejects() -> None:
    decided = verdict(9, contract(lookup=LAGS), reads((8, RefusedBefore("422", "subject is missing"))))

    assert isinstance(decided, Reject)
    assert decided.outcome_code == "refused_before"
    assert "subject is missing" in decided.reason


@pytest.mark.invariant(5)
def test_a_record_of_a_refusal_says_nothing_of_a_later_attempt_that_may_still_be_carried_out() -> None:
    record = RefusedBefore("422", "subject is missing")

    early = verdict(200, contract(lookup=STRONG), reads((199, record), attempt=2), attempts=tries(0, 150))
    late = verdict(300, contract(lookup=STRONG), reads((150 + QUIET, record), attempt=2), attempts=tries(0, 150))

    assert isinstance(early, Check)
    assert "may still be carried out" in early.reason
    assert isinstance(late, Reject)


@pytest.mark.parametrize("state", [State.PREPARED, State.DISPATCHING])
def test_a_record_of_a_refusal_moves_only_what_is_unknown(state: State) -> None:
    assert not legal(state, State.REJECTED, By.EVIDENCE)

    decided = verdict(9, contract(lookup=LAGS), reads((8, RefusedBefore("422", "x"))), replace(UNKNOWN, state=state))

    assert isinstance(decided, Check)


@pytest.mark.invariant(5)
def test_a_record_of_a_refusal_does_not_reject_what_carries_our_marker() -> None:
    findings = reads((8, Found("T-81", content_matches=False)), (500, RefusedBefore("422", "x")))

    assert isinstance(verdict(501, contract(lookup=STRONG), findings), Review)


@pytest.mark.invariant(7)
@pytest.mark.parametrize(("started", "kind"), [(0, Check), (QUIET - 1, Check), (QUIET, Requeue), (5000, Requeue)])
def test_a_strong_absence_is_proof_once_nothing_can_be_in_flight(started: float, kind: type[Verdict]) -> None:
    assert isinstance(verdict(started, contract(lookup=STRONG), reads((started, Absent()))), kind)


@pytest.mark.invariant(7)
def test_a_read_is_judged_by_its_start_and_not_by_its_end() -> None:
    assert isinstance(verdict(QUIET + 60, contract(lookup=STRONG), reads((QUIET - 1, Absent()))), Check)


@pytest.mark.invariant(7)
@pytest.mark.parametrize(
    ("starts", "kind"),
    [
        ((440,), Check),
        ((440, 440), Check),
        ((440, 444.9), Check),
        ((439.9, 445), Check),
        ((300, 310), Check),
        ((440, 445), Requeue),
        ((100, 440, 450), Requeue),
    ],
)
def test_a_lagging_absence_needs_two_spaced_reads_that_both_began_after_the_bound(
    starts: tuple[float, ...], kind: type[Verdict]
) -> None:
    findings = reads(*((start, Absent()) for start in starts))

    assert isinstance(verdict(500, contract(lookup=LAGS_5_MIN), findings), kind)


@pytest.mark.invariant(6)
@pytest.mark.parametrize("promised", [contract(lookup=LAGS), contract(lookup=STRONG, max_in_flight=None)])
def test_without_a_stated_bound_an_absence_is_never_proof(promised: RetryContract) -> None:
    one = verdict(10**7, promised, reads((10**7 - 1, Absent())))
    eight = verdict(10**7, promised, reads(*((10**6 * n, Absent()) for n in range(1, 9))))

    assert isinstance(one, Check)
    assert isinstance(eight, Review)


@pytest.mark.invariant(7)
def test_an_absence_speaks_of_the_attempt_that_it_was_read_for() -> None:
    stale = reads((300, Absent()), attempt=1)
    fresh = reads((300, Absent()), attempt=2)

    assert isinstance(verdict(301, contract(lookup=STRONG), stale, attempts=tries(0, 150)), Check)
    assert isinstance(verdict(301, contract(lookup=STRONG), fresh, attempts=tries(0, 150)), Requeue)


def test_no_look_up_frees_a_key_that_is_known_with_another_body() -> None:
    asked = [AttemptView(1, SENT, doubtful=True, review=True), AttemptView(2, after(60), doubtful=False)]

    decided = verdict(900, contract(key=KEY, lookup=STRONG), reads((800, Absent()), attempt=2), attempts=asked)

    assert isinstance(decided, Review)
    assert decided.incident == "key_conflict"


# The natural upsert: invariant 7b.

UNCHANGED, CHANGED = Absent(target_unchanged=True), Absent()


@pytest.mark.invariant(7)
def test_a_guarded_upsert_is_repeated_after_a_look_that_shows_the_target_unchanged() -> None:
    assert isinstance(verdict(5, GUARDED), Check)

    decided = verdict(5, GUARDED, reads((4, UNCHANGED)))

    assert isinstance(decided, Retry)
    assert (decided.basis, decided.until) == (Basis.UPSERT, None)


@pytest.mark.invariant(7)
@pytest.mark.parametrize("promised", [GUARDED, UNGUARDED])
def test_an_upsert_is_neither_repeated_nor_freed_over_somebody_s_change(promised: RetryContract) -> None:
    decided = verdict(900, promised, reads((800, CHANGED), (810, CHANGED)))

    assert isinstance(decided, Check)
    assert "somebody changed the target since our first send" in decided.reason


@pytest.mark.invariant(7)
def test_an_upsert_needs_a_look_that_began_after_the_last_attempt() -> None:
    assert isinstance(verdict(30, GUARDED, reads((5, UNCHANGED)), attempts=tries(0, 10)), Check)
    assert isinstance(verdict(30, GUARDED, reads((15, UNCHANGED), attempt=2), attempts=tries(0, 10)), Retry)


@pytest.mark.invariant(7)
@pytest.mark.parametrize(("started", "kind"), [(4, Check), (QUIET, Check), (439, Check), (440, Retry)])
def test_an_upsert_that_the_provider_does_not_guard_waits_until_the_look_shows_everything(
    started: float, kind: type[Verdict]
) -> None:
    assert isinstance(verdict(started + 1, UNGUARDED, reads((started, UNCHANGED))), kind)


# A provider that is away.


def silence(every: float, count: int) -> list[tuple[float, Finding]]:
    return [(QUIET + every * n, Unavailable("503")) for n in range(count)]


@pytest.mark.parametrize(
    ("findings", "now", "kind"),
    [
        (silence(60, 60), QUIET + 3600, Check),
        (silence(1800, 48), QUIET + 86399, Check),
        (silence(1800, 48), QUIET + 86400, Review),
        # It came back in between: its silence is counted anew, and its answers by themselves
        ([*silence(1800, 47), (QUIET + 84600, Absent()), (QUIET + 86400, Unavailable("503"))], QUIET + 86401, Check),
        ([*((QUIET + 60 * n, Absent()) for n in range(7)), *silence(60, 7)], QUIET + 3600, Check),
        ([*((QUIET + 60 * n, Absent()) for n in range(8)), *silence(60, 1)], QUIET + 3600, Review),
    ],
)
def test_a_look_up_that_fails_is_no_answer_and_a_day_of_them_is_for_a_person(
    findings: list[tuple[float, Finding]], now: float, kind: type[Verdict]
) -> None:
    assert isinstance(verdict(now, contract(lookup=LAGS), reads(*findings)), kind)
