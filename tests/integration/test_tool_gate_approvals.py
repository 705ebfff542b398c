"""The gate with real approvals: a call waits for a person without anybody waiting, and it is said what became of it."""

from datetime import timedelta
from typing import Any

import pytest
from agent_bench import AgentBench, close, send
from sqlalchemy import Engine, text
from stepper import take, try_dispatch

from acuse import Approvals, State
from acuse.agents import Need, Outcome, ToolAnswer


@pytest.fixture
def approvals(tenant: str) -> Approvals:
    return Approvals(tenant=tenant)


@pytest.fixture
def bench(engine: Engine, tenant: str, approvals: Approvals) -> AgentBench:
    made = AgentBench(engine, tenant, approvals=approvals)
    made.email(Need.REQUIRED, approval_expires_in=timedelta(minutes=5))
    made.close_case(Need.REQUIRED)
    return made


def pending(bench: AgentBench, approvals: Approvals) -> list[str]:
    with bench.engine.connect() as connection:
        return [one.approval_id for one in approvals.pending(connection)]


def decide(bench: AgentBench, approvals: Approvals, approve: bool, **how: Any) -> None:
    with bench.engine.begin() as connection:
        for one in approvals.pending(connection):
            approvals.decide(connection, one.approval_id, approve, by="ann", **how)


def gate_of(bench: AgentBench, answer: ToolAnswer) -> str:
    """What dispatch says of its operation when a worker comes."""
    return try_dispatch(bench.engine, take(bench.engine, answer.operation_id or "")).gate


def test_a_call_waits_for_a_person_and_its_operation_is_kept(bench: AgentBench, approvals: Approvals) -> None:
    bench.decide(send())
    answer = bench.call(send(), wait=timedelta(seconds=30))  # and does not wait for the person
    assert (answer.outcome, answer.is_error) == (Outcome.WAITING_FOR_APPROVAL, False)
    assert answer.operation_id
    assert answer.operation_id in answer.content
    # However often it is tried, also after a crash, it is one question
    bench.call(send())
    bench.crash()
    bench.call(send())
    assert len(pending(bench, approvals)) == 1
    # The person's yes lets it go, whether or not an agent lives
    decide(bench, approvals, approve=True)
    bench.drive(answer, State.CONFIRMED)
    assert bench.answers([send()])[0].outcome is Outcome.CONFIRMED


@pytest.mark.parametrize("how", ["denied", "expired", "revoked"])
def test_what_was_not_approved_is_not_sent_and_the_words_say_why(bench: AgentBench, approvals: Approvals, how: str) -> None:
    bench.decide(send())
    staged = bench.call(send())
    [asked] = pending(bench, approvals)
    if how == "denied":
        decide(bench, approvals, approve=False, reason="not today")
    elif how == "revoked":
        with bench.engine.begin() as connection:
            approvals.revoke(connection, asked, by="ann", reason="a mistake")
    else:
        with bench.engine.begin() as connection:
            connection.execute(
                text("update acuse.approval set expires_at = clock_timestamp() - interval '1 s' where tenant = :t"),
                {"t": bench.tenant},
            )
    assert gate_of(bench, staged) == f"approval_{how}"
    [answer] = bench.answers([send()])
    assert (answer.outcome, answer.is_error) == (Outcome.NOT_SENT, True)
    assert how in answer.content


@pytest.mark.parametrize("how", ["denied", "revoked"])
def test_a_question_that_was_answered_before_is_not_asked_again(bench: AgentBench, approvals: Approvals, how: str) -> None:
    # Given an identity that was refused to this run, and a model that asks for the very same again
    bench.decide(close())
    staged = bench.call(close())
    if how == "denied":
        decide(bench, approvals, approve=False)
    else:
        with bench.engine.begin() as connection:
            approvals.revoke(connection, pending(bench, approvals)[0], by="ann", reason="a mistake")
    gate_of(bench, staged)
    bench.answers([close()])
    bench.decide(close("toolu_2"), close("toolu_3", resolution="duplicate"))
    same = bench.call(close("toolu_2"))
    assert same.outcome is Outcome.NOT_SENT
    assert how in same.content
    assert pending(bench, approvals) == []
    # Other content is another question
    other = bench.call(close("toolu_3", resolution="duplicate"))
    assert other.outcome is Outcome.WAITING_FOR_APPROVAL
    assert bench.ledger.get(other.operation_id or "").succeeds == staged.operation_id


def test_what_the_provider_refused_needs_a_new_approval(bench: AgentBench, approvals: Approvals) -> None:
    bench.decide(close())
    staged = bench.call(close())
    decide(bench, approvals, approve=True)
    bench.drive(staged, State.REJECTED)
    assert bench.answers([close()])[0].outcome is Outcome.REJECTED
    bench.decide(close("toolu_2"))
    again = bench.call(close("toolu_2"))
    assert again.outcome is Outcome.WAITING_FOR_APPROVAL
    assert len(pending(bench, approvals)) == 1
    decide(bench, approvals, approve=True)
    bench.drive(again, State.CONFIRMED)
    assert bench.call(close("toolu_2")).outcome is Outcome.CONFIRMED


def test_no_question_is_asked_about_what_happened(bench: AgentBench, approvals: Approvals) -> None:
    bench.decide(close())
    staged = bench.call(close())
    decide(bench, approvals, approve=True)
    bench.drive(staged, State.CONFIRMED)
    bench.answers([close()])
    bench.decide(close("toolu_2"))
    assert bench.call(close("toolu_2")).outcome is Outcome.CONFIRMED
    assert pending(bench, approvals) == []


def test_an_approval_that_the_host_has_already_is_used_in_place_of_asking(bench: AgentBench, approvals: Approvals) -> None:
    with bench.engine.begin() as connection:
        pattern = approvals.grant_pattern(connection, "email.send.v1", target_prefix="case-", by="ann", max_uses=5)
    bench.decide(send())
    answer = bench.call(send(), approval=pattern)
    assert answer.outcome is Outcome.IN_PROGRESS
    assert bench.ledger.get(answer.operation_id or "").approval_id == pattern
    assert pending(bench, approvals) == []


def test_what_a_person_grants_after_the_run_was_cancelled_is_not_sent(bench: AgentBench, approvals: Approvals) -> None:
    bench.decide(send())
    staged = bench.call(send())
    with bench.engine.begin() as connection:
        assert bench.journal.cancel(connection, bench.run.run_id, by="ann", reason="wrong customer") == ()
    decide(bench, approvals, approve=True)
    assert gate_of(bench, staged) == "workflow_cancelled"
