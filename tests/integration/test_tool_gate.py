"""The tool gate on effects: what happened is asked first, what is told is true, and no call makes an effect twice."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from agent_bench import AgentBench, close, send
from racing import until
from sqlalchemy import Engine, text
from stepper import ACCEPTED, end, take, try_dispatch
from stepper import send as dispatch

from acuse import Approvals, InvalidField, State
from acuse.agents import CallsUnanswered, Need, Outcome, RunEnded, StaleRun, ToolCall
from acuse.errors import AcuseError


@pytest.fixture
def bench(engine: Engine, tenant: str) -> AgentBench:
    made = AgentBench(engine, tenant)
    made.email()
    made.close_case()
    return made


def test_an_effect_is_staged_with_the_record_of_its_call_and_the_answer_says_where_it_is(bench: AgentBench) -> None:
    bench.decide(send())
    answer = bench.call(send())
    assert (answer.outcome, answer.is_error) == (Outcome.IN_PROGRESS, False)
    assert answer.operation_id is not None
    assert answer.operation_id in answer.content
    record = bench.ledger.get(answer.operation_id)
    assert (record.workflow, record.flow_version, record.call) == (bench.run.workflow, "1", "toolu_1")
    [stored] = bench.crash().stored_calls
    assert (stored.operation_id, stored.state, stored.answer) == (answer.operation_id, State.PREPARED, None)


def test_a_tool_says_whom_its_operations_tell_of_their_end(engine: Engine, tenant: str) -> None:
    bench = AgentBench(engine, tenant)
    bench.email(on_settled="backend/settled")
    bench.decide(send())
    operation = bench.call(send()).operation_id
    assert operation is not None
    assert bench.ledger.get(operation).on_settled == "backend/settled"


@pytest.mark.parametrize(
    ("state", "outcome", "is_error", "words"),
    [
        (State.PREPARED, Outcome.IN_PROGRESS, False, "Do not call again"),
        (State.DISPATCHING, Outcome.IN_PROGRESS, False, "Do not call again"),
        (State.CONFIRMED, Outcome.CONFIRMED, False, "Receipt: R-1, version 7"),
        (State.REJECTED, Outcome.REJECTED, True, "no such case"),
        (State.UNKNOWN, Outcome.UNKNOWN, True, "Do not repeat it. It is under review as op_"),
    ],
)
@pytest.mark.case("R089")
def test_a_dangling_effect_is_answered_with_what_the_ledger_knows(
    bench: AgentBench, state: State, outcome: Outcome, is_error: bool, words: str
) -> None:
    # Given an owner that dies after the operation was staged, wherever that one has come to
    bench.decide(send())
    first = bench.call(send())
    bench.drive(first, state)
    resumed = bench.crash()
    # When the next one answers what dangles
    [answer] = bench.answers(resumed.dangling)
    # Then it is told the truth, and nothing was staged again
    assert (answer.outcome, answer.is_error, answer.operation_id) == (outcome, is_error, first.operation_id)
    assert words in answer.content
    assert "fail" not in answer.content.lower()
    assert bench.operations() == 1
    # and the run goes on with these words, whatever becomes of the operation later
    bench.decide()
    told = bench.crash().messages[2]
    assert (told.text, told.is_error, told.call_id) == (answer.content, is_error, "toolu_1")


def test_a_call_that_never_came_to_the_gate_is_carried_out_after_a_crash(bench: AgentBench) -> None:
    bench.decide(send())
    resumed = bench.crash()
    [answer] = bench.answers(resumed.calls)
    assert answer.outcome is Outcome.IN_PROGRESS
    assert bench.operations() == 1


def test_what_is_not_settled_is_looked_at_again_until_the_model_is_told(bench: AgentBench) -> None:
    bench.decide(send())
    assert bench.call(send()).outcome is Outcome.IN_PROGRESS
    answer = bench.call(send())
    bench.drive(answer, State.UNKNOWN)
    assert bench.call(send()).outcome is Outcome.UNKNOWN
    # Once all answers of the turn are asked for, they are what the model reads
    [told] = bench.answers([send()])
    assert told.outcome is Outcome.UNKNOWN
    assert bench.call(send()) == told


def test_pending_calls_can_be_left_open_for_a_later_owner(bench: AgentBench) -> None:
    bench.decide(send())
    [answer] = bench.answers([send()], store_pending=False)
    assert answer.outcome is Outcome.IN_PROGRESS
    with bench.engine.begin() as connection:
        bench.journal.release(connection, bench.run)
        resumed = bench.journal.resume(connection, bench.run.run_id, flow_version="1", owner="pod-2")
    assert resumed.dangling == (send(),)


@pytest.mark.case("R082")
def test_attempts_under_new_ids_are_one_effect_and_a_second_wish_is_another(bench: AgentBench) -> None:
    # Given one step that a framework tries three times, each under a new id
    bench.decide(send("call_1"))
    tries = [bench.call(send(call_id)) for call_id in ("call_1", "call_3", "call_5")]
    assert {one.operation_id for one in tries} == {tries[0].operation_id}
    assert [one.call_id for one in tries] == ["call_1", "call_3", "call_5"]
    bench.drive(tries[0], State.CONFIRMED)
    bench.answers([send("call_1")])
    # When the user asks for the same email once more
    bench.decide(send("call_7"))
    second = bench.call(send("call_7"))
    # Then it is another effect
    assert second.operation_id != tries[0].operation_id
    assert bench.operations() == 2


@pytest.mark.case("R082")
def test_of_two_equal_calls_in_one_turn_the_second_gets_the_first_s_operation_unless_it_is_meant(bench: AgentBench) -> None:
    first, second = send("call_1"), send("call_2")
    bench.decide(first, second)
    one, other = bench.answers([first, second], store_pending=False)
    assert other.operation_id == one.operation_id
    assert "nothing new was sent" in other.content
    assert bench.operations() == 1
    # A deliberate repetition is possible, and says so
    bench.drive(one, State.CONFIRMED)
    bench.answers([first, second])
    bench.decide(first, second)
    bench.call(first)
    meant = bench.call(second, distinct=True)
    assert bench.operations() == 3
    assert bench.ledger.get(meant.operation_id or "").distinct


def test_a_call_under_a_new_id_for_an_intent_in_doubt_gets_the_existing_operation(bench: AgentBench) -> None:
    # Given an email whose end is not known, and a model that was told so
    bench.decide(send())
    first = bench.call(send())
    bench.drive(first, State.UNKNOWN)
    bench.answers([send()])
    # When it asks again, in other words
    again = send("toolu_2", subject="Your case, once more")
    bench.decide(again)
    answer = bench.call(again)
    # Then nothing new is sent, and it hears of the first
    assert (answer.outcome, answer.operation_id) == (Outcome.UNKNOWN, first.operation_id)
    assert "nothing new was sent" in answer.content
    assert bench.operations() == 1
    # unless a repetition is meant
    assert bench.call(again, wait=timedelta(0)).operation_id == first.operation_id
    bench.answers([again])
    bench.decide(again)
    assert bench.call(again, distinct=True).operation_id != first.operation_id


def test_a_declared_identity_holds_over_turns_and_other_content_is_told_what_stands(bench: AgentBench) -> None:
    bench.decide(close())
    first = bench.call(close())
    bench.drive(first, State.CONFIRMED)
    bench.answers([close()])
    bench.decide(close("toolu_2"), close("toolu_3", resolution="duplicate"))
    same, other = bench.answers([close("toolu_2"), close("toolu_3", resolution="duplicate")])
    assert (same.outcome, same.operation_id) == (Outcome.CONFIRMED, first.operation_id)
    assert "nothing was sent again" in same.content
    assert (other.outcome, other.operation_id) == (Outcome.NOT_SENT, first.operation_id)
    assert bench.operations() == 1


def test_what_was_rejected_can_be_asked_for_again_and_is_a_successor(bench: AgentBench) -> None:
    bench.decide(close())
    first = bench.call(close())
    bench.drive(first, State.REJECTED)
    [told] = bench.answers([close()])
    assert told.outcome is Outcome.REJECTED
    # The same call stays rejected; another one of a later turn takes the intent up again
    assert bench.call(close()).operation_id == first.operation_id
    bench.decide(close("toolu_2", resolution="fixed"))
    again = bench.call(close("toolu_2", resolution="fixed"))
    assert again.outcome is Outcome.IN_PROGRESS
    assert bench.ledger.get(again.operation_id or "").succeeds == first.operation_id


def test_a_call_that_was_not_decided_is_refused_and_nothing_is_staged(bench: AgentBench) -> None:
    bench.decide(send())
    with pytest.raises(InvalidField, match="none of the run's last turn"):
        bench.call(ToolCall("toolu_9", "send_email", {"case": "case-9"}))
    with pytest.raises(InvalidField, match="differs from the call that was decided"):
        bench.call(send(to="eve@example.org"))
    assert bench.operations() == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (ToolCall("toolu_1", "send_email", {"to": "x"}), "at case: Field required"),
        (ToolCall("toolu_1", "send_email", "no json"), "are no JSON"),
        (ToolCall("toolu_1", "send_email", "[1]"), "must be a JSON object"),
        (ToolCall("toolu_1", "send_email", {"case": "dana@example.org"}), "looks like an address"),
        (ToolCall("toolu_1", "send_email", {"case": "case-1", "subject": "a\0b"}), "U+0000"),
        (ToolCall("toolu_1", "send_email", {"case": "case-1", "subject": "a\ud800b"}), "at $: Invalid JSON"),
        (ToolCall("toolu_1", "close_case", {"case": ""}), "must not be empty"),
        (ToolCall("toolu_1", "send_letter", {}), "there is no tool 'send_letter'; there are close_case, send_email"),
    ],
)
def test_a_call_that_cannot_be_carried_out_is_told_why_and_nothing_is_staged(
    bench: AgentBench, call: ToolCall, words: str
) -> None:
    bench.decide(call)
    [answer] = bench.answers([call])
    assert (answer.outcome, answer.is_error) == (Outcome.NOT_SENT, True)
    assert words in answer.content
    assert bench.operations() == 0
    assert bench.answers([call]) == [answer]


@pytest.mark.invariant(8)
def test_a_cancelled_run_stages_nothing_and_what_was_staged_is_not_sent(bench: AgentBench) -> None:
    bench.decide(send("toolu_1"), close("toolu_2"))
    staged = bench.call(send("toolu_1"))
    with bench.engine.begin() as connection:
        bench.ledger.cancel_workflow(connection, bench.run.workflow, by="ann", reason="wrong customer")
    first, second = bench.answers([send("toolu_1"), close("toolu_2")], store_pending=False)
    assert (first.operation_id, second.outcome) == (staged.operation_id, Outcome.NOT_SENT)
    assert "the run was cancelled" in second.content
    assert try_dispatch(bench.engine, take(bench.engine, staged.operation_id or "")).gate == "workflow_cancelled"
    told = bench.call(send("toolu_1"))
    assert told.outcome is Outcome.NOT_SENT
    assert "the workflow was cancelled" in told.content
    with pytest.raises(RunEnded):
        bench.decide()
    assert bench.operations() == 1


@pytest.mark.invariant(8)
def test_a_withdrawn_version_of_the_flow_sends_nothing_more(bench: AgentBench) -> None:
    bench.decide(send("toolu_1"), close("toolu_2"))
    staged = bench.call(send("toolu_1"))
    with bench.engine.begin() as connection:
        bench.ledger.withdraw_flow_version(connection, "1", by="ann", reason="it writes nonsense")
    assert bench.call(close("toolu_2")).content == "Not sent: this version of the flow was withdrawn. Nothing was done."
    assert try_dispatch(bench.engine, take(bench.engine, staged.operation_id or "")).gate == "flow_withdrawn"
    assert "the flow version was withdrawn" in bench.call(send("toolu_1")).content


def test_a_stale_owner_stages_nothing(bench: AgentBench) -> None:
    bench.decide(send())
    stale = bench.run
    bench.crash()
    with pytest.raises(StaleRun):
        bench.gate.call(stale, send())
    assert bench.operations() == 0


def test_a_ledger_that_cannot_be_read_is_never_a_failure(bench: AgentBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.decide(send())

    def broken(*_: Any) -> Any:
        raise OSError("the network is down")

    monkeypatch.setattr(bench.ledger, "wait", broken)
    answer = bench.call(send())
    assert (answer.outcome, answer.is_error) == (Outcome.IN_PROGRESS, False)
    assert "cannot be read" in answer.content
    assert answer.operation_id
    monkeypatch.undo()
    assert bench.call(send()).operation_id == answer.operation_id


@pytest.mark.case("R086")
@pytest.mark.case("R094")
def test_a_second_copy_of_a_call_joins_the_first_and_both_hear_the_same(bench: AgentBench) -> None:
    # Given a call that is on the wire, and a copy of it that somebody starts while it is
    bench.decide(send())
    answer = bench.call(send())
    on_the_wire = dispatch(bench.engine, answer.operation_id or "")
    heard: list[Any] = []
    copies = [threading.Thread(target=lambda: heard.append(bench.call(send(), wait=timedelta(seconds=20)))) for _ in range(2)]
    assert bench.call(send()).outcome is Outcome.IN_PROGRESS
    for copy in copies:
        copy.start()
    # When the first comes back
    end(bench.engine, on_the_wire, ACCEPTED)
    for copy in copies:
        copy.join(20)
    # Then all hear the same, and it was one
    assert len(heard) == 2
    assert heard[0] == heard[1] == bench.call(send())
    assert heard[0].outcome is Outcome.CONFIRMED
    assert bench.operations() == 1


def test_two_connections_in_the_gate_for_one_call_make_one_operation(bench: AgentBench) -> None:
    bench.decide(send())
    with bench.engine.connect() as holding:
        # Both stand before the run's row, then go on together
        holding.execute(text("select 1 from acuse.run where id = cast(:id as uuid) for update"), {"id": bench.run.id})
        found: list[Any] = []
        racers = [threading.Thread(target=lambda: found.append(bench.call(send()))) for _ in range(2)]
        for racer in racers:
            racer.start()
        with bench.engine.connect() as observer:
            asked = text("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query ilike '%begin_call%'")
            until(lambda: observer.execute(asked).scalar_one() >= 2 or observer.rollback(), "both wait")
        holding.rollback()
        for racer in racers:
            racer.join(20)
    assert [one.operation_id for one in found] == [found[0].operation_id] * 2
    assert bench.operations() == 1


def test_a_fork_that_decides_the_same_gets_the_operation_that_is_there(bench: AgentBench) -> None:
    bench.decide(send())
    first = bench.call(send())
    bench.drive(first, State.CONFIRMED)
    bench.answers([send()])
    # When the conversation goes back behind it and decides the same again, or other words for the same
    with bench.engine.begin() as connection:
        rewound = bench.journal.rewind(connection, bench.run, to_step=0)
    assert [fact.operation_id for fact in rewound.facts] == [first.operation_id]
    bench.run = rewound.run
    bench.decide(send("toolu_9"))
    assert bench.call(send("toolu_9")).operation_id == first.operation_id
    with bench.engine.begin() as connection:
        forked = bench.journal.fork(connection, bench.run.run_id, at_step=0, new_run_id=f"fork {bench.tenant}", owner="pod-2")
    bench.run = forked.run
    bench.decide(send("toolu_5", subject="in other words"))
    answer = bench.call(send("toolu_5", subject="in other words"))
    # Then nothing is sent a second time
    assert (answer.outcome, answer.operation_id) == (Outcome.NOT_SENT, first.operation_id)
    assert bench.operations() == 1


class _Granting:
    """Grants at once whatever is asked for, or answers what it was told to."""

    def __init__(self, tenant: str, state: str = "granted") -> None:
        self.approvals, self.state, self.asked = Approvals(tenant=tenant), state, 0

    def request(self, connection: Any, said: Any, **_: Any) -> Any:
        self.asked += 1
        granted = self.approvals.grant(connection, said, by="ann")
        return type("Requested", (), {"approval_id": granted, "state": self.state})


def test_what_happened_is_asked_before_what_should(engine: Engine, tenant: str) -> None:
    approvals = _Granting(tenant)
    bench = AgentBench(engine, tenant, approvals=approvals)
    bench.close_case(Need.REQUIRED)
    bench.decide(close())
    first = bench.call(close())
    assert approvals.asked == 1
    bench.drive(first, State.CONFIRMED)
    # No further try, no crash and no later call for the same asks a person again
    bench.crash()
    bench.answers([close()])
    bench.decide(close("toolu_2"))
    assert bench.call(close("toolu_2")).outcome is Outcome.CONFIRMED
    assert approvals.asked == 1


@pytest.mark.parametrize(
    ("state", "words"), [("denied", "a person denied"), ("expired", "expired"), ("revoked", "revoked"), ("superseded", "another")]
)
def test_without_an_approval_that_lives_nothing_is_staged(engine: Engine, tenant: str, state: str, words: str) -> None:
    bench = AgentBench(engine, tenant, approvals=_Granting(tenant, state))
    bench.close_case(Need.REQUIRED)
    bench.decide(close())
    [answer] = bench.answers([close()])
    assert (answer.outcome, answer.is_error) == (Outcome.NOT_SENT, True)
    assert words in answer.content
    assert bench.operations() == 0


def test_a_gate_without_approvals_refuses_a_tool_that_needs_one(engine: Engine, tenant: str) -> None:
    bench = AgentBench(engine, tenant)
    bench.close_case(Need.REQUIRED)
    bench.decide(close())
    with pytest.raises(AcuseError, match="needs an approval"):
        bench.call(close())


def test_the_next_turn_needs_all_answers(bench: AgentBench) -> None:
    bench.decide(send(), close("toolu_2"))
    bench.call(send())
    with pytest.raises(CallsUnanswered):
        bench.decide()
    bench.answers([send(), close("toolu_2")])
    bench.decide()
