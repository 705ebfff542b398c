"""An account at its limit is shared: a tenant with thousands of operations there pushes no other away."""

import asyncio
from uuid import UUID

from account_row import Account
from bench import Bench, until
from scripted_provider import Hold, Note
from stage_factory import stage

from acuse.protocol import State


def stage_for(bench: Bench, tenant: str, target: str) -> UUID:
    """A note of another tenant that goes to the same account."""
    with bench.sync.begin() as connection:
        payload = Note(ref=target).effect().payload
        return stage(connection, tenant, Note.declared.name, target=target, payload=payload, account=bench.tenant)


def come_back(bench: Bench, *operations: UUID) -> None:
    """The time has come that they were told, and the recover loop hands them over."""
    for one in operations:
        bench.do(
            """update acuse.operation set due_at = null, handed_at = clock_timestamp(), version = version + 1,
               updated_at = clock_timestamp() where id = :id""",
            one,
        )


async def busy(bench: Bench, account: Account) -> tuple[list[UUID], UUID]:
    """Three operations of one tenant and one of another that found no room at the same account, in this order."""
    account.limit(concurrent=1)
    hold = Hold()
    bench.provider.will(hold)
    carrying = asyncio.create_task(bench.carry(bench.stage(target="case-0")))
    await until(hold.arrived.is_set, "the only place is taken")
    many = [bench.stage(target=f"case-{number}") for number in (1, 2, 3)]
    single = stage_for(bench, f"{bench.tenant}-small", "case-9")
    await bench.carry(*many)
    await bench.carry(single)
    assert {bench.row(one).put_off for one in (*many, single)} == {"account_busy"}
    hold.released.set()
    await carrying
    return many, single


async def test_who_was_let_through_longest_ago_is_next_whoever_comes_first(bench: Bench, account: Account) -> None:
    many, single = await busy(bench, account)
    come_back(bench, *many, single)

    # Given that one of the many is let through while the single one is on its way
    await bench.carry(many[0])
    assert bench.state(many[0]) is State.CONFIRMED
    # Then no other of them is, although there is room, before that one came
    await bench.carry(many[1])
    await bench.carry(many[2])
    assert [bench.row(one).put_off for one in many[1:]] == ["account_busy"] * 2
    await bench.carry(single)
    assert bench.state(single) is State.CONFIRMED
    # And then they go on
    for one in many[1:]:
        await bench.again(one)
    assert {bench.state(one) for one in many} == {State.CONFIRMED}


async def test_its_place_is_kept_while_a_worker_prepares_it(bench: Bench, account: Account) -> None:
    many, single = await busy(bench, account)
    come_back(bench, *many, single)
    await bench.carry(many[0])

    async def another_comes(operation: object) -> None:
        bench.provider.on_prepare = nothing
        await bench.carry(many[1], engine=bench.another())

    async def nothing(_: object) -> None:
        return None

    bench.provider.on_prepare = another_comes
    await bench.carry(single)
    assert (bench.state(single), bench.state(many[1])) == (State.CONFIRMED, State.PREPARED)


async def test_a_place_is_not_kept_for_one_that_does_not_come(bench: Bench, account: Account) -> None:
    many, single = await busy(bench, account)
    come_back(bench, *many, single)
    await bench.carry(many[0])
    bench.do("update acuse.operation set updated_at = updated_at - interval '31 s', version = version + 1 where id = :id", single)
    await bench.carry(many[1])
    assert bench.state(many[1]) is State.CONFIRMED


async def test_the_first_place_of_a_tenant_is_near_however_long_another_queues(bench: Bench, account: Account) -> None:
    # Given a call in the air at an account that takes one at a time, and a tenant whose queue there is a minute long
    account.limit(concurrent=1)
    hold = Hold()
    bench.provider.will(hold)
    carrying = asyncio.create_task(bench.carry(bench.stage(target="case-0")))
    await until(hold.arrived.is_set, "the only place is taken")
    await bench.carry(bench.stage(target="case-1"))
    bench.do(
        "update acuse.account_share set queued_until = clock_timestamp() + interval '1 min' where account = :account",
        account=bench.tenant,
    )

    # When another tenant comes, twice
    singles = [stage_for(bench, f"{bench.tenant}-small", f"case-{number}") for number in (8, 9)]
    for one in singles:
        await bench.carry(one)

    # Then it is told to come at once, and once more a little later
    waits = [(row.due_at - row.updated_at).total_seconds() for row in map(bench.row, singles)]
    assert [bench.row(one).put_off for one in singles] == ["account_busy"] * 2
    assert 0 < waits[0] < 1
    assert 0 < waits[1] < 2
    hold.released.set()
    await carrying
