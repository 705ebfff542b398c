"""What an account takes: a provider's wish for patience, and limits that people set, hold for all workers together."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from account_row import Account
from bench import Bench, until
from scripted_provider import Behaviour, Hold, Provider, no_step
from sqlalchemy import text

from acuse.protocol import Concerns, NotSent, Outcome, State
from acuse.store.read import get
from acuse_adapters.port import Ended, Operation


def patience(seconds: float, concerns: Concerns = Concerns.ACCOUNT) -> Behaviour:
    """A provider that asks to be left alone for so long."""

    async def answer(_provider: Provider, _operation: Operation[Any]) -> Outcome:
        return NotSent("429: slow down", timedelta(seconds=seconds), concerns=concerns)

    return answer


# --- Retry-After


@pytest.mark.parametrize("concerns", [Concerns.ACCOUNT, Concerns.PROVIDER], ids=["429", "503"])
async def test_a_wish_for_patience_holds_for_all_operations_and_workers(
    bench: Bench, account: Account, concerns: Concerns
) -> None:
    # Given one that is told to come again in a minute
    one, two = bench.stage(target="case-1"), bench.stage(target="case-2")
    bench.provider.will(patience(60, concerns))
    await bench.carry(one)

    # When another worker takes another operation of the account, again and again
    for _ in range(25):
        await bench.again(two, engine=bench.another())

    # Then it waits as it was, until then; and nothing has ended
    row = bench.row(two)
    assert (row.status, row.attempts, row.handovers, row.put_off, row.held) == ("prepared", 0, 0, "account_paused", None)
    assert row.due_at >= account.paused_until
    assert 55 < account.ahead("paused_until") <= 60
    assert bench.state(one) is State.PREPARED

    account.pass_time(61)
    await bench.again(two)
    await bench.again(one)
    assert (bench.state(one), bench.state(two)) == (State.CONFIRMED, State.CONFIRMED)


async def test_a_wish_that_speaks_of_one_request_holds_for_that_one_alone(bench: Bench, account: Account) -> None:
    one, two = bench.stage(target="case-1"), bench.stage(target="case-2")
    bench.provider.will(patience(60, Concerns.OPERATION))

    await bench.carry(one)
    await bench.carry(two)

    row = bench.row(one)
    assert (account.rows, bench.state(two)) == (0, State.CONFIRMED)
    assert (row.due_at - row.updated_at).total_seconds() > 45


async def test_a_wish_is_bounded_and_a_shorter_one_takes_nothing_of_a_longer(bench: Bench, account: Account) -> None:
    hold, short = Hold(patience(24 * 3600)), Hold(patience(5))
    bench.provider.will(hold, short)
    carrying = asyncio.create_task(bench.carry(bench.stage(target="case-1"), bench.stage(target="case-2")))
    await until(lambda: hold.arrived.is_set() and short.arrived.is_set(), "both are at the provider")
    hold.released.set()
    await until(lambda: account.paused_until is not None, "the account rests")
    short.released.set()
    await carrying

    assert 14 * 60 < account.ahead("paused_until") <= 15 * 60


async def test_a_wish_that_prepare_hears_holds_for_the_account_too(bench: Bench, account: Account) -> None:
    async def throttled(_: Operation[Any]) -> None:
        raise Ended(NotSent("429: slow down", timedelta(seconds=60), concerns=Concerns.ACCOUNT))

    bench.provider.on_prepare = throttled
    one = bench.stage(target="case-1")
    await bench.carry(one)
    bench.provider.on_prepare = no_step
    two = bench.stage(target="case-2")
    await bench.carry(two)

    assert bench.provider.calls == []
    assert bench.row(two).put_off == "account_paused"
    assert (bench.row(one).status, bench.row(one).held) == ("prepared", None)


# --- limits


async def test_no_more_calls_are_in_the_air_than_the_account_takes(bench: Bench, account: Account) -> None:
    # Given three at once, and twelve operations that come to four workers at the same moment
    account.limit(concurrent=3)
    holds = [Hold() for _ in range(12)]
    bench.provider.will(*holds)
    several = [bench.stage(target=f"case-{number}") for number in range(12)]
    engines = [bench.another() for _ in range(4)]
    carrying = [asyncio.create_task(bench.carry(one, engine=engines[n % 4])) for n, one in enumerate(several)]
    await until(lambda: sum(task.done() for task in carrying) == 9, "the others were put off")

    # Then three are at the provider, and the others wait as they were, each for a moment of its own
    assert len(bench.provider.calls) == 3
    waiting = [row for row in map(bench.row, several) if row.status == "prepared"]
    assert {(row.put_off, row.attempts, row.handovers) for row in waiting} == {("account_busy", 0, 0)}
    assert len({row.due_at for row in waiting}) == 9
    assert max((row.due_at - row.updated_at).total_seconds() for row in waiting) < 5
    for hold in holds:
        hold.released.set()
    await asyncio.gather(*carrying)
    await finish(bench, account, several)


async def test_no_more_calls_leave_in_a_second_than_the_account_takes(bench: Bench, account: Account) -> None:
    # Given four a second, and ten operations at once
    account.limit(per_second=4)
    several = [bench.stage(target=f"case-{number}") for number in range(10)]
    await asyncio.gather(*(bench.carry(one, engine=bench.another()) for one in several))

    # Then a second's worth has left, and what came in while they left; and the others stand in a row behind
    first = len(bench.provider.calls)
    left = [attempt.dispatched_at for one in several for attempt in bench.rows("attempt", one)]
    assert 4 <= first <= 4 + 4 * (max(left) - min(left)).total_seconds() + 1
    dues = sorted(row.due_at for row in map(bench.row, several) if row.status == "prepared")
    assert all((later - earlier).total_seconds() > 0 for earlier, later in pairwise(dues))

    # And in each half second two more
    account.pass_time(0.5)
    waiting = [one for one in several if bench.state(one) is State.PREPARED]
    for one in waiting[:3]:
        await bench.again(one)
    assert 2 <= len(bench.provider.calls) - first <= 3
    await finish(bench, account, several)


async def test_time_that_nothing_was_sent_in_saves_up_no_more_than_a_second_s_worth(bench: Bench, account: Account) -> None:
    account.limit(per_second=0.01)
    await bench.carry(bench.stage(target="case-0"))
    account.pass_time(3600)

    for number in range(1, 4):
        await bench.carry(bench.stage(target=f"case-{number}"))

    assert len(bench.provider.calls) == 2


async def test_a_queue_that_is_longer_than_a_minute_is_spread_over_it(bench: Bench, account: Account) -> None:
    account.limit(per_second=0.1)
    for number in range(20):
        await bench.carry(bench.stage(target=f"case-{number}"))

    longest = bench.ask(
        "select extract(epoch from max(due_at - updated_at))::float8 from acuse.operation where tenant = :t", t=bench.tenant
    )
    assert longest < 75
    assert account.ahead("queued_until", "account_share") <= 60


async def test_limits_are_of_one_account_and_what_is_in_doubt_takes_no_place(bench: Bench, account: Account) -> None:
    account.limit(concurrent=1)
    other = bench.stage(target="case-1", account=f"{bench.tenant}-other")
    hold = Hold()
    bench.provider.will(hold)
    carrying = asyncio.create_task(bench.carry(other))
    await until(hold.arrived.is_set, "another account's call is in the air")

    one = bench.stage(target="case-2")
    await bench.carry(one)

    assert bench.state(one) is State.CONFIRMED
    hold.released.set()
    await carrying


async def test_without_limits_dispatch_waits_for_nobody_s_share_and_writes_no_account(bench: Bench, account: Account) -> None:
    # Given an account with a row, but without limits, which another transaction shares
    account.limit()
    before = account.xmin_of()
    one = bench.stage()
    with bench.sync.connect() as other:
        other.execute(text("select 1 from acuse.account where account = :account for share"), {"account": bench.tenant})

        await bench.carry(one)

    assert (bench.state(one), account.xmin_of()) == (State.CONFIRMED, before)


async def test_an_account_at_its_limit_is_told_to_a_person(bench: Bench, account: Account) -> None:
    account.limit(per_second=0.01)
    await bench.carry(bench.stage(target="case-0"))
    one = bench.stage(target="case-1")
    await bench.carry(one)

    with bench.sync.connect() as connection:
        record = get(connection, f"op_{one.hex}", bench.tenant)

    assert "at its limit" in record.what_next


async def finish(bench: Bench, account: Account, several: list[UUID]) -> None:
    """Without limits all go on, and nothing was lost."""
    account.limit()
    for one in several:
        if bench.state(one) is State.PREPARED:
            await bench.again(one)
    assert {bench.state(one) for one in several} == {State.CONFIRMED}
    assert all(bench.provider.called(one) == 1 for one in several)
