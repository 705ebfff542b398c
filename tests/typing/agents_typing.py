"""Checked by mypy and never executed: what a host writes of agents has the types that it reads."""

import contextlib
from collections.abc import AsyncIterator
from typing import assert_type

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, sessionmaker

from acuse import Action, Approvals, AsyncApprovals, AsyncLedger, AsyncOutbox, Ledger, Outbox
from acuse.agents import (
    AsyncJournal,
    AsyncKeeping,
    AsyncToolGate,
    Fact,
    Journal,
    Keeping,
    Message,
    Need,
    Outcome,
    Resumed,
    Risk,
    Run,
    Tool,
    ToolAnswer,
    ToolCall,
    ToolGate,
    Tools,
)


class SendEmail(Action, name="email.send.v1", target="case"):
    case: str


tools = Tools()


@tools.read_only(risk=Risk.LOW, why="reading twice is reading once")
def read_file(path: str) -> str:
    return path


@tools.appends(risk=Risk.LOW, why="one line more each time", already=lambda call: call.id)
async def append_log(line: str) -> None: ...


assert_type(read_file("a"), str)
assert_type(
    tools.effect("send_email", action=SendEmail, risk=Risk.HIGH, why="it cannot be taken back", approval=Need.REQUIRED), Tool
)


def blocking(engine: Engine, session: Session, call: ToolCall) -> None:
    journal = Journal("acme")
    run = journal.start(session, "run-1", flow_version="1", task="x", owner="pod-1")
    assert_type(run, Run)
    assert_type(journal.decide(session, run, "{}", [call]), Run)
    resumed = journal.resume(session, "run-1", flow_version="1", owner="pod-2")
    assert_type(resumed, Resumed)
    assert_type(resumed.messages, tuple[Message, ...])
    assert_type(resumed.dangling, tuple[ToolCall, ...])
    assert_type(journal.facts(session, run), tuple[Fact, ...])
    assert_type(journal.cancel(session, "run-1", by="ann", reason="enough"), tuple[str, ...])
    for sessions in (engine.begin, sessionmaker(engine).begin):
        gate = ToolGate(sessions, tools, journal, Outbox(), Ledger(engine), Approvals())
        answer = gate.call(run, call)
        assert_type(answer, ToolAnswer)
        assert_type(answer.outcome, Outcome)
        assert_type(gate.answers(run, resumed.calls), list[ToolAnswer])
        with Keeping(journal, sessions, run) as kept:
            kept.check()


async def awaited(engine: AsyncEngine, session: AsyncSession, call: ToolCall) -> None:
    @contextlib.asynccontextmanager
    async def of_the_host() -> AsyncIterator[AsyncSession]:
        yield session

    journal = AsyncJournal("acme")
    run = await journal.start(session, "run-1", flow_version="1", task="x", owner="pod-1")
    assert_type(run, Run)
    for sessions in (engine.begin, of_the_host):
        gate = AsyncToolGate(sessions, tools, journal, AsyncOutbox(), AsyncLedger(engine), AsyncApprovals())
        assert_type(await gate.call(run, call), ToolAnswer)
        async with AsyncKeeping(journal, sessions, run) as kept:
            kept.check()
