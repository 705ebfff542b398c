"""A run is told the same on every driver, whatever the host has taught its connection."""

from typing import Any

import pytest
from drivers import ASYNC, SYNC, AsyncOpener, Opener

from acuse.agents import AsyncJournal, AsyncKeeping, Journal, Outcome, RunLost, StaleRun, ToolAnswer, ToolCall

CALL = ToolCall("toolu_1", "read_file", {"path": "ü.md"})
SAID = '{"role": "assistant", "content": "é ☕ 50 % :name"}'
ANSWER = ToolAnswer("toolu_1", Outcome.DONE, "ça y est", is_error=False)


@pytest.mark.parametrize("opened", SYNC, ids=lambda opener: opener.__name__)
def test_a_whole_run_on_every_driver(database_url: str, tenant: str, opened: Opener) -> None:
    journal = Journal(tenant)
    with opened(database_url) as held:
        run = journal.start(held.caller, "run-1", flow_version="3", task="Sag es Jörg", owner="pod-1", max_turns=3)
        run = journal.decide(held.caller, run, SAID, [CALL], tokens_used=7)
        run = journal.answer(held.caller, run, CALL, ANSWER)
        run = journal.tell(held.caller, run, "und Ida")
        journal.release(held.caller, run)
        held.commit()
        resumed = journal.resume(held.caller, "run-1", flow_version="3", owner="pod-2")
        assert [one.text for one in resumed.messages] == ["Sag es Jörg", SAID, "ça y est", "und Ida"]
        assert (resumed.turns, resumed.tokens_used, resumed.next) == (1, 7, "ask")
        forked = journal.fork(held.caller, "run-1", at_step=1, new_run_id="run-2", owner="pod-3")
        assert len(forked.messages) == 3
        assert journal.rewind(held.caller, resumed.run, to_step=0).messages[0].text == "Sag es Jörg"
        assert journal.cancel(held.caller, "run-2", by="ann", reason="enough") == ()
        held.rollback()
        assert journal.read(held.caller, "run-1").run.owner is None


@pytest.mark.parametrize("opened", ASYNC, ids=lambda opener: opener.__name__)
async def test_a_whole_run_on_every_asynchronous_driver(database_url: str, tenant: str, opened: AsyncOpener) -> None:
    journal = AsyncJournal(tenant)
    async with opened(database_url) as held:
        run = await journal.start(held.caller, "run-1", flow_version="3", task="Sag es Jörg", owner="pod-1", max_turns=3)
        run = await journal.decide(held.caller, run, SAID, [CALL], tokens_used=7)
        run = await journal.answer(held.caller, run, CALL, ANSWER)
        run = await journal.tell(held.caller, run, "und Ida")
        stale = run
        run = await journal.renew(held.caller, run)
        await journal.release(held.caller, run)
        await held.commit()
        resumed = await journal.resume(held.caller, "run-1", flow_version="3", owner="pod-2")
        assert [one.text for one in resumed.messages] == ["Sag es Jörg", SAID, "ça y est", "und Ida"]
        with pytest.raises(StaleRun):
            await journal.decide(held.caller, stale, SAID)
        with pytest.raises(RunLost):
            await journal.renew(held.caller, stale)
        assert await journal.facts(held.caller, resumed.run) == ()
        forked = await journal.fork(held.caller, "run-1", at_step=1, new_run_id="run-2", owner="pod-3")
        assert len(forked.messages) == 3
        assert (await journal.rewind(held.caller, resumed.run, to_step=0)).messages[0].text == "Sag es Jörg"
        assert await journal.cancel(held.caller, "run-2", by="ann", reason="enough") == ()
        await journal.forget(held.caller, "run-2")
        await held.rollback()
        assert (await journal.read(held.caller, "run-1")).run.owner is None


async def test_a_lease_is_renewed_beside_asynchronous_work(async_engine: Any, tenant: str) -> None:
    import asyncio

    journal = AsyncJournal(tenant)
    async with async_engine.begin() as session:
        run = await journal.start(session, "run-1", flow_version="3", task="x", owner="pod-1")
    async with AsyncKeeping(journal, async_engine.begin, run, every=0.001) as kept:
        found = run
        while found.lease_until == run.lease_until:
            await asyncio.sleep(0)
            async with async_engine.begin() as session:
                found = (await journal.read(session, "run-1")).run
        async with async_engine.begin() as session:
            await journal.finish(session, run)
        while not kept.lost:
            await asyncio.sleep(0.001)
