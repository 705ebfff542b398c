"""What people read of a decision, and that there is always a next step."""

from dataclasses import replace
from datetime import timedelta, timezone

import pytest
from model.example import (
    GUARDED,
    KEY,
    LAGS,
    LAGS_5_MIN,
    QUIET,
    SENT,
    STRONG,
    UNGUARDED,
    UNKNOWN,
    after,
    contract,
    reads,
    tries,
    verdict,
)

from acuse.protocol import (
    Absent,
    Check,
    Dated,
    Finding,
    Requeue,
    Retry,
    RetryContract,
    Review,
    State,
    TargetState,
    Unavailable,
    decide,
)
from acuse.protocol.vector import DecideVector, decide_vectors

VECTORS = list(decide_vectors())
KEYED_LAGS = contract(key=KEY, lookup=LAGS)


@pytest.mark.parametrize("state", [State.CONFIRMED, State.REJECTED])
def test_nothing_is_decided_about_what_is_final(state: State) -> None:
    with pytest.raises(ValueError, match=r"op_1 is .* final"):
        verdict(1, contract(), operation=replace(UNKNOWN, state=state))


@pytest.mark.invariant(6)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_without_a_finding_no_passing_of_time_frees_or_settles_an_unknown(vector: DecideVector) -> None:
    operation = replace(vector.operation, state=State.UNKNOWN)

    for days in (0, 1, 30, 3650):
        decided = decide(operation, vector.attempts, vector.contract, [], vector.now + timedelta(days=days))
        assert isinstance(decided, Check | Retry | Review)
        assert days < 1 or not isinstance(decided, Retry)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_each_verdict_has_a_reason_and_an_answer_to_the_five_questions(vector: DecideVector) -> None:
    decided = vector.decided()

    assert decided.reason
    asked = decided.questions
    assert all((asked.which_operation, asked.key_or_lookup, asked.observable, asked.old_worker, asked.standing))


ABSENT = reads((4, Absent()))
READ_SENTENCES = [
    (5, contract(), [], "neither a key nor a look-up. A repeat means: the customer gets a second ticket"),
    (QUIET, contract(key=KEY), [], "a repeat is safe until 2026-11-30 12:33:47 UTC"),
    (5, contract(key=KEY), [], "It waits until 2026-11-30 10:43:27 UTC"),
    (9000, contract(key=KEY), [], "The key's window closed at 2026-11-30 12:33:47 UTC. A repeat means:"),
    (5, KEYED_LAGS, ABSENT, "looked up once by external_id: not found. This search may lag"),
    (5, KEYED_LAGS, ABSENT, "a repeat is safe until 2026-11-30 12:33:47 UTC"),
    (9000, contract(lookup=LAGS), ABSENT, "This search may lag and nobody states by how much, so that is no proof"),
    (9, contract(lookup=LAGS_5_MIN), ABSENT, "no proof before 2026-11-30 10:48:27 UTC"),
    (500, contract(lookup=LAGS_5_MIN), reads((450, Absent())), "no proof until a second read agrees"),
    (9, contract(lookup=STRONG), ABSENT, "may still be in flight"),
    (9, contract(lookup=STRONG), reads((4, Unavailable("503"))), "no answer, which says nothing"),
    (9, contract(lookup=STRONG), [], "not looked up by external_id yet"),
]


@pytest.mark.parametrize(("now", "promised", "findings", "sentence"), READ_SENTENCES)
def test_the_reason_says_what_a_person_needs(now: float, promised: RetryContract, findings: list[Dated], sentence: str) -> None:
    assert sentence in verdict(now, promised, findings).reason


def test_the_reason_says_what_is_missing_when_a_key_could_be_repeated() -> None:
    gone = replace(UNKNOWN, standing="approval apr_9f2 was revoked")

    reason = verdict(200, contract(key=KEY), operation=gone).reason

    assert "safe until 2026-11-30 12:33:47 UTC, but approval apr_9f2 was revoked" in reason


def test_times_are_told_in_utc_whatever_zone_the_driver_hands_out() -> None:
    berlin = timezone(timedelta(hours=1))
    there = replace(UNKNOWN, first_sent_at=SENT.astimezone(berlin))

    assert verdict(QUIET, contract(key=KEY), operation=there).reason == verdict(QUIET, contract(key=KEY)).reason


def test_the_questions_say_whether_the_old_worker_may_still_write() -> None:
    assert "still holds" in verdict(5, contract(), operation=replace(UNKNOWN, claim_live=True)).questions.old_worker
    assert "stale" in verdict(5, contract()).questions.old_worker


@pytest.mark.parametrize(
    "promised", [contract(lookup=LAGS), contract(lookup=STRONG), contract(key=KEY, lookup=LAGS_5_MIN), GUARDED, UNGUARDED]
)
@pytest.mark.parametrize("finding", [Absent(), TargetState(), Unavailable("503")])
def test_looking_ends_in_a_repeat_an_absence_or_a_person(promised: RetryContract, finding: Finding) -> None:
    now, findings = after(1), list[Dated]()

    for _ in range(60):
        decided = decide(replace(UNKNOWN, standing="no approval"), tries(0), promised, findings, now)
        if not isinstance(decided, Check):
            break
        assert now < decided.at <= now + timedelta(minutes=30)
        now = decided.at
        findings.append(Dated(finding, now, 1))

    assert isinstance(decided, Review | Requeue)
