"""Whose turn it is: ordering keys, dependencies, who is woken when one is settled, and what the host is told."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from bench import Bench
from scripted_provider import KEYED, Hold, Note, hang_up, lose_reply, refuse, vanish
from stage_factory import stage

from acuse.protocol import State
from acuse.store import recover
from acuse_adapters.port import Operation


def chained(bench: Bench, **item: Any) -> UUID:
    return bench.stage(target=f"case-{uuid4().hex[:6]}", ordering_key="case-1", **item)


@pytest.mark.invariant(9)
async def test_of_one_ordering_key_one_is_in_the_air_and_other_keys_flow(bench: Bench) -> None:
    # Given two of one key, and the first in the air
    held = Hold()
    bench.provider.will(held)
    first, second, other = chained(bench), chained(bench), bench.stage(ordering_key="case-2")
    carrying = asyncio.create_task(bench.carry(first))
    await held.arrived.wait()
    bench.drop_messages()

    # When messages for the second and for another key arrive
    await bench.carry(second, other)

    # Then the second waits, and the other does not
    row = bench.row(second)
    assert (row.status, row.waiting, bench.provider.called(second)) == ("prepared", "ordering", 0)
    assert bench.state(other) is State.CONFIRMED
    assert bench.count("dispatch_gated", gate="ordering_waiting") == 1

    # And when the first is settled, the second is woken
    held.released.set()
    await carrying
    assert bench.messages(second) == 1
    await bench.carry(second)
    assert bench.state(second) is State.CONFIRMED


@pytest.mark.invariant(9)
async def test_order_is_the_sequence_drawn_at_stage(bench: Bench) -> None:
    first, second = chained(bench), chained(bench)

    await bench.carry(second)

    assert (bench.row(second).waiting, bench.provider.calls) == ("ordering", [])
    await bench.carry(first)
    await bench.carry(second)
    assert [call.key for call in bench.provider.calls] == [f"op_{first.hex}", f"op_{second.hex}"]


@pytest.mark.invariant(9)
async def test_all_of_a_chain_in_one_message_go_one_at_a_time(bench: Bench) -> None:
    in_the_air = 0
    most = 0

    async def count(_: Operation[Any]) -> None:
        nonlocal in_the_air, most
        in_the_air += 1
        most = max(most, in_the_air)
        await asyncio.sleep(0)
        in_the_air -= 1

    bench.provider.on_call = count
    chain = [chained(bench) for _ in range(6)]

    for _ in range(6):
        await bench.carry(*chain)

    assert {bench.state(one) for one in chain} == {State.CONFIRMED}
    assert [call.key for call in bench.provider.calls] == [f"op_{one.hex}" for one in chain]
    assert most == 1


@pytest.mark.invariant(9)
async def test_two_that_judge_the_same_moment_are_parted_by_the_index(bench: Bench) -> None:
    # Given a lower number that is not committed yet, and the two of a chain dispatched by two workers at the same moment
    payload = Note(ref="case-0").effect().payload
    with bench.sync.connect() as late:
        lower = stage(
            late, bench.tenant, "scripted.note.v1", target="case-0", payload=payload, account=bench.tenant, ordering_key="case-1"
        )
        higher = chained(bench)
        held = Hold()
        bench.provider.will(held)
        carrying = asyncio.create_task(bench.carry(higher))
        await held.arrived.wait()
        late.commit()

    # Then the lower one waits for the higher one, that was first
    await bench.carry(lower)
    assert (bench.row(lower).waiting, bench.provider.called(lower)) == ("ordering", 0)
    held.released.set()
    await carrying
    assert bench.state(higher) is State.CONFIRMED


@pytest.mark.invariant(9)
async def test_a_head_in_doubt_goes_again_although_a_lower_number_committed_late_behind_it(bench: Bench) -> None:
    bench.promise(KEYED)
    payload = Note(ref="case-0").effect().payload
    with bench.sync.connect() as late:
        lower = stage(
            late, bench.tenant, "scripted.note.v1", target="case-0", payload=payload, account=bench.tenant, ordering_key="case-1"
        )
        head = chained(bench)
        bench.provider.will(lose_reply)
        await bench.carry(head)
        late.commit()
    await bench.carry(lower)
    bench.pass_time(head, 10)

    await bench.again(head)

    assert (bench.state(head), bench.provider.called(head)) == (State.CONFIRMED, 2)
    await bench.carry(lower)
    assert bench.state(lower) is State.CONFIRMED


@pytest.mark.invariant(9)
async def test_a_doubt_at_the_head_stops_its_chain_until_it_is_settled(bench: Bench) -> None:
    head, behind = chained(bench), chained(bench)
    bench.provider.will(vanish)
    await bench.carry(head, behind)
    await bench.again(head)  # nobody can look it up: it waits for a person

    await bench.carry(behind)
    assert (bench.row(behind).waiting, bench.provider.called(behind)) == ("ordering", 0)

    bench.drop_messages()
    bench.act(head, "reject")
    assert bench.messages(behind) == 1
    await bench.carry(behind)
    assert bench.state(behind) is State.CONFIRMED


async def test_a_wake_up_that_met_a_final_operation_wakes_the_one_after_it(bench: Bench) -> None:
    # Given a chain whose head is settled: the second is woken, and cancelled before its message arrives
    head, second, third = chained(bench), chained(bench), chained(bench)
    await bench.carry(head, third)
    bench.do("select acuse.cancel(:tenant, :id, 'alice', 'no more')", second, tenant=bench.tenant)
    bench.drop_messages()

    # When that message arrives, then the third is woken
    await bench.carry(second)

    assert bench.messages(third) == 1
    await bench.carry(third)
    assert bench.state(third) is State.CONFIRMED


async def test_a_wake_up_that_was_lost_is_found_by_the_recover_loop(bench: Bench) -> None:
    held = Hold()
    bench.provider.will(held)
    first, second = chained(bench), chained(bench)
    carrying = asyncio.create_task(bench.carry(first))
    await held.arrived.wait()
    await bench.carry(second)
    assert bench.row(second).waiting == "ordering"
    held.released.set()
    await carrying
    bench.drop_messages()

    with bench.sync.begin() as connection:
        recover.hand_over_free(connection, 1000, timedelta(0))

    assert bench.messages(second) == 1
    await bench.carry(second)
    assert bench.state(second) is State.CONFIRMED


async def test_a_wake_up_that_meets_a_claim_is_not_needed(bench: Bench) -> None:
    # Given a second of a chain that is being prepared while the first is settled
    held, preparing, go_on = Hold(), asyncio.Event(), asyncio.Event()
    bench.provider.will(held)
    first, second = chained(bench), chained(bench)
    carrying = asyncio.create_task(bench.carry(first))
    await held.arrived.wait()

    async def pause(_: Operation[Any]) -> None:
        preparing.set()
        await go_on.wait()

    bench.provider.on_prepare = pause
    other = asyncio.create_task(bench.carry(second, engine=bench.another()))
    await preparing.wait()
    held.released.set()
    await carrying

    # When the wake-up arrives and meets the claim, then it changes nothing, and the second goes at once
    await bench.carry(second)
    assert bench.row(second).fence == 1
    go_on.set()
    await other
    assert bench.state(second) is State.CONFIRMED


@pytest.mark.invariant(9)
async def test_a_dependant_waits_for_a_confirmed_operation_and_is_woken_by_it(bench: Bench) -> None:
    held = Hold()
    bench.provider.will(held)
    needed = bench.stage()
    dependant = bench.stage(target="case-2", after=[{"id": str(needed)}])
    carrying = asyncio.create_task(bench.carry(needed))
    await held.arrived.wait()
    await bench.carry(dependant)
    row = bench.row(dependant)
    assert (row.status, row.waiting, bench.provider.called(dependant)) == ("prepared", "dependency", 0)
    bench.drop_messages()

    held.released.set()
    await carrying

    assert bench.messages(dependant) == 1
    await bench.carry(dependant)
    assert bench.state(dependant) is State.CONFIRMED


@pytest.mark.invariant(9)
async def test_a_rejected_dependency_rejects_its_dependants(bench: Bench) -> None:
    needed = bench.stage()
    dependant = bench.stage(target="case-2", after=[{"id": str(needed)}])
    further = bench.stage(target="case-3", after=[{"id": str(dependant)}])
    bench.provider.will(refuse)

    await bench.carry(needed)
    await bench.carry(dependant)
    await bench.carry(further)

    assert [bench.row(one).outcome_code for one in (dependant, further)] == ["dependency_rejected"] * 2
    assert len(bench.provider.calls) == 1


@pytest.mark.invariant(9)
async def test_a_dependency_in_doubt_frees_nobody(bench: Bench) -> None:
    needed = bench.stage()
    dependant = bench.stage(target="case-2", after=[{"id": str(needed)}])
    bench.provider.will(lose_reply)
    await bench.carry(needed)

    await bench.carry(dependant)

    assert (bench.row(dependant).waiting, bench.provider.called(dependant)) == ("dependency", 0)


@pytest.mark.invariant(9)
@pytest.mark.parametrize("whose", ["nobody's", "another tenant's"])
async def test_a_dependency_that_does_not_exist_in_this_tenant_never_frees_anybody(bench: Bench, whose: str) -> None:
    one = bench.stage()
    needs = uuid4()
    if whose == "another tenant's":
        with bench.sync.begin() as connection:
            needs = stage(connection, f"other-{bench.tenant}")
    bench.do("insert into acuse.dependency (operation_id, needs) values (:id, :needs)", one, needs=needs)

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, row.held, bench.provider.calls) == ("prepared", "what it depends on does not exist in this tenant", [])


@pytest.mark.parametrize(
    ("behaviour", "state", "code"),
    [(None, "confirmed", "accepted"), (refuse, "rejected", "closed_case"), (vanish, "unknown", "ambiguous")],
)
async def test_the_hosts_own_actor_is_told_by_the_settle_itself(bench: Bench, behaviour: Any, state: str, code: str) -> None:
    one = bench.stage(on_settled="onboarding/remember", call="call-7")
    if behaviour is not None:
        bench.provider.will(behaviour)

    await bench.carry(one)

    [message] = bench.told(one)
    row = bench.row(one)
    assert (message["actor"], message["args"], message["options"]) == ("remember", [], {})
    assert message["kwargs"] == {
        "operation_id": f"op_{one.hex}",
        "state": state,
        "outcome_code": code,
        "tenant": bench.tenant,
        "workflow": None,
        "call": "call-7",
        "action": "scripted.note.v1",
        "target": "case-1",
        "result_id": row.result_id,
        "result_version": row.result_version,
        "version": row.version,
    }
    queue = "select queue from acuse.outbox_message where message->'kwargs'->>'operation_id' = :id"
    assert bench.ask(queue, id=f"op_{one.hex}") == "onboarding"


async def test_a_host_is_told_of_a_doubt_once_and_of_its_end(bench: Bench) -> None:
    bench.promise(KEYED)
    one = bench.stage(on_settled="onboarding/remember")
    bench.provider.will(vanish, hang_up, vanish)

    for _ in range(4):
        await bench.again(one)
        bench.pass_time(one, 10)

    assert [message["kwargs"]["state"] for message in bench.told(one)] == ["unknown", "confirmed"]
