"""Tools that the host runs itself: their nature says what a crash leaves, and one that raised has not said "no"."""

from collections.abc import Callable
from typing import Any

import pytest
from agent_bench import AgentBench
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from acuse import Approvals
from acuse.agents import NotDone, Outcome, Risk, RunEnded, ToolAnswer, ToolCall
from acuse.agents.nature import Need

WHY = "a sentence that says why"
LOW: dict[str, Any] = {"risk": Risk.LOW, "why": WHY}


class Died(BaseException):
    """The process ends here: nobody catches it, nothing more is written."""


@pytest.fixture
def bench(engine: Engine, tenant: str) -> AgentBench:
    return AgentBench(engine, tenant)


def counted(bench: AgentBench, name: str, does: Callable[..., Any] = lambda **_: "its words") -> Callable[..., Any]:
    def tool(**arguments: Any) -> Any:
        bench.ran[name] += 1
        return does(**arguments)

    tool.__name__ = name
    return tool


def dying(*deaths: BaseException | None) -> Callable[..., Any]:
    """Ends as it is told, one after another, then returns."""
    left = list(deaths)

    def does(**_: Any) -> str:
        how = left.pop(0) if left else None
        if how is not None:
            raise how
        return "its words"

    return does


def die_in(bench: AgentBench, call: ToolCall) -> None:
    bench.decide(call)
    with pytest.raises(Died):
        bench.call(call)


def test_a_read_answers_and_its_answer_is_stored_before_the_next_step(bench: AgentBench) -> None:
    bench.tools.read_only(**LOW)(counted(bench, "read_file", lambda path: {"path": path, "lines": 3}))
    call = ToolCall("toolu_1", "read_file", {"path": "a.md"})
    bench.decide(call)
    answer = bench.call(call)
    assert answer == ToolAnswer("toolu_1", Outcome.DONE, '{"path": "a.md", "lines": 3}', is_error=False)
    assert bench.crash().dangling == ()
    assert bench.call(call) == answer
    assert bench.ran["read_file"] == 1


def test_a_read_runs_again_on_resume(bench: AgentBench) -> None:
    bench.tools.read_only(**LOW)(counted(bench, "read_file", dying(Died())))
    call = ToolCall("toolu_1", "read_file")
    die_in(bench, call)
    [answer] = bench.answers(bench.crash().calls)
    assert (answer.outcome, bench.ran["read_file"]) == (Outcome.DONE, 2)


def test_a_read_that_raised_changed_nothing_and_says_so(bench: AgentBench) -> None:
    bench.tools.read_only(**LOW)(counted(bench, "read_file", dying(FileNotFoundError("a.md"))))
    call = ToolCall("toolu_1", "read_file")
    bench.decide(call)
    answer = bench.call(call)
    assert (answer.outcome, answer.is_error) == (Outcome.NOT_DONE, True)
    assert "FileNotFoundError: a.md" in answer.content


@pytest.mark.case("R083")
def test_an_append_that_raised_is_unknown_and_is_not_repeated_by_any_retry(bench: AgentBench) -> None:
    # Given a tool that sends and then loses its connection, and a framework that tries three times
    sent: list[str] = []

    def send(to: str) -> None:
        sent.append(to)
        raise ConnectionResetError("connection reset by peer")

    bench.tools.appends(risk=Risk.HIGH, why=WHY, name="send_mail")(send)
    call = ToolCall("call_1", "send_mail", {"to": "dana"})
    bench.decide(call)
    tries = [bench.call(ToolCall(name, "send_mail", {"to": "dana"})) for name in ("call_1", "call_2", "call_1")]
    # Then all hear the same, and one email left
    assert sent == ["dana"]
    assert {(one.outcome, one.is_error) for one in tries} == {(Outcome.UNKNOWN, True)}
    assert len({one.content for one in tries}) == 1
    assert "ConnectionResetError" in tries[0].content
    assert "Do not repeat it" in tries[0].content


