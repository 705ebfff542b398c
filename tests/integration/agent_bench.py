"""An agent on its bench: a run, its journal and its gate on a real ledger, with tools that count how often they really ran."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from host import CloseCase, SendEmail
from sqlalchemy import Connection, Engine, text
from stepper import drive

from acuse import Ledger, Outbox, State
from acuse.agents import Journal, Need, Resumed, Risk, Run, ToolAnswer, ToolCall, ToolGate, Tools

NOW = timedelta(0)


class AgentBench:
    """One run of one tenant."""

    def __init__(self, engine: Engine, tenant: str, tools: Tools | None = None, approvals: Any = None) -> None:
        self.engine, self.tenant = engine, tenant
        self.tools = Tools() if tools is None else tools
        self.ran: Counter[str] = Counter()
        self.journal = Journal(tenant)
        self.ledger = Ledger(engine, tenant=tenant)
        self.broken: Exception | None = None  # raised in place of the next transaction
        self.gate = ToolGate(self.sessions, self.tools, self.journal, Outbox(), self.ledger, approvals, wait=NOW)
        with engine.begin() as connection:
            self.run: Run = self.journal.start(connection, f"run of {tenant}", flow_version="1", task="Tell Dana", owner="pod-1")

    def sessions(self) -> AbstractContextManager[Connection]:
        if self.broken is not None:
            raise self.broken
        return self.engine.begin()

    def email(self, approval: Need = Need.NOT_NEEDED, **more: Any) -> None:
        self.tools.effect(
            "send_email",
            action=SendEmail,
            risk=Risk.HIGH,
            why="nobody can take an email back once it has left",
            approval=approval,
            **more,
        )

    def close_case(self, approval: Need = Need.NOT_NEEDED) -> None:
        self.tools.effect(
            "close_case", action=CloseCase, risk=Risk.MEDIUM, why="a closed case leaves everybody's list", approval=approval
        )

    def decide(self, *calls: ToolCall) -> None:
        """The model decides, and the decision is stored."""
        with self.engine.begin() as connection:
            self.run = self.journal.decide(connection, self.run, "{}", calls)

    def call(self, call: ToolCall, **how: Any) -> ToolAnswer:
        return self.gate.call(self.run, call, **how)

    def answers(self, calls: Sequence[ToolCall], **how: Any) -> list[ToolAnswer]:
        return self.gate.answers(self.run, calls, **how)

    def crash(self) -> Resumed:
        """Its owner dies, its lease ends, and another one resumes."""
        with self.engine.begin() as connection:
            connection.execute(
                text("update acuse.run set lease_until = clock_timestamp() - interval '1 ms' where id = cast(:id as uuid)"),
                {"id": self.run.id},
            )
            resumed = self.journal.resume(connection, self.run.run_id, flow_version="1", owner="pod-2")
        self.run = resumed.run
        return resumed

    def drive(self, answer: ToolAnswer, state: State) -> None:
        """A worker brings the operation of an answer into a state."""
        assert answer.operation_id is not None
        drive(self.engine, answer.operation_id, state)

    def operations(self) -> int:
        return len(self.ledger.find(tenant=self.tenant).operations)


def send(call_id: str = "toolu_1", **fields: str) -> ToolCall:
    return ToolCall(call_id, "send_email", {"case": "case-1", **fields})


def close(call_id: str = "toolu_1", **fields: Any) -> ToolCall:
    return ToolCall(call_id, "close_case", {"case": "case-1", **fields})
