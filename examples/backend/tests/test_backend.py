"""The backend's own tests. No server runs: the ledger is in memory, and so are the backend's own tables."""

import json
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from fastapi.testclient import TestClient
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import StaticPool

from acuse import Approvals
from acuse.agents import Message, Nature, ToolCall
from acuse.testing import MemoryOutbox, lost_reply, not_sent, refused
from acuse_adapters.crm.action import CloseCase
from acuse_adapters.email.action import SendEmail
from examples.backend import receipts
from examples.backend.app import make_app
from examples.backend.model import choose_model, scripted, words_of
from examples.backend.tables import Base, Receipt
from examples.backend.toolbox import DESCRIBED, make_tools


@pytest.fixture
def sessions() -> Iterator[sessionmaker[Session]]:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    Base.metadata.create_all(engine)
    yield sessionmaker(engine)
    engine.dispose()


@pytest.fixture
def settled(sessions: sessionmaker[Session]) -> "dramatiq.Actor[..., None]":
    return receipts.declare(StubBroker(), sessions)


@pytest.fixture
def client(sessions: sessionmaker[Session], outbox: MemoryOutbox) -> Iterator[TestClient]:
    with TestClient(make_app(sessions, outbox, Approvals()), raise_server_exceptions=False) as it:
        it.put("/cases/case-1", json={"owner": "dana@example.org"}).raise_for_status()
        yield it


def status(client: TestClient) -> str:
    return str(client.get("/cases/case-1").json()["status"])


def test_a_case_is_closed_once_and_when_the_crm_has_said_so(client: TestClient, outbox: MemoryOutbox, settled: Any) -> None:
    asked = [client.post("/cases/case-1/close").json() for _ in range(2)]
    assert asked[0] == asked[1]
    outbox.assert_staged(CloseCase, target="case-1", payload={"resolution": "onboarded"}, times=1)
    assert status(client) == "closing"

    outbox.run_effects(actors=[settled])

    shown = client.get("/cases/case-1").json()
    assert (shown["status"], [one["state"] for one in shown["receipts"]]) == ("closed", ["confirmed"])


@pytest.mark.parametrize(("behaviour", "then"), [(lost_reply, "closing"), (refused, "open"), (not_sent, "closing")])
def test_a_case_is_not_called_closed_before_it_is(
    client: TestClient, outbox: MemoryOutbox, settled: Any, behaviour: Any, then: str
) -> None:
    client.post("/cases/case-1/close")
    outbox.run_effects({CloseCase: behaviour}, actors=[settled])
    assert status(client) == then


def test_a_refusal_changes_nothing_and_names_what_stands(client: TestClient, outbox: MemoryOutbox) -> None:
    first = client.post("/cases/case-1/close").json()
    other = client.post("/cases/case-1/close", json={"resolution": "gave up"})
    assert (other.status_code, other.json()["operation_id"]) == (409, first["operation_id"])
    assert client.post("/cases/case-1/close", json={"resolution": ""}).status_code == 422
    assert client.post("/cases/case-9/close").status_code == 404
    assert client.put("/cases/case-2", json={"owner": "nobody"}).status_code == 422
    outbox.assert_staged(CloseCase, times=1)


def test_what_is_told_twice_or_late_is_written_once(
    client: TestClient, outbox: MemoryOutbox, settled: Any, sessions: sessionmaker[Session]
) -> None:
    client.post("/cases/case-1/close")
    outbox.run_effects()
    [told] = outbox.told
    for version, state in ((told.kwargs["version"], "confirmed"), (told.kwargs["version"] - 1, "unknown")) * 2:
        settled.fn(**{**told.kwargs, "version": version, "state": state})
    assert status(client) == "closed"
    with sessions() as session:
        assert [one.state for one in session.query(Receipt)] == ["confirmed"]


def test_a_run_is_asked_for_once(client: TestClient) -> None:
    runs = [client.post("/runs", json={"case": "case-1"}).json() for _ in range(2)]
    assert runs[0] == runs[1] == client.get("/runs/close-case-1").json()
    assert runs[0]["ended"] is None
    assert client.post("/runs", json={"case": "case-9"}).status_code == 404


def conversation(*answers: tuple[str, bool]) -> list[Message]:
    """The messages of a run that has had these answers."""
    messages = [Message("user", "Close the onboarding case case-1", 0)]
    for step, (text, is_error) in enumerate(answers, 1):
        decision = scripted(messages)
        messages.append(Message("assistant", decision.message, step))
        messages.append(Message("tool", text, step, decision.calls[0].id, is_error))
    return messages


READ = (json.dumps({"case": "case-1", "owner": "dana@example.org", "status": "open"}), False)
CLOSED = ("Done: crm.close_case.v1 for case-1 is confirmed.", False)


def test_the_agent_reads_closes_and_tells_the_owner(
    outbox: MemoryOutbox, sessions: sessionmaker[Session], client: TestClient
) -> None:
    tools = make_tools(sessions)
    calls = [scripted(conversation(*answers)).calls[0] for answers in ((), (READ,), (READ, CLOSED))]
    assert [call.name for call in calls] == ["read_case", "close_case", "send_email"]
    read = tools.get("read_case")
    assert read is not None
    assert read.function is not None
    assert json.dumps(read.function(**calls[0].parsed())) == READ[0]
    # What it asks for are effects that the outbox takes
    for call in calls[1:]:
        tool = tools.get(call.name)
        assert tool is not None
        outbox.stage(
            outbox.session(), tool.effect_of(call), workflow="case-1", effect_key=None if tool.name == "close_case" else "1"
        )
    outbox.assert_staged(CloseCase, target="case-1")
    outbox.assert_staged(SendEmail, payload={"to": "dana@example.org"})


@pytest.mark.parametrize(
    "answer",
    [
        ("Outcome unknown: crm.close_case.v1 for case-1 may or may not have happened. Do not repeat it.", True),
        ("Rejected: crm.close_case.v1 for case-1.", True),
        ("In progress: crm.close_case.v1 for case-1 is on its way and not confirmed yet. Do not call again.", False),
    ],
)
def test_the_agent_tells_nobody_of_a_closing_that_is_not_certain(answer: tuple[str, bool]) -> None:
    decision = scripted(conversation(READ, answer))
    assert decision.calls == ()
    assert answer[0] in words_of(decision.message)


def test_a_model_is_told_of_every_tool_and_chosen_by_its_key(sessions: sessionmaker[Session], monkeypatch: Any) -> None:
    tools = make_tools(sessions)
    assert {one["name"] for one in DESCRIBED} == {tool.name for tool in tools}
    assert [tool.name for tool in tools if tool.nature is Nature.READ_ONLY] == ["read_case"]
    assert ToolCall("t", "read_case", {"case": "case-1"}).parsed() == {"case": "case-1"}
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert choose_model() is scripted
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert choose_model() is not scripted
