"""The breaker of an account: a provider that is away leaves a handful of operations in doubt, and loses none."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from account_row import Account
from bench import Bench, Stop, until
from scripted_provider import (
    KEYED,
    SEEN,
    Behaviour,
    Hold,
    Provider,
    accept,
    fail,
    hang_up,
    lock_out,
    lose_reply,
    no_step,
    refuse,
    vanish,
)
from sqlalchemy import text

from acuse.protocol import Ambiguous, Concerns, NotSent, Outcome, State, Unavailable
from acuse.store.read import get
from acuse_adapters.engine import Moment
from acuse_adapters.port import Ended, Operation

FAILURES = 5
"""What acuse.breaker_failures() says; a test compares them."""


async def ask_for_patience(_provider: Provider, _operation: Operation[Any]) -> Outcome:
    return NotSent("429: slow down", concerns=Concerns.ACCOUNT)


async def precondition_failed(_provider: Provider, _operation: Operation[Any]) -> Outcome:
    return NotSent("412: somebody changed it", concerns=Concerns.OPERATION)


async def shut_down(_provider: Provider, _operation: Operation[Any]) -> Outcome:
    return Ambiguous("the worker was shut down during the call", concerns=Concerns.OPERATION)


async def know_the_key(_provider: Provider, _operation: Operation[Any]) -> Outcome:
    return Ambiguous("409: the key was used with another body", review=True)


async def open_breaker(bench: Bench) -> list[UUID]:
    """As many failures in a row as it takes."""
    failed = [bench.stage(target=f"down-{number}") for number in range(FAILURES)]
    bench.provider.will(*[vanish] * FAILURES)
    for one in failed:
        await bench.carry(one)
    return failed


@pytest.mark.parametrize("trouble", [vanish, hang_up, lose_reply, fail])
async def test_so_many_failures_in_a_row_open_it_and_then_nothing_leaves(
    bench: Bench, account: Account, trouble: Behaviour
) -> None:
    assert bench.ask("select acuse.breaker_failures()") == FAILURES
    bench.provider.will(*[trouble] * 50)
    several = [bench.stage(target=f"case-{number}") for number in range(FAILURES)]
    for one in several[:-1]:
        await bench.carry(one)
    assert account.opened_at is None
    await bench.carry(several[-1])
    assert account.opened_at is not None

    # When more comes, also to another worker, more often than an operation may be handed over without progress
    one = bench.stage(target="case-9")
    for _ in range(25):
        await bench.again(one, engine=bench.another())

    # Then it waits as it was: no attempt, no doubt, no hand-over, and it says until when
    row = bench.row(one)
    assert (row.status, row.attempts, row.doubts, row.handovers, row.held) == ("prepared", 0, 0, 0, None)
    assert (row.put_off, bench.provider.called(one)) == ("breaker_open", 0)
    assert row.due_at >= account.open_until


async def test_an_answer_in_between_begins_the_count_again(bench: Bench, account: Account) -> None:
    for answer in (accept, refuse):
        several = [bench.stage(target=f"{answer.__name__}-{number}") for number in range(FAILURES)]
        bench.provider.will(*[vanish] * (FAILURES - 1), answer)
        for one in several:
            await bench.carry(one)
        assert account.failures == 0

    assert account.opened_at is None


@pytest.mark.parametrize("said", [ask_for_patience, precondition_failed, shut_down, know_the_key, lock_out])
async def test_what_says_nothing_of_the_provider_is_not_counted(bench: Bench, account: Account, said: Behaviour) -> None:
    bench.provider.will(*[said] * 2 * FAILURES)

    for number in range(2 * FAILURES):
        account.pass_time(60)
        await bench.carry(bench.stage(target=f"case-{number}"))

    assert len(bench.provider.calls) == 2 * FAILURES
    assert (account.failures or 0, account.opened_at) == (0, None)


async def test_what_goes_well_writes_no_account(bench: Bench, account: Account) -> None:
    for number in range(3):
        await bench.carry(bench.stage(target=f"case-{number}"))
    assert account.rows == 0

    # And where a row stands already, it is left alone
    bench.provider.will(vanish, accept, accept, refuse)
    for number in range(3, 5):
        await bench.carry(bench.stage(target=f"case-{number}"))
    before = account.updated_at
    for number in range(5, 7):
        await bench.carry(bench.stage(target=f"case-{number}"))

    assert (account.rows, account.failures, account.updated_at) == (1, 0, before)


async def test_one_probe_is_let_through_and_its_success_lets_all_go_on(bench: Bench, account: Account) -> None:
    await open_breaker(bench)
    several = [bench.stage(target=f"case-{number}") for number in range(6)]
    account.pass_time(10)

    # When many come at once, to several workers
    probe = Hold()
    bench.provider.will(probe)
    engines = [bench.another() for _ in range(3)]
    calls = len(bench.provider.calls)
    carrying = [asyncio.create_task(bench.carry(one, engine=engines[number % 3])) for number, one in enumerate(several)]
    await until(probe.arrived.is_set, "the probe is at the provider")
    await until(lambda: sum(task.done() for task in carrying) == len(several) - 1, "the others were put off")

    # Then one call is there, and the others do not wait for it in vain
    assert len(bench.provider.calls) == calls + 1
    probe.released.set()
    await asyncio.gather(*carrying)
    assert (account.opened_at, account.failures, account.probe_fence) == (None, 0, None)
    for one in several:
        if bench.state(one) is State.PREPARED:
            await bench.again(one)
    assert {bench.state(one) for one in several} == {State.CONFIRMED}


async def test_a_probe_that_fails_lets_the_account_rest_longer_and_never_for_ever(bench: Bench, account: Account) -> None:
    await open_breaker(bench)
    since, rests = account.opened_at, [account.ahead("open_until")]
    for number in range(9):
        account.pass_time(rests[-1] + 1)
        bench.provider.will(vanish)
        await bench.carry(bench.stage(target=f"case-{number}"))
        rests.append(account.ahead("open_until"))

    for rest, wanted in zip(rests, (5, 10, 20, 40, 80, 160, 300, 300, 300, 300), strict=True):
        assert 0.85 * wanted < rest < 1.15 * wanted
    assert account.opened_at < since  # moved by the test, never set anew: it says since when
    assert account.openings == 10


async def test_a_probe_whose_worker_dies_keeps_nobody_out_for_longer_than_its_claim(bench: Bench, account: Account) -> None:
    # Given a worker that stands still after the dispatch of a probe, and never comes back
    await open_breaker(bench)
    account.pass_time(10)
    stop = Stop(Moment.DISPATCHED)
    dead = asyncio.create_task(bench.carry(bench.stage(target="probe"), engine=bench.another(moments=stop)))
    await stop.arrived.wait()
    one = bench.stage(target="case-1")
    await bench.carry(one)
    assert (bench.state(one), bench.row(one).put_off) == (State.PREPARED, "breaker_open")

    # When its claim is over
    account.pass_time(61)
    await bench.again(one)

    # Then the next one probes; and what the first has to say later counts as an answer like any other
    assert (bench.state(one), account.opened_at) == (State.CONFIRMED, None)
    stop.released.set()
    await dead


async def test_a_probe_whose_claim_ends_has_failed_and_no_other_operation_has(bench: Bench, account: Account) -> None:
    # Given a probe whose worker stands still after the dispatch, and one that was in the air when the breaker opened
    stop, early = Stop(Moment.DISPATCHED), bench.stage(target="early")
    before = asyncio.create_task(bench.carry(early, engine=bench.another(moments=stop)))
    await stop.arrived.wait()
    await open_breaker(bench)
    account.pass_time(10)
    second, probe = Stop(Moment.DISPATCHED), bench.stage(target="probe")
    dead = asyncio.create_task(bench.carry(probe, engine=bench.another(moments=second)))
    await second.arrived.wait()

    # When the claim of the early one ends, nothing is learned of the provider
    bench.pass_time(early, 61)
    bench.expire()
    assert (bench.state(early), account.openings) == (State.UNKNOWN, 1)

    # And when that of the probe ends, it rests for longer
    bench.pass_time(probe, 61)
    bench.expire()
    assert (bench.state(probe), account.openings, account.probe_fence) == (State.UNKNOWN, 2, None)
    assert account.ahead("open_until") > 5
    for one in (stop, second):
        one.released.set()
    await asyncio.gather(before, dead)


async def test_a_probe_that_was_never_sent_gives_its_turn_away(bench: Bench, account: Account) -> None:
    # Given a probe whose worker is told to stop between dispatch and send
    await open_breaker(bench)
    account.pass_time(10)
    stop = Stop(Moment.DISPATCHED)
    stopping = bench.another(moments=stop)
    carrying = asyncio.create_task(bench.carry(bench.stage(target="probe"), engine=stopping))
    await stop.arrived.wait()
    ending = asyncio.create_task(stopping.stop(5))
    await asyncio.sleep(0)
    stop.released.set()
    await asyncio.gather(carrying, ending)
    assert account.openings == 1

    one = bench.stage(target="case-1")
    await bench.carry(one)

    assert (bench.state(one), account.opened_at) == (State.CONFIRMED, None)


async def test_calls_that_were_in_the_air_when_it_opened_move_it_no_more(bench: Bench, account: Account) -> None:
    # Given calls that hang while others fail
    holds = [Hold(vanish), Hold(vanish), Hold(accept)]
    bench.provider.will(*holds)
    hanging = [bench.stage(target=f"slow-{number}") for number in range(3)]
    carrying = asyncio.create_task(bench.carry(*hanging))
    await until(lambda: all(hold.arrived.is_set() for hold in holds), "three calls hang")
    await open_breaker(bench)
    before = (account.openings, account.open_until)

    # When they come back, with failures and an answer, then it stays as open as it was: only a probe says how it is now
    for hold in holds:
        hold.released.set()
    await carrying
    assert (account.openings, account.open_until) == before

    assert sorted(bench.state(one) for one in hanging) == [State.CONFIRMED, State.UNKNOWN, State.UNKNOWN]


async def test_calls_from_before_it_closed_do_not_open_it_again(bench: Bench, account: Account) -> None:
    holds = [Hold(vanish) for _ in range(2 * FAILURES)]
    bench.provider.will(*holds)
    hanging = [bench.stage(target=f"slow-{number}") for number in range(2 * FAILURES)]
    carrying = asyncio.create_task(bench.carry(*hanging))
    await until(lambda: all(hold.arrived.is_set() for hold in holds), "all hang")
    await open_breaker(bench)
    account.pass_time(10)
    await bench.carry(bench.stage(target="probe"))
    assert account.closed_at is not None

    for hold in holds:
        hold.released.set()
    await carrying

    assert (account.failures, account.opened_at) == (0, None)


@pytest.mark.invariant(6)
async def test_what_is_in_doubt_is_looked_up_while_it_is_open_but_not_at_every_turn(bench: Bench, account: Account) -> None:
    # Given operations in doubt at a provider whose look-up works, and one whose look-up is away
    bench.promise(SEEN)
    bench.provider.will(lose_reply)
    found = bench.stage(target="found")
    await bench.carry(found)
    bench.provider.will(*[vanish] * (FAILURES - 1))
    lost = [bench.stage(target=f"lost-{number}") for number in range(FAILURES - 1)]
    for one in lost:
        await bench.carry(one)
    assert account.opened_at is not None

    await bench.again(found)
    assert bench.state(found) is State.CONFIRMED

    async def away(_: Operation[Any]) -> Unavailable:
        return Unavailable("503")

    bench.provider.on_look_up = away
    waits = []
    for _ in range(4):
        bench.pass_time(lost[0], 60)
        await bench.again(lost[0])
        row = bench.row(lost[0])
        waits.append((row.due_at - row.updated_at).total_seconds())
    assert (bench.state(lost[0]), bench.row(lost[0]).held) == (State.UNKNOWN, None)
    assert waits == sorted(waits)
    assert waits[-1] > waits[0]


async def test_a_repeat_waits_for_the_breaker_and_nothing_ends(bench: Bench, account: Account) -> None:
    bench.promise(KEYED)
    failed = await open_breaker(bench)
    bench.pass_time(failed[0], 30)

    for _ in range(25):
        await bench.again(failed[0])

    row = bench.row(failed[0])
    assert (row.status, row.held, row.attempts, row.put_off) == ("unknown", None, 1, "breaker_open")
    assert (row.due_at - row.updated_at).total_seconds() >= 29

    # And when it is closed, it is repeated with its key
    account.pass_time(10)
    await bench.again(failed[0])
    assert (bench.state(failed[0]), bench.provider.called(failed[0])) == (State.CONFIRMED, 2)


async def test_a_person_reads_what_it_waits_for(bench: Bench) -> None:
    await open_breaker(bench)
    one = bench.stage(target="case-1")
    await bench.carry(one)

    with bench.sync.connect() as connection:
        record = get(connection, f"op_{one.hex}", bench.tenant)

    assert record.put_off == "breaker_open"
    assert "does not answer" in record.what_next
    assert record.why == "Nothing was sent yet."


# --- prepare calls the provider too


async def away(_operation: Operation[Any]) -> None:
    raise Ended(NotSent("connection refused"))


async def throttled(_operation: Operation[Any]) -> None:
    raise Ended(NotSent("429: slow down", concerns=Concerns.ACCOUNT))


async def broken(_operation: Operation[Any]) -> None:
    raise RuntimeError("a bug in prepare")


async def test_nothing_is_prepared_while_it_is_open_or_the_account_is_paused(bench: Bench, account: Account) -> None:
    await open_breaker(bench)
    prepared = list(bench.provider.prepared)
    one = bench.stage(target="case-1")
    for _ in range(25):
        await bench.again(one, engine=bench.another())

    row = bench.row(one)
    assert bench.provider.prepared == prepared
    assert (row.status, row.put_off, row.handovers, row.held) == ("prepared", "breaker_open", 0, None)
    assert row.due_at >= account.open_until

    bench.do("select acuse.resume_account('scripted', :a)", a=bench.tenant)
    bench.do("select acuse.pause_account('scripted', :a, null, 'eve', 'their wish')", a=bench.tenant)
    await bench.again(one)
    assert (bench.provider.prepared, bench.row(one).put_off) == (prepared, "account_paused")


async def test_one_that_waited_for_room_since_it_was_claimed_asks_once_more(
    bench: Bench, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acuse_adapters.engine.carrier.LOOK_AGAIN_SECONDS", 0.0)
    stop, one = Stop(Moment.CLAIMED), bench.stage(target="case-1")
    carrying = asyncio.create_task(bench.carry(one, engine=bench.another(moments=stop)))
    await stop.arrived.wait()
    await open_breaker(bench)
    stop.released.set()
    await carrying

    assert f"op_{one.hex}" not in bench.provider.prepared
    assert (bench.row(one).put_off, bench.row(one).attempts) == ("breaker_open", 0)


async def test_prepares_that_find_the_provider_away_open_it(bench: Bench, account: Account) -> None:
    bench.provider.on_prepare = away
    for number in range(FAILURES):
        assert account.opened_at is None
        await bench.carry(bench.stage(target=f"case-{number}"))
    assert account.opened_at is not None

    # And while it is open they fail as probes: the next rest is longer, and no other comes to prepare
    rest = account.ahead("open_until")
    account.pass_time(60)
    one, two = bench.stage(target="case-8"), bench.stage(target="case-9")
    await bench.carry(one)
    assert (account.openings, account.probe_fence) == (2, None)
    assert account.ahead("open_until") > rest
    await bench.carry(two)
    assert bench.provider.prepared[-1] == f"op_{one.hex}"

    # Until one succeeds
    account.pass_time(60)
    bench.provider.on_prepare = no_step
    await bench.again(two)
    assert (bench.state(two), account.opened_at) == (State.CONFIRMED, None)


@pytest.mark.parametrize("trouble", [throttled, broken])
async def test_a_prepare_that_says_nothing_of_the_provider_is_not_counted(
    bench: Bench, account: Account, trouble: Callable[[Operation[Any]], Awaitable[None]]
) -> None:
    bench.provider.on_prepare = trouble
    for number in range(2 * FAILURES):
        await bench.carry(bench.stage(target=f"case-{number}"))
    assert (account.failures or 0, account.opened_at) == (0, None)


async def test_a_prepare_that_began_before_it_closed_opens_nothing(bench: Bench, account: Account) -> None:
    # Given prepares that hang since before the breaker closed, and fail after
    arrived, released = asyncio.Event(), asyncio.Event()

    async def hang(operation: Operation[Any]) -> None:
        arrived.set()
        await released.wait()
        await away(operation)

    bench.provider.on_prepare = hang
    engine = bench.another()
    hanging = asyncio.create_task(bench.carry(*(bench.stage(target=f"slow-{n}") for n in range(FAILURES)), engine=engine))
    await arrived.wait()
    bench.provider.on_prepare = no_step
    await open_breaker(bench)
    account.pass_time(60)
    await bench.carry(bench.stage(target="case-1"))
    assert account.opened_at is None
    released.set()
    await hanging
    assert (account.failures, account.opened_at) == (0, None)


async def test_an_hour_s_outage_leaves_a_handful_in_doubt_and_loses_nothing(bench: Bench, account: Account) -> None:
    # Given 500 operations, four workers that take four at a time, and a provider that is away
    workers, at_once, staged = 4, 4, 500
    engines = [bench.another(concurrency=at_once) for _ in range(workers)]
    several = [bench.stage(target=f"case-{number}") for number in range(staged)]
    bench.provider.will(*[vanish] * 10_000)
    bench.drop_messages()

    # When an hour passes, in which a hundred of what is due are taken between two probes
    passed = 0.0
    waiting = several
    while passed < 3600:
        await asyncio.gather(
            *(bench.carry(*waiting[n::workers], engine=engines[n]) for n in range(workers) if waiting[n::workers])
        )
        step = max(account.ahead("open_until"), 1) * 1.3 + 2
        passed += step
        account.pass_time(step)
        bench.do(
            "update acuse.operation set due_at = due_at - :by, version = version + 1 where tenant = :tenant",
            by=timedelta(seconds=step),
            tenant=bench.tenant,
        )
        waiting = due(bench)[:100]

    # Then only those are in doubt that were in the air when it opened, and one for each probe
    probes = account.openings - 1
    in_doubt = sum(bench.state(one) is State.UNKNOWN for one in several)
    assert len(bench.provider.calls) == in_doubt
    assert in_doubt <= FAILURES - 1 + workers * at_once + probes
    assert probes < 20
    untouched = bench.ask(
        """select count(*) from acuse.operation where tenant = :tenant and status = 'prepared' and attempts = 0 and held is null
              and handovers = 0 and due_at is not null""",
        tenant=bench.tenant,
    )
    assert untouched == staged - in_doubt

    # And when the provider is back, one probe opens the way for the rest
    bench.provider.script.clear()
    account.pass_time(400)
    bench.do(
        "update acuse.operation set due_at = clock_timestamp(), version = version + 1 where tenant = :t and status = 'prepared'",
        t=bench.tenant,
    )
    waiting = due(bench)
    await bench.carry(waiting[0])
    while waiting := due(bench):  # on a slow machine the last of them wait until their claim is too short, and are due again
        await bench.carry(*waiting)
    confirmed = sum(bench.state(one) is State.CONFIRMED for one in several)
    assert confirmed == staged - in_doubt


def due(bench: Bench) -> list[UUID]:
    """What the recover loop would hand over now, in any order."""
    statement = """select id from acuse.operation where tenant = :tenant and due_at <= clock_timestamp()
                      and status = 'prepared' and claim_until is null order by random()"""
    with bench.sync.connect() as connection:
        return list(connection.execute(text(statement), {"tenant": bench.tenant}).scalars())
