"""The real LangGraph with a scripted model: nodes that run again repeat no effect, and its interrupt is our approval."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from agent_bench import NOW, AgentBench
from eventually import eventually
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from sqlalchemy import Engine
from stepper import take, try_dispatch

from acuse import Approvals, State
from acuse.agents import Need
from acuse.bridges.langgraph import GatedTools

CLOSE = {"name": "close_case", "args": {"case": "case-1"}, "id": "toolu_close", "type": "tool_call"}
SEND = {"name": "send_email", "args": {"case": "case-1"}, "id": "toolu_send", "type": "tool_call"}
DONE = AIMessage("Done.", id="ai-2")


class Died(Exception):  # noqa: N818 - it says what happened
    """The process, where a test says so."""


class Studio:
    """A graph of a model and our tools, whose model says what a test wrote down."""

    def __init__(self, bench: AgentBench, approvals: Approvals) -> None:
        self.bench, self.approvals = bench, approvals
        self.turns: list[AIMessage] = []
        self.asked = 0
        tools = GatedTools(bench.sessions, bench.journal, bench.gate, approvals, flow_version="1", owner="pod-1")

        def model(_: MessagesState) -> dict[str, Any]:
            said = self.turns[self.asked]
            self.asked += 1
            return {"messages": [said]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", model)
        graph.add_node("tools", tools)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
        graph.add_edge("tools", "model")
        self.graph = graph.compile(checkpointer=InMemorySaver())
        self.thread: dict[str, Any] = {"configurable": {"thread_id": f"thread-{uuid4()}"}}

    def go(self, said: Any = None) -> dict[str, Any]:
        return dict(self.graph.invoke(said, self.thread))

    def told(self, result: dict[str, Any]) -> dict[str, ToolMessage]:
        return {one.tool_call_id: one for one in result["messages"] if isinstance(one, ToolMessage)}


def ask() -> dict[str, Any]:
    return {"messages": [HumanMessage("Close the case and tell Dana")]}


@pytest.fixture
def studio(engine: Engine, tenant: str) -> Callable[..., Studio]:
    approvals = Approvals(tenant=tenant)

    def made(need: Need = Need.NOT_NEEDED, wait: timedelta = NOW) -> Studio:
        bench = AgentBench(engine, tenant, approvals=approvals)
        bench.gate._wait = wait.total_seconds()
        bench.email(need)
        bench.close_case()
        return Studio(bench, approvals)

    return made


def test_calls_are_answered_in_their_order_and_in_true_words(studio: Callable[..., Studio]) -> None:
    it = studio()
    it.turns = [AIMessage("", id="ai-1", tool_calls=[CLOSE, SEND]), DONE]
    result = it.go(ask())
    told = it.told(result)
    assert list(told) == ["toolu_close", "toolu_send"]
    assert all("In progress" in one.content for one in told.values())
    assert it.bench.operations() == 2
    assert {one.artifact["outcome"] for one in told.values()} == {"in_progress"}


def test_a_node_that_runs_again_on_resume_repeats_no_effect(
    studio: Callable[..., Studio], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = studio()
    it.turns = [AIMessage("", id="ai-1", tool_calls=[CLOSE, SEND]), DONE]
    # Given a process that dies with both staged, before LangGraph has saved what the node returned
    real = GatedTools._answers

    def dying(self: GatedTools, *args: Any) -> Any:
        real(self, *args)
        raise Died

    monkeypatch.setattr(GatedTools, "_answers", dying)
    with pytest.raises(Died):
        it.go(ask())
    monkeypatch.undo()
    assert it.bench.operations() == 2
    # When the graph is resumed, and the node runs from its start
    result = it.go()
    # Then it says the same, of the same operations
    assert len(it.told(result)) == 2
    assert it.bench.operations() == 2
    assert it.asked == 2


@pytest.mark.case("R082")
def test_a_model_that_is_asked_again_under_new_ids_gets_the_effect_that_is_there(
    studio: Callable[..., Studio], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = studio()
    again = AIMessage("", id="ai-9", tool_calls=[CLOSE | {"id": "toolu_9"}, SEND | {"id": "toolu_10"}])
    it.turns = [AIMessage("", id="ai-1", tool_calls=[CLOSE, SEND]), DONE, again, DONE]
    first = it.told(it.go(ask()))
    # When the thread is taken back behind the model's decision, and the model decides the same under new ids
    [start] = [
        one for one in it.graph.get_state_history(it.thread) if one.next == ("model",) and len(one.values["messages"]) == 1
    ]
    result = dict(it.graph.invoke(None, start.config))
    # Then it is told of the same operations
    told = it.told(result)
    assert list(told) == ["toolu_9", "toolu_10"]
    assert [one.artifact["operation_id"] for one in told.values()] == [one.artifact["operation_id"] for one in first.values()]
    assert it.bench.operations() == 2


@pytest.mark.case("R085")
def test_of_parallel_calls_the_one_that_waits_does_not_run_the_others_again(studio: Callable[..., Studio]) -> None:
    it = studio(Need.REQUIRED)
    it.turns = [AIMessage("", id="ai-1", tool_calls=[CLOSE, SEND]), DONE]
    # Given two calls in one turn, of which one needs a person
    stopped = it.go(ask())
    [pause] = stopped["__interrupt__"]
    [asked] = pause.value["approvals"]
    assert (asked["call_id"], asked["action"]) == ("toolu_send", "email.send.v1")
    # Then an answer for another call is refused, nothing is decided by it, and it is asked again
    swapped = {"approval_id": asked["approval_id"], "call_id": "toolu_close", "approve": True, "by": "ann"}
    [pause] = it.go(Command(resume=[swapped]))["__interrupt__"]
    assert pause.value["approvals"] == [asked]
    assert "speaks for its own call" in pause.value["refused"][0]
    with it.bench.engine.begin() as connection:
        assert it.approvals.get(connection, asked["approval_id"]).state == "pending"
    # When the right one comes
    yes = {"approval_id": asked["approval_id"], "call_id": "toolu_send", "approve": True, "by": "ann"}
    result = it.go(Command(resume=[yes]))
    # Then each is one operation, and the model is told of both
    told = it.told(result)
    assert set(told) == {"toolu_close", "toolu_send"}
    assert told["toolu_send"].artifact["outcome"] == "in_progress"
    assert it.bench.operations() == 2
    assert it.asked == 2


def test_a_no_is_told_as_a_no(studio: Callable[..., Studio]) -> None:
    it = studio(Need.REQUIRED, wait=timedelta(seconds=60))
    it.turns = [AIMessage("", id="ai-1", tool_calls=[SEND]), DONE]
    [asked] = it.go(ask())["__interrupt__"][0].value["approvals"]
    [one] = it.bench.ledger.find(tenant=it.bench.tenant).operations

    def denied() -> bool:
        with it.bench.engine.begin() as connection:
            return it.approvals.get(connection, asked["approval_id"]).state == "denied"

    def work() -> None:
        """A worker, which is woken once it is decided."""
        eventually(denied)
        try_dispatch(it.bench.engine, take(it.bench.engine, one.operation_id))

    with ThreadPoolExecutor() as pool:
        worker = pool.submit(work)
        result = it.go(Command(resume=[asked | {"approve": False, "by": "ann", "reason": "wrong address"}]))
        worker.result()
    answer = it.told(result)["toolu_send"]
    assert (answer.status, answer.artifact["outcome"]) == ("error", "not_sent")
    assert it.bench.ledger.get(one.operation_id).state is State.REJECTED
