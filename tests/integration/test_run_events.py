"""Messages from a chat that delivers again: a run for each message, by the message's own identity and never by a retry mark."""

from dataclasses import dataclass

import pytest
from agent_bench import NOW
from host import SendEmail
from sqlalchemy import Engine

from acuse import Ledger, Outbox
from acuse.agents import Journal, Need, Risk, RunExists, ToolCall, ToolGate, Tools


@dataclass(frozen=True)
class Event:
    """What the chat delivers: `id` is of the delivery, `message` of what a person wrote."""

    id: str
    message: str
    retry: int = 0


class Bot:
    """Answers each message with one email, in a run named by the message."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self.engine, self.tenant, self.handled = engine, tenant, list[str]()
        tools = Tools()
        tools.effect(
            "send_email", action=SendEmail, risk=Risk.HIGH, why="an email cannot be taken back", approval=Need.NOT_NEEDED
        )
        self.journal = Journal(tenant)
        self.gate = ToolGate(engine.begin, tools, self.journal, Outbox(), Ledger(engine), wait=NOW)

    def receive(self, event: Event) -> None:
        try:
            with self.engine.begin() as session:
                run = self.journal.start(session, event.message, flow_version="1", task="…", owner="bot")
                call = ToolCall(f"toolu_{event.id}", "send_email", {"case": f"case-{event.message}"})
                run = self.journal.decide(session, run, "{}", [call])
        except RunExists:
            return  # somebody has it, or had it
        self.handled.append(event.message)
        self.gate.answers(run, [call])


@pytest.mark.case("R095")
def test_a_message_is_handled_once_however_it_is_delivered(engine: Engine, tenant: str) -> None:
    bot = Bot(engine, tenant)
    # The first copy is lost, and the one that is marked as a retry is the first to come
    bot.receive(Event("e-1", "m-1", retry=1))
    assert bot.handled == ["m-1"]
    # A message and two retries of its delivery
    for retry in range(3):
        bot.receive(Event("e-2", "m-2", retry))
    assert bot.handled == ["m-1", "m-2"]
    # The same message under new event ids
    bot.receive(Event("e-3", "m-2"))
    bot.receive(Event("e-4", "m-1"))
    assert bot.handled == ["m-1", "m-2"]
    assert len(Ledger(engine).find(tenant=tenant).operations) == 2
