"""A message comes again and again while its operation is on its way: the row decides, the provider is called once."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from bench import Bench, until
from failing_settles import KILLED, failed, failing_settles
from scripted_provider import BARE, SEEN, UNHURRIED, Behaviour, Hold, Provider, accept

from acuse.protocol import Concerns, NotSent, Outcome, RetryContract, State
from acuse_adapters.port import Operation


@pytest.mark.case("R001")
@pytest.mark.invariant(10)
@pytest.mark.parametrize("contract", [SEEN, BARE], ids=["with a look-up", "without one"])
async def test_a_message_that_is_redelivered_behind_a_slow_call_calls_nobody(bench: Bench, contract: RetryContract) -> None:
    # Given a provider that takes the request and does not answer before the deadline
    bench.promise(contract)
    slow = Hold()
    bench.provider.will(slow)
    one = bench.stage()
    carrying = asyncio.create_task(bench.carry(one))
    await slow.arrived.wait()

    # When the broker hands the message to another worker while the call runs, and after it
    other = bench.another()
    for _ in range(3):
        await bench.carry(one, engine=other)
    assert bench.count("duplicates_prevented", other, kind="delivery") == 3
    await carrying
    assert (bench.state(one), bench.row(one).doubts) == (State.UNKNOWN, 1)
    bench.do("update acuse.operation set due_at = due_at + interval '1 hour', version = version + 1 where id = :id", one)
    for _ in range(2):
        await bench.carry(one, engine=other)

    # Then each of them ended without a call, and only evidence settles it
    assert bench.count("duplicates_prevented", other, kind="delivery") == 5
    await bench.again(one, engine=other)
    row = bench.row(one)
    if contract is SEEN:
        assert (row.status, row.result_id) == ("confirmed", f"N-{one.hex[-6:]}")
    else:
        assert row.status == "unknown"
        assert "neither a key nor a look-up" in row.held
    assert (bench.provider.called(one), bench.provider.made(one), row.attempts) == (1, 1, 1)


async def throttled(_provider: Provider, _operation: Operation[Any]) -> Outcome:
    return NotSent("429: slow down", timedelta(hours=1), concerns=Concerns.OPERATION)


@pytest.mark.case("R004")
@pytest.mark.invariant(3)
async def test_a_worker_that_drains_slower_than_its_lease_loses_each_claim_for_itself(bench: Bench) -> None:
    # Given fifty operations in the hands of a worker that carries out one at a time, and is told now and then to be patient
    bench.promise(UNHURRIED)
    staged = [bench.stage(target=f"case-{number}") for number in range(50)]
    script: list[Behaviour] = [throttled if number % 5 == 3 else accept for number in range(20)]
    bench.provider.will(*script)
    slow, other = bench.another(concurrency=1), bench.another()
    taken: dict[UUID, Any] = {}

    async def its_lease_ends(_: Operation[Any]) -> None:
        if len(bench.provider.calls) != 20 or taken:
            return
        # When the lease of what still waits ends in the middle of the twentieth call, and another worker comes
        waiting = [one for one in staged if bench.row(one).claim_until is not None and bench.state(one) is State.PREPARED]
        taken.update(dict.fromkeys(waiting))
        for one in waiting:
            bench.pass_time(one, 120)
        bench.expire()
        await bench.carry(*staged, engine=other)
        taken.update({one: bench.row(one) for one in waiting})

    bench.provider.on_call = its_lease_ends

    await bench.carry(*staged, engine=slow)

    # Then that one has taken what the first one had lost and nothing that it held
    assert len(taken) == 30
    assert {row.status for row in taken.values()} == {"confirmed"}
    assert bench.count("duplicates_prevented", other, kind="delivery") == 20
    # And what the first one did with its lost claims afterwards has changed no row, and is counted
    assert {one: bench.row(one) for one in taken} == taken
    assert bench.count("duplicates_prevented", slow, kind="fenced") == 30
    # And in the end each operation has one object, by one call besides those that were told to be patient
    patient = [one for one in staged if bench.state(one) is State.PREPARED]
    assert len(patient) == 4
    for one in patient:
        await bench.again(one)
    assert {bench.state(one) for one in staged} == {State.CONFIRMED}
    assert calls(bench, staged) == [2 if one in patient else 1 for one in staged]
    assert {bench.provider.made(one) for one in staged} == {1}


def calls(bench: Bench, operations: Sequence[UUID]) -> list[int]:
    return [bench.provider.called(one) for one in operations]


@pytest.mark.case("R010")
@pytest.mark.invariant(11)
@pytest.mark.parametrize("claim_ends", [False, True], ids=["within the lease", "past it"])
async def test_while_the_outcome_cannot_be_written_the_write_alone_is_repeated(bench: Bench, claim_ends: bool) -> None:
    # Given a provider that has accepted, and a database that ends the connection at each write of the outcome
    bench.promise(UNHURRIED)
    one, later = bench.stage(), bench.stage(target="case-2")
    other = bench.another()
    with failing_settles(bench, [KILLED] * 1000):
        carrying = asyncio.create_task(bench.carry(one))
        await until(lambda: failed(bench) >= 2, "two failed writes")

        # When an operator pauses the account meanwhile, and the messages come again
        bench.do("select acuse.pause_account('scripted', :account, null, 'eve', 'enough')", account=bench.tenant)
        await bench.carry(one, later, engine=other)

        # Then nothing new leaves, and of the one nobody takes more than a look
        assert (bench.state(later), bench.row(later).put_off) == (State.PREPARED, "account_paused")
        assert (bench.state(one), bench.count("duplicates_prevented", other, kind="delivery")) == (State.DISPATCHING, 1)
        if claim_ends:
            bench.pass_time(one, 120)
            bench.expire()
            while bench.state(one) is State.UNKNOWN:  # a claim goes past a row that the next failing write has locked
                await bench.carry(one, engine=other)
            assert (bench.state(one), bench.provider.reads) == (State.CONFIRMED, [f"op_{one.hex}"])

    # And as soon as it can be written, it is
    await carrying
    row = bench.row(one)
    assert (row.status, row.attempts, bench.provider.called(one), bench.provider.made(one)) == ("confirmed", 1, 1, 1)
    [attempt] = bench.rows("attempt", one)
    assert (attempt.outcome, attempt.late) == ("accepted", claim_ends)
    assert bench.provider.called(later) == 0
