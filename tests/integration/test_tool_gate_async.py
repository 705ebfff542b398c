"""The asynchronous gate: the same way through, awaited."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from agent_bench import send
from host import SendEmail
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine
from stepper import drive

from acuse import AsyncApprovals, AsyncLedger, AsyncOutbox, State
from acuse.agents import AsyncJournal, AsyncToolGate, Need, Outcome, Risk, ToolCall, Tools

WHY = "a sentence that says why"


async def test_a_turn_of_every_nature_is_answered_together(async_engine: AsyncEngine, engine: Engine, tenant: str) -> None:
    ran: list[str] = []
    tools = Tools()

    @tools.read_only(risk=Risk.LOW, why=WHY)
    async def read_file(path: str) -> str:
        await asyncio.sleep(0)
        ran.append(path)
        return "its words"

    @tools.overwrites(risk=Risk.LOW, why=WHY, target="key")
    def set_config(key: str) -> None:
        ran.append(key)

    @tools.appends(risk=Risk.LOW, why=WHY)
    async def append_log() -> None:
        ran.append("line")
        raise TimeoutError

    @tools.ensures(risk=Risk.LOW, why=WHY, find=lambda: None)
    def ensure_ticket() -> str:
        ran.append("ticket")
        return "T-1"

    tools.effect("send_email", action=SendEmail, risk=Risk.HIGH, why=WHY, approval=Need.NOT_NEEDED)
    journal = AsyncJournal(tenant)
    ledger = AsyncLedger(async_engine, tenant=tenant)
    gate = AsyncToolGate(async_engine.begin, tools, journal, AsyncOutbox(), ledger, wait=timedelta(seconds=20))
    calls = [
        ToolCall("c-1", "read_file", {"path": "a.md"}),
        ToolCall("c-2", "set_config", {"key": "a"}),
        ToolCall("c-3", "append_log"),
        ToolCall("c-4", "ensure_ticket"),
        send("c-5"),
        ToolCall("c-6", "no_such_tool"),
    ]
    async with async_engine.begin() as session:
        run = await journal.start(session, "run-1", flow_version="1", task="x", owner="pod-1")
        run = await journal.decide(session, run, "{}", calls)
    told = asyncio.create_task(gate.answers(run, calls))

    async def staged() -> Any:
        while not (found := (await ledger.find(tenant=tenant)).operations):
            await asyncio.sleep(0.01)
        return found[0]

    # The gate waits for the email, which a worker sends meanwhile
    await asyncio.to_thread(drive, engine, (await staged()).operation_id, State.CONFIRMED)
    answers = await told
    assert [one.outcome for one in answers] == [
        Outcome.DONE,
        Outcome.DONE,
        Outcome.UNKNOWN,
        Outcome.DONE,
        Outcome.CONFIRMED,
        Outcome.NOT_SENT,
    ]
    assert ran == ["a.md", "a", "line", "ticket"]
    async with async_engine.begin() as session:
        read = await journal.read(session, "run-1")
    assert [one.text for one in read.messages[2:]] == [one.content for one in answers]
    assert await gate.call(run, calls[2]) == answers[2]


async def test_a_call_waits_for_a_person(async_engine: AsyncEngine, tenant: str) -> None:
    tools, approvals, journal = Tools(), AsyncApprovals(tenant=tenant), AsyncJournal(tenant)
    tools.effect("send_email", action=SendEmail, risk=Risk.HIGH, why=WHY, approval=Need.REQUIRED)
    gate = AsyncToolGate(async_engine.begin, tools, journal, AsyncOutbox(), AsyncLedger(async_engine), approvals)
    async with async_engine.begin() as session:
        run = await journal.start(session, "run-1", flow_version="1", task="x", owner="pod-1")
        run = await journal.decide(session, run, "{}", [send("c-1")])
    assert (await gate.call(run, send("c-1"))).outcome is Outcome.WAITING_FOR_APPROVAL
    async with async_engine.begin() as session:
        [asked] = await approvals.pending(session)
        await approvals.decide(session, asked.approval_id, approve=True, by="ann")
    answer = await gate.call(run, send("c-1"), wait=timedelta(0))
    assert (answer.outcome, answer.is_error) == (Outcome.IN_PROGRESS, False)
    [stopped] = await gate.answers(run, [send("c-1")], wait=timedelta(0), store_pending=False)
    assert stopped.operation_id == answer.operation_id


async def test_a_tool_that_is_cut_off_is_unknown_to_the_next_owner(async_engine: AsyncEngine, tenant: str) -> None:
    tools, begun = Tools(), asyncio.Event()

    @tools.appends(risk=Risk.LOW, why=WHY)
    async def append_log() -> None:
        begun.set()
        await asyncio.Event().wait()

    journal = AsyncJournal(tenant)
    gate = AsyncToolGate(async_engine.begin, tools, journal, AsyncOutbox(), AsyncLedger(async_engine), wait=timedelta(0))
    call = ToolCall("c-1", "append_log")
    async with async_engine.begin() as session:
        run = await journal.start(session, "run-1", flow_version="1", task="x", owner="pod-1")
        run = await journal.decide(session, run, "{}", [call])
    calling = asyncio.create_task(gate.call(run, call))
    await begun.wait()
    assert (await gate.call(run, call)).outcome is Outcome.IN_PROGRESS
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    async with async_engine.begin() as session:
        await journal.release(session, run)
        resumed = await journal.resume(session, "run-1", flow_version="1", owner="pod-2")
    assert [one.outcome for one in await gate.answers(resumed.run, resumed.calls)] == [Outcome.UNKNOWN]
