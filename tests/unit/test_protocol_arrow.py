"""The only legal arrows, as one table that is written down here a second time."""

import itertools

import pytest

from acuse.protocol import ARROWS, FINAL, By, State, arrow, legal

TABLE: dict[tuple[State | None, State], set[By]] = {
    (None, State.PREPARED): {By.HOST, By.OPERATOR},
    (State.PREPARED, State.DISPATCHING): {By.WORKER},
    (State.PREPARED, State.CONFIRMED): {By.EVIDENCE},
    (State.PREPARED, State.REJECTED): {By.HOST, By.WORKER, By.OPERATOR},
    (State.PREPARED, State.UNKNOWN): {By.OPERATOR},
    (State.DISPATCHING, State.CONFIRMED): {By.WORKER, By.EVIDENCE},
    (State.DISPATCHING, State.PREPARED): {By.WORKER},
    (State.DISPATCHING, State.REJECTED): {By.WORKER},
    (State.DISPATCHING, State.UNKNOWN): {By.WORKER, By.RECOVER},
    (State.UNKNOWN, State.DISPATCHING): {By.WORKER, By.OPERATOR},
    (State.UNKNOWN, State.PREPARED): {By.RECOVER},
    (State.UNKNOWN, State.CONFIRMED): {By.EVIDENCE, By.OPERATOR},
    (State.UNKNOWN, State.REJECTED): {By.EVIDENCE, By.OPERATOR},
}
EVERY = list(itertools.product([None, *State], State, By))


@pytest.mark.parametrize(("source", "target", "by"), EVERY)
def test_exactly_the_arrows_of_the_table_are_legal(source: State | None, target: State, by: By) -> None:
    assert legal(source, target, by) == (by in TABLE.get((source, target), set()))


def test_each_arrow_is_there_once_and_says_when() -> None:
    assert len({(a.source, a.target) for a in ARROWS}) == len(ARROWS) == len(TABLE)
    assert all(a.when for a in ARROWS)


def test_an_arrow_is_found_by_its_ends() -> None:
    found = arrow(State.UNKNOWN, State.PREPARED)

    assert found is not None
    assert found.by == {By.RECOVER}
    assert arrow(State.CONFIRMED, State.PREPARED) is None


def test_nothing_leads_out_of_a_final_state() -> None:
    assert FINAL == {State.CONFIRMED, State.REJECTED} == {s for s in State if s.final}
    assert not [a for a in ARROWS if a.source in FINAL]


@pytest.mark.invariant(6)
def test_time_alone_takes_nothing_out_of_unknown() -> None:
    """The recover loop may free an unknown operation by an absence only; it can neither settle nor repeat it."""
    assert {t for t in State if legal(State.UNKNOWN, t, By.RECOVER)} == {State.PREPARED}


@pytest.mark.invariant(6)
def test_an_expired_claim_moves_nothing_but_a_dispatching_operation_to_unknown() -> None:
    moved = {(s, t) for s in State for t in State if legal(s, t, By.RECOVER)} - {(State.UNKNOWN, State.PREPARED)}

    assert moved == {(State.DISPATCHING, State.UNKNOWN)}


def test_what_is_on_the_wire_is_out_of_reach_of_host_and_operator() -> None:
    assert not [t for t in State for by in (By.HOST, By.OPERATOR) if legal(State.DISPATCHING, t, by)]


def test_the_words_are_those_of_code_tables_and_logs() -> None:
    assert [s.value for s in State] == ["prepared", "dispatching", "confirmed", "rejected", "unknown"]