def test_an_append_that_died_is_unknown_and_is_not_run_again(bench: AgentBench) -> None:
    bench.tools.appends(**LOW)(counted(bench, "append_log", dying(Died())))
    call = ToolCall("toolu_1", "append_log")
    die_in(bench, call)
    [answer] = bench.answers(bench.crash().calls)
    assert (answer.outcome, bench.ran["append_log"]) == (Outcome.UNKNOWN, 1)
    assert "Do not repeat it" in answer.content


def test_an_append_that_never_began_runs_after_a_crash(bench: AgentBench) -> None:
    bench.tools.appends(**LOW)(counted(bench, "append_log"))
    call = ToolCall("toolu_1", "append_log")
    bench.decide(call)
    [answer] = bench.answers(bench.crash().calls)
    assert (answer.outcome, bench.ran["append_log"]) == (Outcome.DONE, 1)


@pytest.mark.parametrize(("trace", "ran"), [(True, 1), ("line 7", 1), (False, 2)])
def test_an_append_with_a_check_of_its_own_is_looked_for_by_its_call(bench: AgentBench, trace: object, ran: int) -> None:
    asked: list[ToolCall] = []

    def already(call: ToolCall) -> object:
        asked.append(call)
        return trace

    bench.tools.appends(already=already, **LOW)(counted(bench, "append_log", dying(Died())))
    call = ToolCall("toolu_1", "append_log")
    die_in(bench, call)
    [answer] = bench.answers(bench.crash().calls)
    assert (answer.outcome, bench.ran["append_log"], asked) == (Outcome.DONE, ran, [call])


def test_a_tool_that_is_certain_says_so(bench: AgentBench) -> None:
    bench.tools.appends(**LOW)(counted(bench, "append_log", dying(NotDone("the disk is full"))))
    call = ToolCall("toolu_1", "append_log")
    bench.decide(call)
    answer = bench.call(call)
    assert (answer.outcome, answer.is_error) == (Outcome.NOT_DONE, True)
    assert "the disk is full. Nothing was changed." in answer.content


def test_what_overwrites_runs_again_if_nobody_wrote_there_since(bench: AgentBench) -> None:
    bench.tools.overwrites(target="key", **LOW)(counted(bench, "set_config", dying(Died())))
    call = ToolCall("toolu_1", "set_config", {"key": "a", "value": "1"})
    die_in(bench, call)
    [answer] = bench.answers(bench.crash().calls)
    assert (answer.outcome, bench.ran["set_config"]) == (Outcome.DONE, 2)


def test_what_overwrites_does_not_run_again_over_a_later_write(bench: AgentBench, engine: Engine, tenant: str) -> None:
    # Given a write that may have happened, and a later one by somebody else to the same key
    bench.tools.overwrites(target="key", **LOW)(counted(bench, "set_config", dying(Died())))
    call = ToolCall("toolu_1", "set_config", {"key": "a", "value": "1"})
    die_in(bench, call)
    other = AgentBench.__new__(AgentBench)
    other.__dict__.update(bench.__dict__)
    with engine.begin() as connection:
        other.run = bench.journal.start(connection, "another run", flow_version="1", task="x", owner="pod-3")
    for key, ran in (("b", 2), ("a", 3)):
        later = ToolCall(f"toolu_{key}", "set_config", {"key": key, "value": "2"})
        other.decide(later)
        assert other.call(later).outcome is Outcome.DONE
        assert bench.ran["set_config"] == ran
    # When the first is resumed
    [answer] = bench.answers(bench.crash().calls)
    # Then it would set the key back, so it does not run
    assert (answer.outcome, bench.ran["set_config"]) == (Outcome.UNKNOWN, 3)
    assert "a later call wrote" in answer.content


def test_what_overwrites_and_raised_may_be_called_again(bench: AgentBench) -> None:
    bench.tools.overwrites(**LOW)(counted(bench, "set_config", dying(TimeoutError("no answer"))))
    call = ToolCall("toolu_1", "set_config")
    bench.decide(call)
    answer = bench.call(call)
    assert answer.outcome is Outcome.UNKNOWN
    assert "A new call with the same arguments is safe" in answer.content


