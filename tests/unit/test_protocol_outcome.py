"""What a send can end in, and what that makes of the operation; and when a later finding contradicts what is settled."""

import typing
from datetime import timedelta

import pytest

from acuse.protocol import (
    Absent,
    Accepted,
    Ambiguous,
    By,
    Finding,
    Found,
    NotSent,
    Outcome,
    Receipt,
    Refused,
    RefusedBefore,
    Settlement,
    State,
    TargetState,
    Unavailable,
    backoff,
    contradiction,
    legal,
    settlement,
)

ACCEPTED = Accepted(Receipt("T-81"))
REFUSED = Refused("422", "subject is missing")
REFUSED_FOR_KEY = Refused("402", "card declined", covers_key=True)
NOT_SENT = NotSent("429", retry_after=timedelta(seconds=30))
ACCOUNT_FAULT = NotSent("401", account_fault=True)
AMBIGUOUS = Ambiguous("read timeout")
FOR_A_PERSON = Ambiguous("the key is known with another body", review=True)
ALL: list[Outcome] = [ACCEPTED, REFUSED, REFUSED_FOR_KEY, NOT_SENT, ACCOUNT_FAULT, AMBIGUOUS, FOR_A_PERSON]


def test_there_is_no_fifth_outcome() -> None:
    assert set(typing.get_args(Outcome)) == {Accepted, Refused, NotSent, Ambiguous}


@pytest.mark.parametrize(
    ("outcome", "state", "doubts", "doubtful"),
    [
        (ACCEPTED, State.CONFIRMED, 0, False),
        (REFUSED, State.REJECTED, 0, False),
        (REFUSED_FOR_KEY, State.REJECTED, 0, False),
        (NOT_SENT, State.PREPARED, 0, False),
        (ACCOUNT_FAULT, State.PREPARED, 0, False),
        (AMBIGUOUS, State.UNKNOWN, 1, True),
        (FOR_A_PERSON, State.UNKNOWN, 1, True),
    ],
)
def test_without_an_older_doubt_an_outcome_decides_alone(outcome: Outcome, state: State, doubts: int, doubtful: bool) -> None:
    result = settlement(outcome, 0)

    assert (result.state, result.doubts, result.attempt_doubtful) == (state, doubts, doubtful)


@pytest.mark.invariant(5)
@pytest.mark.parametrize("older", [1, 2, 7])
@pytest.mark.parametrize("outcome", [REFUSED, NOT_SENT, ACCOUNT_FAULT])
def test_with_an_older_doubt_an_outcome_speaks_for_its_own_attempt_only(outcome: Outcome, older: int) -> None:
    result = settlement(outcome, older)

    assert result.state is State.UNKNOWN
    assert result.doubts == older
    assert not result.attempt_doubtful


@pytest.mark.invariant(5)
@pytest.mark.parametrize("older", [1, 2])
def test_a_refusal_that_covers_the_key_speaks_for_every_attempt(older: int) -> None:
    assert settlement(REFUSED_FOR_KEY, older) == Settlement(State.REJECTED, 0, False, "refused")


@pytest.mark.parametrize("older", [0, 1, 2])
def test_a_receipt_confirms_whatever_is_in_doubt(older: int) -> None:
    assert settlement(ACCEPTED, older) == Settlement(State.CONFIRMED, 0, False, "accepted")


@pytest.mark.parametrize("older", [0, 1, 2])
def test_an_ambiguous_answer_adds_a_doubt(older: int) -> None:
    assert settlement(AMBIGUOUS, older) == Settlement(State.UNKNOWN, older + 1, True, "ambiguous")


@pytest.mark.parametrize("older", [0, 1, 3])
@pytest.mark.parametrize("outcome", ALL)
def test_every_settlement_is_a_legal_arrow_and_leaves_no_doubt_outside_unknown(outcome: Outcome, older: int) -> None:
    result = settlement(outcome, older)

    assert legal(State.DISPATCHING, result.state, By.WORKER)
    assert (result.doubts > 0) == (result.state is State.UNKNOWN)


def test_a_negative_count_of_doubts_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="earlier_doubts is -1"):
        settlement(NOT_SENT, -1)


DIFFERS = Found("T-81", content_matches=False)
TWICE = Found("T-81", copies=2)
REFUSAL = RefusedBefore("422", "subject is missing")


@pytest.mark.parametrize(
    ("state", "finding", "incident"),
    [
        (State.REJECTED, Found("T-81"), "effect_after_rejection"),
        (State.REJECTED, DIFFERS, "effect_after_rejection"),
        (State.REJECTED, REFUSAL, None),
        (State.REJECTED, Absent(), None),
        (State.CONFIRMED, Found("T-81"), None),
        (State.CONFIRMED, TWICE, "duplicate_effect"),
        (State.CONFIRMED, DIFFERS, "content_differs"),
        (State.CONFIRMED, REFUSAL, "refusal_after_confirmation"),
        (State.CONFIRMED, Absent(), None),
        (State.CONFIRMED, TargetState(), None),
        (State.CONFIRMED, Unavailable("503"), None),
        (State.UNKNOWN, TWICE, None),
        (State.PREPARED, Found("T-81"), None),
        (State.DISPATCHING, DIFFERS, None),
    ],
)
def test_a_finding_that_contradicts_what_is_settled_is_an_incident(state: State, finding: Finding, incident: str | None) -> None:
    assert contradiction(state, finding) == incident


def test_waits_double_up_to_the_longest() -> None:
    first, longest = timedelta(seconds=1), timedelta(minutes=5)

    assert [backoff(n, first=first, longest=longest).total_seconds() for n in (-1, 0, 1, 2, 8, 9, 10_000)] == [
        1,
        1,
        2,
        4,
        256,
        300,
        300,
    ]
