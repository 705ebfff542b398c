"""The real SDKs with a scripted model behind them, no network: an agent that dies anywhere goes on, and asks nothing twice."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx2 as httpx
import pytest
from agent_bench import AgentBench
from anthropic import Anthropic
from openai import OpenAI
from sqlalchemy import Engine

from acuse import Approvals, State
from acuse.agents import Message, Need, TurnsExhausted
from acuse.bridges.anthropic import AnthropicModel
from acuse.bridges.loop import AgentLoop, Decision, End, Ended
from acuse.bridges.openai import OpenAIModel

Call = tuple[str, str, dict[str, Any]]
Turn = tuple[str, list[Call]]
Ask = Callable[[Sequence[Message]], Decision]

SENT = ("On it.", [("call_1", "send_email", {"case": "case-1"})])
ENDED: Turn = ("Dana knows.", [])


class ScriptedModel:
    """Answers the n-th question with the n-th turn, in the form of either API, and keeps what it was asked."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.asked: list[list[dict[str, Any]]] = []

    def anthropic(self, request: httpx.Request) -> httpx.Response:
        text, calls = self._next(request)
        content: list[dict[str, Any]] = [{"type": "text", "text": text}] + [
            {"type": "tool_use", "id": f"toolu_{key}", "name": name, "input": given} for key, name, given in calls
        ]
        reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content}
        ended = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        return httpx.Response(200, json=reply | ended | {"usage": {"input_tokens": 100, "output_tokens": 20}})

    def openai(self, request: httpx.Request) -> httpx.Response:
        text, calls = self._next(request)
        functions = [
            {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for key, name, given in calls
        ]
        message = {"role": "assistant", "content": text} | ({"tool_calls": functions} if functions else {})
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
        reply = {"id": "c_1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        return httpx.Response(200, json=reply | {"usage": usage})

    def _next(self, request: httpx.Request) -> Turn:
        self.asked.append(json.loads(request.content)["messages"])
        return self.turns.pop(0)


def asks_anthropic(script: ScriptedModel) -> Iterator[Ask]:
    with (
        httpx.Client(transport=httpx.MockTransport(script.anthropic)) as http,
        Anthropic(api_key="k", http_client=http) as client,
    ):
        yield AnthropicModel(client, model="scripted", max_tokens=100, tools=[])


def asks_openai(script: ScriptedModel) -> Iterator[Ask]:
    with httpx.Client(transport=httpx.MockTransport(script.openai)) as http, OpenAI(api_key="k", http_client=http) as client:
        yield OpenAIModel(client, model="scripted", tools=[], system="Be brief.")


@pytest.fixture
def script() -> ScriptedModel:
    return ScriptedModel(SENT, ENDED)


@pytest.fixture(params=[asks_anthropic, asks_openai])
def ask(request: pytest.FixtureRequest, script: ScriptedModel) -> Iterator[Ask]:
    yield from request.param(script)


@pytest.fixture
def bench(engine: Engine, tenant: str) -> AgentBench:
    made = AgentBench(engine, tenant)
    made.email()
    return made


def go(bench: AgentBench, ask: Ask, run: str = "run-77", **more: Any) -> Ended:
    loop = AgentLoop(bench.sessions, bench.journal, bench.gate, ask)
    return loop.run(run, "Tell Dana", flow_version="1", owner="pod-1", **more)


def lose_the_lease(bench: AgentBench, run: str = "run-77") -> None:
    with bench.engine.begin() as connection:
        connection.exec_driver_sql(
            "update acuse.run set lease_until = clock_timestamp() - interval '1 ms' where (tenant, run_id) = (%s, %s)",
            (bench.tenant, run),
        )


def test_the_model_decides_the_tool_runs_and_the_model_is_told(bench: AgentBench, ask: Ask, script: ScriptedModel) -> None:
    ended = go(bench, ask)
    assert (ended.end, ended.text) == (End.FINISHED, "Dana knows.")
    assert json.loads(ended.message)["role"] == "assistant"
    assert bench.operations() == 1
    # What went back is the model's own message, byte for byte as content goes, and one answer to its call
    assert len(script.asked) == 2
    told = json.dumps(script.asked[1])
    assert "On it." in told
    assert "In progress" in told
    with bench.engine.connect() as connection:
        run = bench.journal.read(connection, "run-77").run
    assert (run.turns, run.tokens_used) == (2, 120)


@pytest.mark.parametrize("died", ["before it was stored", "after it was stored"])
def test_a_loop_that_died_goes_on_where_it_was(bench: AgentBench, ask: Ask, script: ScriptedModel, died: str) -> None:
    # Given a process that dies around the first decision
    if died == "before it was stored":
        script.turns.insert(0, SENT)
        with pytest.raises(ZeroDivisionError):
            go(bench, lambda messages: ask(messages) and 1 / 0)  # type: ignore[arg-type, return-value]
    else:
        bench.broken = None
        real, bench.gate.answers = bench.gate.answers, lambda *_, **__: 1 / 0  # type: ignore[method-assign, assignment]
        with pytest.raises(ZeroDivisionError):
            go(bench, ask)
        bench.gate.answers = real  # type: ignore[method-assign]
    asked = len(script.asked)
    lose_the_lease(bench)
    # When another runs it
    assert go(bench, ask).end is End.FINISHED
    # Then a decision that was stored was not asked for again, and there is one email
    assert len(script.asked) - asked == (2 if died == "before it was stored" else 1)
    assert bench.operations() == 1
    # And a run that has ended does not begin anew
    with pytest.raises(Exception, match="is finished"):
        go(bench, ask)


def test_a_run_that_waits_for_a_person_is_given_back_and_goes_on_later(
    engine: Engine, tenant: str, ask: Ask, script: ScriptedModel
) -> None:
    approvals = Approvals(tenant=tenant)
    bench = AgentBench(engine, tenant, approvals=approvals)
    bench.email(Need.REQUIRED)
    # Given a call that needs an approval
    waits = go(bench, ask)
    assert (waits.end, len(waits.waiting)) == (End.WAITING, 1)
    assert "waits for a person" in waits.waiting[0].content
    # When somebody gives it, and the email is sent
    with engine.begin() as connection:
        [pending] = approvals.pending(connection)
        assert approvals.decide(connection, pending.approval_id, True, by="eve").won
    assert waits.waiting[0].operation_id is not None
    bench.drive(waits.waiting[0], State.CONFIRMED)
    # Then the same run goes on at once, is told of the receipt, and the model was not asked for its decision again
    assert go(bench, ask).end is End.FINISHED
    assert len(script.asked) == 2
    assert "is confirmed" in json.dumps(script.asked[1])


def test_a_run_without_turns_ends_before_the_model_is_asked(bench: AgentBench, ask: Ask, script: ScriptedModel) -> None:
    assert go(bench, ask, max_turns=1).end is End.EXHAUSTED
    assert len(script.asked) == 1
    with pytest.raises((TurnsExhausted, Exception), match="exhausted"):
        go(bench, ask)
