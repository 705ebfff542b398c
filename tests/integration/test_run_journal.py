"""The journal of runs: what was decided is stored before it is done, and no crash makes anybody ask twice."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from eventually import eventually
from host import CloseCase
from racing import Racer
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from stepper import drive, status_of

from acuse import InvalidField, Ledger, NotFound, Outbox, State
from acuse.agents import (
    CallAnswered,
    CallsUnanswered,
    FlowVersionMismatch,
    Journal,
    Keeping,
    Outcome,
    Run,
    RunEnded,
    RunExists,
    RunLost,
    RunOwned,
    RunStatus,
    StaleRun,
    ToolAnswer,
    ToolCall,
    TurnsExhausted,
)
from acuse.store.failure import constraint_of

READ = ToolCall("toolu_1", "read_file", '{"path": "a.md"}')
SEND = ToolCall("toolu_2", "send_email", '{"to": "dana@example.org"}')
DONE = ToolAnswer("toolu_1", Outcome.DONE, "its words", is_error=False)
SENT = ToolAnswer("toolu_2", Outcome.UNKNOWN, "not known", is_error=True)


@pytest.fixture
def journal(tenant: str) -> Journal:
    return Journal(tenant)


@pytest.fixture
def run(engine: Engine, journal: Journal) -> Run:
    return start(engine, journal)


@pytest.fixture
def session(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection:
        yield connection


def start(engine: Engine, journal: Journal, run_id: str = "run-1", **how: object) -> Run:
    given = {"flow_version": "3", "task": "Tell Dana", "owner": "pod-1", **how}
    with engine.begin() as connection:
        return journal.start(connection, run_id, **given)  # type: ignore[arg-type]


def decide(engine: Engine, journal: Journal, run: Run, *calls: ToolCall, message: str = "{}", **how: int) -> Run:
    with engine.begin() as connection:
        return journal.decide(connection, run, message, calls, **how)


def answer(engine: Engine, journal: Journal, run: Run, call: ToolCall, said: ToolAnswer) -> Run:
    with engine.begin() as connection:
        return journal.answer(connection, run, call, said)


def die(engine: Engine, run: Run) -> None:
    """The lease of its owner ends, in place of waiting for it."""
    with engine.begin() as connection:
        connection.execute(
            text("update acuse.run set lease_until = clock_timestamp() - interval '1 ms' where id = cast(:id as uuid)"),
            {"id": run.id},
        )


def take(engine: Engine, journal: Journal, run_id: str = "run-1", **how: str):
    given = {"flow_version": "3", "owner": "pod-2", **how}
    with engine.begin() as connection:
        return journal.resume(connection, run_id, **given)


def test_a_run_that_was_started_goes_on_with_its_task(engine: Engine, journal: Journal, run: Run) -> None:
    assert (run.run_id, run.workflow, run.status, run.fence, run.turns, run.turns_left) == (
        "run-1",
        "run-1",
        RunStatus.RUNNING,
        1,
        0,
        40,
    )
    die(engine, run)
    resumed = take(engine, journal)
    assert [(one.role, one.text) for one in resumed.messages] == [("user", "Tell Dana")]
    assert resumed.next == "ask"


def test_a_stored_decision_is_never_asked_for_again_and_its_words_come_back_byte_for_byte(
    engine: Engine, journal: Journal, run: Run
) -> None:
    # Given words that no re-serialisation leaves as they are
    said = '{"content" :\t[{"text": "caf\\u00e9 ☕ \U0001f600",  "n": 1e20, "n": 1.0}],\r\n "role":"assistant"}\n'
    arguments = '{ "path":"a.md",\n"depth": 1.0 }'
    run = decide(engine, journal, run, ToolCall("c-1", "read_file", arguments), message=said)
    # When its owner dies before the tool runs
    die(engine, run)
    resumed = take(engine, journal)
    # Then everything is there as it was, and the call dangles
    assert resumed.messages[1].text == said
    assert [call.arguments for call in resumed.dangling] == [arguments]
    assert resumed.next == "answer"
    assert resumed.turns == 1
    # and so are the words of the answer
    told = 'line\r\n\t"quoted" \\u0041 é'
    answer(engine, journal, resumed.run, resumed.dangling[0], ToolAnswer("c-1", Outcome.DONE, told, is_error=False))
    with engine.connect() as connection:
        again = journal.read(connection, "run-1")
    assert [(one.role, one.text) for one in again.messages] == [("user", "Tell Dana"), ("assistant", said), ("tool", told)]
    assert again.next == "ask"


def test_results_of_parallel_calls_go_back_together_or_not_at_all(engine: Engine, journal: Journal, run: Run) -> None:
    run = decide(engine, journal, run, READ, SEND)
    answer(engine, journal, run, SEND, SENT)
    die(engine, run)
    resumed = take(engine, journal)
    assert (resumed.calls, resumed.dangling) == ((READ, SEND), (READ,))
    assert [one.role for one in resumed.messages] == ["user", "assistant"]
    # When the last answer is there, they come in the order of the calls
    answer(engine, journal, resumed.run, READ, DONE)
    with engine.connect() as connection:
        whole = journal.read(connection, "run-1")
    assert [(one.call_id, one.is_error) for one in whole.messages[2:]] == [("toolu_1", False), ("toolu_2", True)]
    assert whole.calls == ()


def test_the_next_turn_waits_for_every_answer(engine: Engine, journal: Journal, run: Run) -> None:
    run = decide(engine, journal, run, READ, SEND)
    answer(engine, journal, run, READ, DONE)
    with pytest.raises(CallsUnanswered) as refused:
        decide(engine, journal, run)
    assert refused.value.calls == ("toolu_2",)


def test_a_turn_without_calls_is_the_end_until_somebody_says_more(engine: Engine, journal: Journal, run: Run) -> None:
    run = decide(engine, journal, run, message='"done"')
    with engine.begin() as connection:
        assert journal.read(connection, "run-1").next == "finish"
        run = journal.tell(connection, run, "and now Eve")
        told = journal.read(connection, "run-1")
    assert told.next == "ask"
    assert [one.text for one in told.messages] == ["Tell Dana", '"done"', "and now Eve"]


def test_an_owner_whose_token_is_old_changes_nothing(engine: Engine, journal: Journal, run: Run) -> None:
    # Given an owner that stalled, and another that has taken the run meanwhile
    run = decide(engine, journal, run, READ)
    die(engine, run)
    newer = take(engine, journal).run
    assert newer.fence == run.fence + 1
    # When the old one comes back with its answer, then nothing of it is written
    for write in (
        lambda c: journal.answer(c, run, READ, DONE),
        lambda c: journal.decide(c, run, "{}"),
        lambda c: journal.tell(c, run, "hello"),
        lambda c: journal.finish(c, run),
        lambda c: journal.release(c, run),
        lambda c: journal.rewind(c, run, to_step=0),
    ):
        with engine.begin() as connection, pytest.raises(StaleRun) as refused:
            write(connection)
        assert (refused.value.fence, refused.value.found_fence) == (run.fence, newer.fence)
    with engine.begin() as connection, pytest.raises(RunLost) as lost:
        journal.renew(connection, run)
    assert lost.value.taken_by == "pod-2"
    with engine.connect() as connection:
        assert journal.read(connection, "run-1").dangling == (READ,)
    # and the new one goes on
    answer(engine, journal, newer, READ, DONE)


def test_a_write_under_an_older_state_changes_nothing(engine: Engine, journal: Journal, run: Run) -> None:
    decide(engine, journal, run, message='"first"')
    with pytest.raises(StaleRun) as refused:
        decide(engine, journal, run, message='"another"')
    assert (refused.value.state_version, refused.value.found_version) == (1, 2)
    with engine.connect() as connection:
        assert [one.text for one in journal.read(connection, "run-1").messages] == ["Tell Dana", '"first"']


def test_saying_the_same_again_after_a_lost_reply_is_no_second_turn(engine: Engine, journal: Journal, run: Run) -> None:
    first = decide(engine, journal, run, READ, message='"x"')
    assert decide(engine, journal, run, READ, message='"x"').state_version == first.state_version
    with pytest.raises(StaleRun):
        decide(engine, journal, run, SEND, message='"x"')
    once = answer(engine, journal, first, READ, DONE)
    assert answer(engine, journal, first, READ, DONE).state_version == once.state_version
    with pytest.raises(CallAnswered):
        answer(engine, journal, first, READ, ToolAnswer("toolu_1", Outcome.DONE, "other words", is_error=False))


def test_two_decisions_for_one_turn_at_the_same_moment_leave_one(engine: Engine, journal: Journal, run: Run) -> None:
    first = Racer(engine, lambda c: journal.decide(c, run, '"first"'))
    second = Racer(engine, lambda c: journal.decide(c, run, '"second"'))
    first.start().result()
    second.start_blocked()
    first.commit()
    with pytest.raises(StaleRun):
        second.result()
    second.rollback()
    with engine.connect() as connection:
        assert journal.read(connection, "run-1").messages[-1].text == '"first"'


def test_a_second_live_owner_is_refused_by_name(engine: Engine, journal: Journal, run: Run) -> None:
    with pytest.raises(RunOwned) as refused:
        take(engine, journal)
    assert (refused.value.owner, refused.value.until) == ("pod-1", run.lease_until)
    # Also one of the same name: the first may be alive
    with pytest.raises(RunOwned):
        take(engine, journal, owner="pod-1")
    # When the first gives it back, the next one comes at once, and the first can write no more
    with engine.begin() as connection:
        journal.release(connection, run)
    assert take(engine, journal).run.deaths == 0
    with pytest.raises(StaleRun):
        decide(engine, journal, run)


def test_of_two_that_take_over_at_the_same_moment_one_does(engine: Engine, journal: Journal, run: Run) -> None:
    die(engine, run)
    first = Racer(engine, lambda c: journal.resume(c, "run-1", flow_version="3", owner="pod-2"))
    second = Racer(engine, lambda c: journal.resume(c, "run-1", flow_version="3", owner="pod-3"))
    first.start().result()
    second.start_blocked()
    first.commit()
    with pytest.raises(RunOwned) as refused:
        second.result()
    second.rollback()
    assert refused.value.owner == "pod-2"


def test_a_lease_is_judged_by_the_clock_after_the_wait_for_its_row(engine: Engine, journal: Journal, run: Run) -> None:
    # Given a lease that ends while somebody waits for the row, and an owner that renews it just then
    die(engine, run)
    renewing = Racer(engine, lambda c: journal.renew(c, run))
    renewing.start().result()
    taking = Racer(engine, lambda c: journal.resume(c, "run-1", flow_version="3", owner="pod-2")).start_blocked()
    renewing.commit()
    with pytest.raises(RunOwned):
        taking.result()
    taking.rollback()


def test_a_lease_is_renewed_while_its_owner_lives_and_its_loss_is_told(engine: Engine, journal: Journal) -> None:
    run = start(engine, journal, lease=timedelta(minutes=5))

    def until() -> object:
        with engine.connect() as connection:
            return journal.read(connection, "run-1").run.lease_until

    with Keeping(journal, engine.begin, run, every=0.001) as kept:
        before = until()
        eventually(lambda: until() > before)
        # It keeps the run although its owner has written since
        decide(engine, journal, run)
        before = until()
        eventually(lambda: until() > before)
        kept.check()
        # When somebody takes the run all the same
        with engine.begin() as connection:
            connection.execute(
                text("update acuse.run set fence = fence + 1, owner = 'pod-9' where id = cast(:id as uuid)"), {"id": run.id}
            )
        eventually(lambda: kept.lost)
        with pytest.raises(RunLost):
            kept.check()


def test_another_version_of_the_flow_is_refused_and_both_are_named(engine: Engine, journal: Journal, run: Run) -> None:
    die(engine, run)
    with pytest.raises(FlowVersionMismatch) as refused:
        take(engine, journal, flow_version="4")
    assert (refused.value.stored, refused.value.given) == ("3", "4")
    assert "'3'" in str(refused.value)
    assert "'4'" in str(refused.value)


def test_turns_are_never_reset_and_their_number_is_kept(engine: Engine, journal: Journal) -> None:
    run = start(engine, journal, max_turns=3)
    for turn in range(1, 4):
        die(engine, run)
        run = take(engine, journal).run
        assert run.turns == turn - 1
        run = decide(engine, journal, run)
        assert run.turns == turn
    with pytest.raises(TurnsExhausted) as refused:
        decide(engine, journal, run)
    assert (refused.value.turns, refused.value.max_turns) == (3, 3)
    # A rewind gives none back
    with engine.begin() as connection:
        rewound = journal.rewind(connection, run, to_step=0).run
    with pytest.raises(TurnsExhausted):
        decide(engine, journal, rewound)
    with engine.begin() as connection:
        assert journal.finish(connection, rewound, exhausted=True).status is RunStatus.EXHAUSTED
    with pytest.raises(RunEnded):
        take(engine, journal)


def test_a_run_that_dies_again_and_again_before_it_stores_anything_is_stopped(engine: Engine, journal: Journal) -> None:
    run = start(engine, journal, max_turns=5)
    run = decide(engine, journal, run, READ)
    for death in range(1, 6):
        die(engine, run)
        assert take(engine, journal).run.deaths == death
    die(engine, run)
    with pytest.raises(TurnsExhausted) as refused:
        take(engine, journal)
    assert refused.value.deaths == 5


def test_what_is_stored_between_two_deaths_begins_the_count_anew(engine: Engine, journal: Journal) -> None:
    run = start(engine, journal, max_turns=2)
    run = decide(engine, journal, run, READ)
    for _ in range(2):
        die(engine, run)
        run = take(engine, journal).run
    run = answer(engine, journal, run, READ, DONE)
    die(engine, run)
    assert take(engine, journal).run.deaths == 1


def test_tokens_are_those_of_the_window_and_are_never_summed(engine: Engine, journal: Journal, run: Run) -> None:
    run = decide(engine, journal, run, tokens_used=18_420)
    run = decide(engine, journal, run, tokens_used=9_310)
    run = decide(engine, journal, run)
    die(engine, run)
    assert take(engine, journal).tokens_used == 9_310


@pytest.mark.parametrize("state", list(State))
def test_a_dangling_call_shows_what_the_ledger_says_of_its_operation(
    engine: Engine, journal: Journal, tenant: str, state: State
) -> None:
    # Given a call whose operation was staged, and an owner that died
    run = start(engine, journal, workflow=f"w-{tenant}")
    run = decide(engine, journal, run, SEND)
    with engine.begin() as connection:
        staged = Outbox(tenant=tenant).stage(connection, CloseCase(case="case-1"), workflow=run.workflow)
        connection.execute(
            text("update acuse.tool_call set operation_id = cast(:op as uuid) where run = cast(:run as uuid)"),
            {"op": staged.operation_id.removeprefix("op_"), "run": run.id},
        )
    drive(engine, staged.operation_id, state)
    die(engine, run)
    # When somebody resumes
    resumed = take(engine, journal)
    assert resumed.dangling == (SEND,)
    [call] = resumed.stored_calls
    assert (call.operation_id, call.state) == (staged.operation_id, state)


@pytest.mark.invariant(8)
def test_a_cancelled_run_sends_nothing_more_and_names_what_is_in_the_air(engine: Engine, journal: Journal, tenant: str) -> None:
    run = start(engine, journal)
    ids = []
    for case in ("case-1", "case-2"):
        with engine.begin() as connection:
            ids.append(Outbox(tenant=tenant).stage(connection, CloseCase(case=case), workflow=run.workflow).operation_id)
    drive(engine, ids[0], State.UNKNOWN)
    with engine.begin() as connection:
        assert journal.cancel(connection, "run-1", by="ann", reason="wrong customer") == (ids[0],)
    from stepper import take as claim
    from stepper import try_dispatch

    assert try_dispatch(engine, claim(engine, ids[1])).gate == "workflow_cancelled"
    assert status_of(engine, ids[1]) is State.REJECTED
    with pytest.raises(RunEnded):
        decide(engine, journal, run)
    with pytest.raises(RunEnded) as refused:
        take(engine, journal)
    assert refused.value.status == "cancelled"


@pytest.mark.invariant(8)
def test_a_run_of_a_withdrawn_version_goes_no_further(engine: Engine, journal: Journal, tenant: str) -> None:
    run = start(engine, journal, flow_version="bad")
    with engine.begin() as connection:
        Ledger(engine, tenant=tenant).withdraw_flow_version(connection, "bad", by="ann", reason="it writes nonsense")
    with pytest.raises(RunEnded) as refused:
        decide(engine, journal, run)
    assert refused.value.status == "withdrawn"
    with pytest.raises(RunEnded):
        start(engine, journal, run_id="run-2", flow_version="bad")
    die(engine, run)
    with pytest.raises(RunEnded):
        take(engine, journal, flow_version="bad")


def test_a_fork_keeps_the_workflow_and_what_happened(engine: Engine, journal: Journal, tenant: str) -> None:
    # Given two turns, the second of which closed a case
    run = decide(engine, journal, start(engine, journal), READ, message='"one"')
    run = answer(engine, journal, run, READ, DONE)
    run = decide(engine, journal, run, SEND, message='"two"')
    with engine.begin() as connection:
        staged = Outbox(tenant=tenant).stage(connection, CloseCase(case="case-1"), workflow=run.workflow)
    drive(engine, staged.operation_id, State.CONFIRMED)
    # When another run goes on from the first
    with engine.begin() as connection:
        forked = journal.fork(connection, "run-1", at_step=1, new_run_id="run-1b", owner="pod-2")
    assert (forked.run.workflow, forked.run.turns, forked.run.step) == (run.workflow, 1, 1)
    assert [one.text for one in forked.messages] == ["Tell Dana", '"one"', "its words"]
    assert forked.next == "ask"
    # Then what happened is a fact for it, under the same key
    assert [(fact.operation_id, fact.state) for fact in forked.facts] == [(staged.operation_id, State.CONFIRMED)]
    with engine.begin() as connection:
        again = Outbox(tenant=tenant).stage(connection, CloseCase(case="case-1"), workflow=forked.run.workflow)
    assert (again.operation_id, again.created) == (staged.operation_id, False)
    # and both go on
    decide(engine, journal, forked.run)
    with pytest.raises(CallsUnanswered):
        decide(engine, journal, run)
    with engine.begin() as connection, pytest.raises(RunExists):
        journal.fork(connection, "run-1", at_step=1, new_run_id="run-1b", owner="pod-2")


def test_a_rewind_drops_words_and_nothing_else(engine: Engine, journal: Journal, run: Run) -> None:
    run = decide(engine, journal, run, READ, message='"one"')
    run = answer(engine, journal, run, READ, DONE)
    run = decide(engine, journal, run, SEND, message='"two"')
    with engine.begin() as connection:
        rewound = journal.rewind(connection, run, to_step=1)
    assert [one.text for one in rewound.messages] == ["Tell Dana", '"one"', "its words"]
    assert (rewound.run.turns, rewound.run.step) == (2, 1)
    run = decide(engine, journal, rewound.run, SEND, message='"other"')
    assert (run.turns, run.step) == (3, 2)
    with engine.connect() as connection:
        kept = connection.execute(text("select count(*) from acuse.run_message where run = cast(:id as uuid)"), {"id": run.id})
        assert kept.scalar_one() == 4


def test_the_words_of_an_ended_run_can_be_forgotten_and_its_id_stays_used(engine: Engine, journal: Journal, run: Run) -> None:
    run = decide(engine, journal, run, SEND)
    with engine.begin() as connection, pytest.raises(InvalidField, match="not ended"):
        journal.forget(connection, "run-1")
    with engine.begin() as connection:
        journal.finish(connection, journal.answer(connection, run, SEND, SENT))
        journal.forget(connection, "run-1")
    with engine.connect() as connection:
        left = journal.read(connection, "run-1")
    assert (left.messages, left.stored_calls, left.run.status) == ((), (), RunStatus.FINISHED)
    with pytest.raises(RunExists) as refused:
        start(engine, journal)
    assert refused.value.status == "finished"


def test_a_run_of_another_tenant_does_not_exist(engine: Engine, run: Run) -> None:
    stranger = Journal("somebody-else")
    with engine.begin() as connection:
        for look in (
            lambda: stranger.read(connection, run.run_id),
            lambda: stranger.resume(connection, run.run_id, flow_version="3", owner="pod-2"),
            lambda: stranger.cancel(connection, run.run_id, by="eve", reason="why not"),
            lambda: stranger.fork(connection, run.run_id, at_step=0, new_run_id="x", owner="eve"),
            lambda: stranger.forget(connection, run.run_id),
        ):
            with pytest.raises(NotFound):
                look()


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("update acuse.run set turns = 0 where id = cast(:id as uuid)", "run_rises"),
        ("update acuse.run set fence = 0 where id = cast(:id as uuid)", "run_rises"),
        ("update acuse.run set state_version = 0 where id = cast(:id as uuid)", "run_rises"),
        ("update acuse.run set max_turns = 400 where id = cast(:id as uuid)", "run_fixed"),
        ("update acuse.run set turns = 41 where id = cast(:id as uuid)", "turns_are_limited"),
        ("update acuse.run_message set body = 'x' where run = cast(:id as uuid)", "message_fixed"),
        ("update acuse.tool_call set arguments = '{}' where run = cast(:id as uuid)", "call_fixed"),
        ("update acuse.tool_call set content = 'x' where run = cast(:id as uuid)", "call_fixed"),
    ],
)
def test_the_database_itself_refuses(engine: Engine, journal: Journal, run: Run, statement: str, constraint: str) -> None:
    run = answer(engine, journal, decide(engine, journal, run, READ), READ, DONE)
    with engine.connect() as connection, pytest.raises(DBAPIError) as refused:
        connection.execute(text(statement), {"id": run.id})
    assert constraint_of(refused.value) == constraint


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800"])
def test_words_that_cannot_be_stored_are_refused_before_anything_is(engine: Engine, journal: Journal, run: Run, bad: str) -> None:
    with pytest.raises(InvalidField):
        decide(engine, journal, run, message=bad)
    with pytest.raises(InvalidField):
        decide(engine, journal, run, READ, ToolCall("toolu_1", "x", "{}"))
    assert decide(engine, journal, run, message=json.dumps(bad)).turns == 1
