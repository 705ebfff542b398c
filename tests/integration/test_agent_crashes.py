"""An agent that dies at every transaction there is, before it and after it: nothing is done twice, and nothing untrue is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from agent_bench import AgentBench
from sqlalchemy import Connection, Engine, create_engine, event

from acuse.agents import Outcome, Resumed, Risk, ToolCall

WHY = "a sentence that says why"
CALLS = [
    ToolCall("c-1", "read_file"),
    ToolCall("c-2", "append_log"),
    ToolCall("c-3", "set_config"),
    ToolCall("c-4", "ensure_ticket"),
    ToolCall("c-5", "send_email", {"case": "case-1"}),
]


class Died(BaseException):
    """The process ends here: nobody catches it, nothing more is written."""


class Agent(AgentBench):
    """Asks, stores, answers, until the model calls nothing more; dies before or after its nth transaction, if it is told to."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        super().__init__(engine, tenant)
        self.dies_at, self.dies, self.seen = 0, "", 0
        self.asked: list[int] = []
        self.made: list[str] = []
        self.email()
        self.tools.read_only(risk=Risk.LOW, why=WHY, name="read_file")(lambda: self.work("read"))
        self.tools.appends(risk=Risk.LOW, why=WHY, name="append_log")(lambda: self.work("append"))
        self.tools.overwrites(risk=Risk.LOW, why=WHY, name="set_config")(lambda: self.work("config"))
        found = lambda: "T-1" if "ticket" in self.made else None  # noqa: E731
        self.tools.ensures(find=found, risk=Risk.LOW, why=WHY, name="ensure_ticket")(lambda: self.work("ticket"))

    def work(self, what: str) -> str:
        self.made.append(what)
        return what

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        self.seen += 1
        dies = self.seen == self.dies_at
        if dies and self.dies == "before":
            raise Died
        with self.engine.begin() as connection:
            yield connection
        if dies and self.dies == "after":
            raise Died

    def sessions(self) -> Any:
        return self.transaction()

    def go_on(self, found: Resumed) -> None:
        while found.next != "finish":
            if found.next == "ask":
                self.asked.append(found.turns)
                with self.transaction() as session:
                    self.run = self.journal.decide(session, found.run, "{}", CALLS if found.turns == 0 else [])
            else:
                self.gate.answers(found.run, found.calls)
            with self.transaction() as session:
                found = self.journal.read(session, self.run.run_id)
        with self.transaction() as session:
            self.journal.finish(session, found.run)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Does not wait for the disk: the server stays up, and there are a thousand commits."""
    made = create_engine(database_url, connect_args={"prepare_threshold": None})
    event.listen(made, "begin", lambda connection: connection.exec_driver_sql("set local synchronous_commit = off"))
    yield made
    made.dispose()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("dies", ["before", "after"])
def test_an_agent_that_dies_at_any_transaction_does_nothing_twice(engine: Engine, tenant: str, dies: str) -> None:
    points, finished = 0, False
    while not finished:
        points += 1
        agent = Agent(engine, f"{tenant}-{points}")
        agent.dies_at, agent.dies = points, dies
        with engine.begin() as connection:
            found = agent.journal.read(connection, agent.run.run_id)
        try:
            agent.go_on(found)
            finished = True
        except Died:
            with engine.begin() as connection:
                ended = agent.journal.read(connection, agent.run.run_id).run.owner is None
            if not ended:
                agent.go_on(agent.crash())
        judge(agent)
    assert points > len(CALLS) * 2  # it died at least before each call began, and before each answer was stored


def judge(agent: Agent) -> None:
    """What may be true in the end."""
    with agent.engine.begin() as connection:
        found = agent.journal.read(connection, agent.run.run_id)
    answers = {call.call.name: call.answer for call in found.stored_calls}
    outcomes = {name: answer.outcome for name, answer in answers.items() if answer is not None}
    assert len(outcomes) == len(CALLS)
    # Asked once for each turn; again only for one whose decision was never stored
    assert found.turns == 2
    assert agent.asked in ([0, 1], [0, 0, 1], [0, 1, 1])
    # What cannot be repeated was done at most once, and if it was, it is never said that it was not
    assert agent.made.count("append") <= 1
    assert outcomes["append_log"] in ((Outcome.DONE, Outcome.UNKNOWN) if "append" in agent.made else (Outcome.UNKNOWN,))
    assert agent.made.count("ticket") == 1
    assert agent.operations() == 1
    assert outcomes["send_email"] is Outcome.IN_PROGRESS
    # What can be repeated was done, and is said to be
    assert (outcomes["read_file"], outcomes["set_config"], outcomes["ensure_ticket"]) == (Outcome.DONE,) * 3