def test_what_ensures_looks_first_and_looks_again_after_a_crash(bench: AgentBench) -> None:
    made: list[str] = []

    def create(reference: str) -> str:
        made.append(reference)
        if len(made) == 1:
            raise Died  # the ticket is there, and nobody has heard of it
        return f"T-{len(made)}"

    bench.tools.ensures(find=lambda reference: "T-1" if reference in made else None, name="ensure_ticket", **LOW)(create)
    call = ToolCall("toolu_1", "ensure_ticket", {"reference": "run-77"})
    die_in(bench, call)
    [answer] = bench.answers(bench.crash().calls)
    assert (answer.outcome, answer.content, made) == (Outcome.DONE, "T-1", ["run-77"])


def test_what_ensures_and_is_not_there_is_made_after_a_crash(bench: AgentBench) -> None:
    bench.tools.ensures(find=lambda: None, **LOW)(counted(bench, "ensure_ticket", dying(Died())))
    call = ToolCall("toolu_1", "ensure_ticket")
    die_in(bench, call)
    [answer] = bench.answers(bench.crash().calls)
    assert (answer.outcome, bench.ran["ensure_ticket"]) == (Outcome.DONE, 2)


@pytest.mark.parametrize(("found", "outcome"), [("T-1", Outcome.DONE), (None, Outcome.UNKNOWN)])
def test_what_ensures_and_raised_is_looked_for(bench: AgentBench, found: str | None, outcome: Outcome) -> None:
    looks = [None, found]
    bench.tools.ensures(find=lambda: looks.pop(0), **LOW)(counted(bench, "ensure_ticket", dying(TimeoutError())))
    call = ToolCall("toolu_1", "ensure_ticket")
    bench.decide(call)
    assert bench.call(call).outcome is outcome


def test_a_look_up_that_raises_finds_nothing_out(bench: AgentBench) -> None:
    def away() -> None:
        raise ConnectionError("the helpdesk is away")

    bench.tools.ensures(find=away, **LOW)(counted(bench, "ensure_ticket"))
    bench.tools.appends(already=lambda _call: away(), **LOW)(counted(bench, "append_log", dying(Died())))
    call, log = ToolCall("toolu_1", "ensure_ticket"), ToolCall("toolu_2", "append_log")
    bench.decide(call, log)
    # Before the first run it is certain that nothing was made
    assert bench.call(call).outcome is Outcome.NOT_DONE
    assert bench.ran["ensure_ticket"] == 0
    # after one it is not
    with pytest.raises(Died):
        bench.call(log)
    bench.crash()
    assert bench.call(log).outcome is Outcome.UNKNOWN


def test_an_answer_that_cannot_be_written_down_is_told_all_the_same(bench: AgentBench) -> None:
    # Given a database that goes away while the tool works
    def does() -> str:
        bench.broken = OperationalError("insert", {}, Exception("server closed the connection"))
        return "line 7"

    bench.tools.appends(**LOW)(counted(bench, "append_log", does))
    call = ToolCall("toolu_1", "append_log")
    bench.decide(call)
    answer = bench.call(call)
    # Then the model hears that it was done, and the host that this is not on record
    assert (answer.outcome, answer.content, answer.is_error, answer.recorded) == (Outcome.DONE, "line 7", False, False)
    bench.broken = None
    # It does not run again, and the host stores what it holds
    assert bench.call(call).outcome is Outcome.IN_PROGRESS
    with bench.engine.begin() as connection:
        bench.journal.answer(connection, bench.run, call, answer)
    assert bench.call(call).content == "line 7"
    assert bench.ran["append_log"] == 1


