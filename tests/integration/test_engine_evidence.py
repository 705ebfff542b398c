"""Look-ups, findings and verdicts: each on the version of the record that it judged."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from bench import Bench
from scripted_provider import SEEN, lose_reply, vanish

from acuse.protocol import Confirm, Found, Questions, RefusedBefore, State
from acuse_adapters.engine import Book
from acuse_adapters.port import Operation


@pytest.mark.invariant(3)
async def test_every_finding_raises_the_version_and_an_older_verdict_changes_nothing(bench: Bench) -> None:
    bench.promise(SEEN)
    one = bench.stage()
    bench.provider.will(lose_reply)
    await bench.carry(one)
    book = bench.book()
    view = await book.view(one)
    assert view is not None

    recorded = await book.record(one, "webhook", "w-1", 1, Found("N-1"), view.at)
    again = await book.record(one, "webhook", "w-1", 1, Found("N-1"), view.at)

    assert recorded is not None
    assert again is not None
    assert (recorded.fresh, recorded.version, again.fresh, again.version) == (True, view.version + 1, False, view.version + 1)
    verdict = Confirm("it is there", Questions("", "", "", "", ""), "N-1")
    assert await book.apply(one, view.version, verdict) is None
    assert bench.state(one) is State.UNKNOWN
    assert await book.apply(one, recorded.version, verdict) == recorded.version + 1
    assert bench.state(one) is State.CONFIRMED


async def test_a_worker_whose_verdict_came_too_late_gives_the_claim_back_at_once(bench: Bench) -> None:
    # Given a look-up, and a webhook that is written down between it and the verdict
    bench.promise(SEEN)
    one = bench.stage()
    bench.provider.will(lose_reply)
    await bench.carry(one)

    class Overtaken(Book):
        async def apply(self, operation: UUID, version: int, verdict: Any) -> int | None:
            now = bench.ask("select clock_timestamp()")
            await self.record(operation, "webhook", "w-1", 1, Found("N-1"), now)
            return await super().apply(operation, version, verdict)

    await bench.again(one, engine=bench.another(Overtaken(bench.database, timedelta(seconds=60))))

    row = bench.row(one)
    assert (row.status, row.claim_until) == ("unknown", None)
    assert row.due_at is not None
    await bench.again(one)
    assert bench.state(one) is State.CONFIRMED


async def test_an_effect_that_was_found_confirms_without_a_second_request(bench: Bench) -> None:
    bench.promise(SEEN)
    one = bench.stage()
    bench.provider.will(lose_reply)
    await bench.carry(one)

    await bench.again(one)

    assert (bench.state(one), bench.provider.called(one), len(bench.provider.reads)) == (State.CONFIRMED, 1, 1)
    assert bench.count("duplicates_prevented", kind="evidence") == 1


async def test_a_conclusive_absence_is_prepared_again_with_no_doubt_left_and_sent_once_more(bench: Bench) -> None:
    bench.promise(SEEN)
    one = bench.stage()
    bench.provider.will(vanish)
    await bench.carry(one)

    # Looked up at once it proves nothing: the request may still be in flight
    await bench.again(one)
    assert bench.state(one) is State.UNKNOWN

    # Looked up when nothing can be in flight any more, it does
    bench.pass_time(one, 10)
    await bench.again(one)
    row = bench.row(one)
    assert (row.status, row.doubts, row.first_sent_at) == ("prepared", 0, None)
    assert [attempt.doubtful for attempt in bench.rows("attempt", one)] == [False]
    await bench.again(one)
    assert (bench.state(one), bench.provider.called(one), bench.provider.made(one)) == (State.CONFIRMED, 2, 1)


async def test_a_finding_with_texts_that_no_column_takes_is_recorded_all_the_same(bench: Bench) -> None:
    bench.promise(SEEN)
    one = bench.stage()
    bench.provider.will(vanish)
    await bench.carry(one)
    bench.pass_time(one, 10)

    async def strange(_: Operation[Any]) -> Any:
        return RefusedBefore("c\0de" * 40, "half \ud800 and \0" * 500)

    bench.provider.on_look_up = strange

    await bench.again(one)

    assert bench.state(one) is State.REJECTED


@pytest.mark.case("R080")
async def test_copies_at_the_provider_confirm_and_open_an_incident(bench: Bench) -> None:
    bench.promise(SEEN)
    one = bench.stage()
    bench.provider.will(lose_reply)
    await bench.carry(one)

    async def twice(_: Operation[Any]) -> Any:
        return Found("N-1", copies=2, all_ids=("N-1", "N-2"))

    bench.provider.on_look_up = twice

    await bench.again(one)

    assert bench.state(one) is State.CONFIRMED
    assert [(incident.kind, incident.detail) for incident in bench.rows("incident", one)] == [("duplicate_effect", {"extra": 1})]