def test_a_lost_reply_to_a_commit_runs_nothing_twice(bench: AgentBench) -> None:
    # Given every first COMMIT that is carried out while its reply is lost
    from contextlib import contextmanager

    lost = {"next": True}

    @contextmanager
    def sessions() -> Any:
        with bench.engine.begin() as connection:
            yield connection
        lost["next"] = not lost["next"]
        if not lost["next"]:
            raise OperationalError("commit", {}, Exception("server closed the connection"))

    bench.gate._sessions = sessions
    bench.tools.appends(**LOW)(counted(bench, "append_log"))
    bench.email()
    call, email = ToolCall("toolu_1", "append_log"), ToolCall("toolu_2", "send_email", {"case": "case-1"})
    bench.decide(call, email)
    first, second = bench.answers([call, email])
    assert (first.outcome, bench.ran["append_log"]) == (Outcome.DONE, 1)
    assert (second.outcome, bench.operations()) == (Outcome.IN_PROGRESS, 1)


def test_a_cancelled_run_runs_no_tool(bench: AgentBench) -> None:
    bench.tools.appends(**LOW)(counted(bench, "append_log"))
    bench.tools.overwrites(**LOW)(counted(bench, "set_config", dying(Died())))
    log, config = ToolCall("toolu_1", "append_log"), ToolCall("toolu_2", "set_config")
    bench.decide(log, config)
    with pytest.raises(Died):
        bench.call(config)
    with bench.engine.begin() as connection:
        bench.ledger.cancel_workflow(connection, bench.run.workflow, by="ann", reason="wrong customer")
    first, second = bench.answers([log, config])
    assert (first.outcome, second.outcome) == (Outcome.NOT_SENT, Outcome.UNKNOWN)
    assert bench.ran == {"set_config": 1}
    with bench.engine.begin() as connection:
        bench.journal.cancel(connection, bench.run.run_id, by="ann", reason="wrong customer")
    with pytest.raises(RunEnded):
        bench.call(log)


class _Person:
    """Decides about what is asked for; asked again, it is the same approval."""

    def __init__(self, tenant: str) -> None:
        self.approvals, self.state = Approvals(tenant=tenant), "pending"
        self.asked: list[Any] = []

    def request(self, connection: Any, said: Any, **how: Any) -> Any:
        self.asked.append((said.action, said.target, how["effect_key"]))
        return type("Requested", (), {"approval_id": self.approvals.grant(connection, said, by="ann"), "state": self.state})


def test_a_tool_of_the_host_waits_for_a_person_too(engine: Engine, tenant: str) -> None:
    person = _Person(tenant)
    bench = AgentBench(engine, tenant, approvals=person)
    bench.tools.ensures(find=lambda path: None, target="path", approval=Need.REQUIRED, **LOW)(counted(bench, "delete_file"))
    call = ToolCall("toolu_1", "delete_file", {"path": "a.md"})
    bench.decide(call)
    # Given that nobody has decided, then nothing runs, also after a crash
    assert bench.call(call).outcome is Outcome.WAITING_FOR_APPROVAL
    bench.crash()
    assert bench.call(call).outcome is Outcome.WAITING_FOR_APPROVAL
    assert bench.ran["delete_file"] == 0
    # It is one and the same question
    assert len(set(person.asked)) == 1
    assert person.asked[0][:2] == ("host.delete_file.v1", "a.md")
    # When somebody says yes
    person.state = "granted"
    assert bench.call(call).outcome is Outcome.DONE
    assert bench.ran["delete_file"] == 1
    # and once it happened nobody is asked
    asked = len(person.asked)
    bench.call(call)
    assert len(person.asked) == asked


def test_a_person_who_says_no_is_told_to_the_model(engine: Engine, tenant: str) -> None:
    person = _Person(tenant)
    person.state = "denied"
    bench = AgentBench(engine, tenant, approvals=person)
    bench.tools.appends(approval=Need.REQUIRED, **LOW)(counted(bench, "append_log"))
    call = ToolCall("toolu_1", "append_log")
    bench.decide(call)
    answer = bench.call(call)
    assert (answer.outcome, bench.ran["append_log"]) == (Outcome.NOT_SENT, 0)
    assert "a person denied" in answer.content
