"""Every gate of dispatch: what stands in the way of the first byte, and that nothing leaves then."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from bench import Bench, until
from scripted_provider import BARE, KEYED, Note, lose_reply, no_step, vanish
from sqlalchemy import text

from acuse.protocol import Basis, State, Unavailable
from acuse.store.claim import claim
from acuse_adapters.port import Operation


async def test_a_claim_that_ends_before_the_deadline_dispatches_nothing(bench: Bench) -> None:
    # Given a deadline of 2 s and a claim of 1 s
    one = bench.stage()
    hurried = bench.another(bench.book(timedelta(seconds=1)))

    await bench.carry(one, engine=hurried)

    row = bench.row(one)
    assert (row.status, row.attempts, row.claim_until, bench.provider.calls) == ("prepared", 0, None, [])
    assert row.due_at is not None
    assert bench.count("dispatch_gated", hurried, gate="claim_too_short") == 1


@pytest.mark.invariant(3)
async def test_a_worker_whose_claim_was_taken_over_dispatches_nothing(bench: Bench) -> None:
    # Given a worker that is stopped in its preparation, and another that takes the operation over meanwhile
    one = bench.stage()

    async def taken_over(_: Operation[Any]) -> None:
        bench.provider.on_prepare = no_step
        bench.pass_time(one, 120)
        with bench.sync.begin() as connection:
            assert len(claim(connection, [one], timedelta(seconds=60))) == 1

    bench.provider.on_prepare = taken_over

    await bench.carry(one)

    # Then the first one sends nothing, changes nothing, and is counted
    row = bench.row(one)
    assert (row.status, row.fence, bench.provider.calls) == ("prepared", 2, [])
    assert row.claim_until is not None
    assert bench.count("dispatch_gated", gate="fenced") == 1
    assert bench.count("duplicates_prevented", kind="fenced") == 1


async def test_an_operation_that_was_cancelled_during_prepare_is_not_sent(bench: Bench) -> None:
    one = bench.stage()

    async def cancel(_: Operation[Any]) -> None:
        bench.do("select acuse.cancel(:tenant, :id, 'alice', 'no more')", one, tenant=bench.tenant)

    bench.provider.on_prepare = cancel

    await bench.carry(one)

    assert (bench.state(one), bench.row(one).outcome_code, bench.provider.calls) == (State.REJECTED, "cancelled", [])
    assert bench.count("dispatch_gated", gate="moved") == 1


@pytest.mark.invariant(8)
@pytest.mark.parametrize("gone", ["missing", "revoked", "expired", "used_up", "mismatch"])
async def test_without_a_standing_approval_nothing_is_sent(bench: Bench, gone: str) -> None:
    approval = bench.grant(lasts=timedelta(hours=1), uses=1)
    one = bench.stage(approval=str(approval))
    bench.do(
        {
            "missing": "delete from acuse.approval where id = :id",
            "revoked": "update acuse.approval set revoked_at = clock_timestamp(), revoked_by = 'bob' where id = :id",
            "expired": "update acuse.approval set expires_at = clock_timestamp() where id = :id",
            "used_up": "update acuse.approval set used = 1 where id = :id",
            "mismatch": "update acuse.approval set digest = sha256('other') where id = :id",
        }[gone],
        approval,
    )

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, row.outcome_code, row.reason) == ("rejected", "approval_gone", f"approval_{gone}")
    assert bench.provider.calls == []
    assert bench.count("operations_settled", provider="scripted", state="rejected", by="gate") == 1


@pytest.mark.invariant(8)
async def test_an_approval_that_is_revoked_while_dispatch_waits_for_the_operation_sends_nothing(bench: Bench) -> None:
    # Given a worker whose dispatch waits for the operation's row
    approval = bench.grant(uses=1)
    one = bench.stage(approval=str(approval))
    holder = bench.sync.connect()

    async def hold_the_row(_: Operation[Any]) -> None:
        holder.execute(text("select 1 from acuse.operation where id = :id for no key update"), {"id": one})

    bench.provider.on_prepare = hold_the_row
    carrying = asyncio.create_task(bench.carry(one))
    await until(bench.waits_for_lock, "dispatch waits for the row")

    # When the approval is revoked and that is committed, and only then the row is free
    bench.do("select acuse.revoke_approval(:tenant, :id, 'bob', 'changed my mind')", approval, tenant=bench.tenant)
    holder.rollback()
    holder.close()
    await carrying

    # Then nothing leaves
    assert (bench.state(one), bench.row(one).reason, bench.provider.calls) == (State.REJECTED, "approval_revoked", [])


@pytest.mark.invariant(8)
@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("approval", "select acuse.revoke_approval(:tenant, :approval, 'bob', 'no')"),
        ("workflow", "select acuse.cancel_workflow(:tenant, 'w-1', 'bob', 'over')"),
        ("flow", "select acuse.withdraw_flow_version(:tenant, 'v-1', 'bob', 'wrong')"),
    ],
)
async def test_what_is_withdrawn_in_a_transaction_that_dispatch_waits_for_counts(
    bench: Bench, table: str, statement: str
) -> None:
    # Given a withdrawal that is not committed yet
    approval = bench.grant(uses=1)
    one = stage_in_workflow(bench, approval=str(approval))
    bench.drop_messages()
    with bench.sync.connect() as other:
        other.execute(text(statement), {"approval": approval, "tenant": bench.tenant})

        # When a worker comes, then it waits; and when the withdrawal is committed, it sends nothing
        carrying = asyncio.create_task(bench.carry(one))
        await until(bench.waits_for_lock, f"dispatch waits for the {table}")
        other.commit()
    await carrying

    assert (bench.state(one), bench.provider.calls) == (State.REJECTED, [])


def stage_in_workflow(bench: Bench, **item: Any) -> Any:
    effect = Note(ref="case-1").effect()
    request = {
        "tenant": bench.tenant,
        "workflow": "w-1",
        "flow_version": "v-1",
        "items": [
            {
                "effect_key": "k-1",
                "action": effect.action,
                "target": effect.target,
                "account": bench.tenant,
                "body": effect.body().decode(),
                **item,
            }
        ],
    }
    with bench.sync.begin() as connection:
        return connection.execute(
            text("select operation_id from acuse.stage(cast(:request as jsonb)) where outcome = 'created'"),
            {"request": json.dumps(request)},
        ).scalar_one()


@pytest.mark.invariant(8)
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("select acuse.cancel_workflow(:tenant, 'w-1', 'bob', 'over')", "workflow_cancelled"),
        ("select acuse.withdraw_flow_version(:tenant, 'v-1', 'bob', 'wrong')", "flow_withdrawn"),
    ],
)
async def test_a_cancelled_workflow_and_a_withdrawn_version_send_nothing_more(bench: Bench, statement: str, reason: str) -> None:
    one = stage_in_workflow(bench)
    bench.do(statement, tenant=bench.tenant)

    await bench.carry(one)

    row = bench.row(one)
    assert (row.status, row.outcome_code, row.reason, bench.provider.calls) == ("rejected", "cancelled", reason, [])


async def test_after_its_not_after_nothing_is_sent(bench: Bench) -> None:
    one = bench.stage(not_after="2020-01-01T00:00:00Z")

    await bench.carry(one)

    assert (bench.state(one), bench.row(one).outcome_code, bench.provider.calls) == (State.REJECTED, "expired", [])


@pytest.mark.invariant(8)
async def test_a_budget_is_used_once_per_operation_and_not_per_attempt(bench: Bench) -> None:
    # Given an approval for one use, and an operation that needs two attempts
    bench.promise(KEYED)
    approval = bench.grant(uses=1)
    one, two = bench.stage(approval=str(approval)), bench.stage(approval=str(approval))
    bench.provider.will(vanish)
    await bench.carry(one)
    bench.pass_time(one, 5)

    await bench.again(one)

    # Then the second attempt is not charged, and a second operation finds the approval used up
    assert bench.ask("select used from acuse.approval where id = :id", id=approval) == 1
    await bench.carry(two)
    assert (bench.state(one), bench.state(two)) == (State.CONFIRMED, State.REJECTED)
    assert bench.row(two).reason == "approval_used_up"
    assert bench.provider.called(two) == 0


@pytest.mark.invariant(8)
async def test_a_gate_never_settles_a_doubt(bench: Bench) -> None:
    # Given an operation in doubt whose approval is revoked
    bench.promise(KEYED)
    approval = bench.grant()
    one = bench.stage(approval=str(approval))
    bench.provider.will(lose_reply)
    await bench.carry(one)
    bench.pass_time(one, 5)
    [claimed] = await claimed_now(bench, one)
    view = await bench.book().view(one)
    assert view is not None
    bench.do("select acuse.revoke_approval(:tenant, :id, 'bob', 'no')", approval, tenant=bench.tenant)

    # When a worker that decided before wants to repeat it
    dispatched = await bench.book().dispatch(
        claimed, KEYED, key=f"op_{one.hex}", pin={}, basis=Basis.SAME_KEY, version=view.version
    )

    # Then it is not repeated, and it stays in doubt
    assert dispatched.gate == "approval_revoked"
    row = bench.row(one)
    assert (row.status, row.doubts, row.handovers, bench.provider.called(one)) == ("unknown", 1, 0, 1)
    assert row.due_at is not None


async def claimed_now(bench: Bench, operation: Any) -> Any:
    bench.do("update acuse.operation set due_at = clock_timestamp(), version = version + 1 where id = :id", operation)
    return await bench.book().claim([operation])


@pytest.mark.invariant(7)
async def test_a_window_that_closed_is_judged_by_the_database_at_the_last_moment(bench: Bench) -> None:
    # Given a decision to repeat, taken a moment before the window closes
    bench.promise(KEYED)
    one = bench.stage()
    bench.provider.will(vanish)
    await bench.carry(one)
    bench.pass_time(one, 3000)
    [claimed] = await claimed_now(bench, one)
    bench.do(
        "update acuse.operation set retry_until = clock_timestamp() - interval '1 ms', version = version + 1 where id = :id", one
    )
    version = bench.row(one).version

    dispatched = await bench.book().dispatch(claimed, KEYED, key="k", pin={}, basis=Basis.SAME_KEY, version=version)

    assert (dispatched.gate, bench.row(one).status, bench.row(one).attempts) == ("window_closed", "unknown", 1)


@pytest.mark.invariant(7)
async def test_the_window_ends_early_enough_for_the_last_request_to_be_remembered(bench: Bench) -> None:
    # Given a key that is kept for an hour, with 10 s margin, 1 s in flight and 2 s deadline
    bench.promise(KEYED)
    one = bench.stage()
    bench.provider.will(vanish)

    await bench.carry(one)

    row = bench.row(one)
    assert row.retry_until - row.first_sent_at == timedelta(seconds=3600 - 10 - 1 - 2)


@pytest.mark.invariant(3)
async def test_a_repeat_on_an_older_version_of_the_record_is_not_dispatched(bench: Bench) -> None:
    bench.promise(KEYED)
    one = bench.stage()
    bench.provider.will(vanish)
    await bench.carry(one)
    bench.pass_time(one, 5)
    [claimed] = await claimed_now(bench, one)
    view = await bench.book().view(one)
    assert view is not None
    await bench.book().record(one, "webhook", "w-1", 1, Unavailable("told something"), view.at)

    dispatched = await bench.book().dispatch(claimed, KEYED, key="k", pin={}, basis=Basis.SAME_KEY, version=view.version)

    row = bench.row(one)
    assert (dispatched.gate, row.status, row.attempts, row.claim_until) == ("stale_verdict", "unknown", 1, None)


@pytest.mark.invariant(7)
async def test_an_accepted_risk_must_be_on_record_and_is_used_up_by_one_attempt(bench: Bench) -> None:
    one = bench.stage()
    bench.provider.will(vanish, vanish)
    await bench.carry(one)
    [claimed] = await claimed_now(bench, one)
    version = bench.row(one).version

    refused = await bench.book().dispatch(claimed, BARE, key="k", pin={}, basis=Basis.ACCEPTED_RISK, version=version)
    assert refused.gate == "stale_verdict"

    # When a person accepts it, then it is sent again, once
    bench.act(one, "accept_risk")
    await bench.again(one)
    row = bench.row(one)
    assert (row.status, row.attempts, row.risk_accepted_at) == ("unknown", 2, None)
    await bench.again(one)
    assert bench.row(one).attempts == 2
    assert bench.row(one).held is not None


async def test_a_paused_account_lets_nothing_leave_and_a_resumed_one_goes_on(bench: Bench) -> None:
    one = bench.stage()
    bench.do("select acuse.pause_account('scripted', :account, null, 'bob', 'audit')", account=bench.tenant)

    for _ in range(25):  # more often than an operation may be handed over without progress
        await bench.again(one)

    row = bench.row(one)
    assert (row.status, row.held, row.handovers, bench.provider.calls) == ("prepared", None, 0, [])
    bench.do("select acuse.resume_account('scripted', :account)", account=bench.tenant)
    await bench.again(one)
    assert bench.state(one) is State.CONFIRMED


async def test_a_paused_account_never_parks_an_operation_in_doubt(bench: Bench) -> None:
    bench.promise(KEYED)
    one = bench.stage()
    bench.provider.will(vanish)
    await bench.carry(one)
    bench.pass_time(one, 5)
    bench.do("select acuse.pause_account('scripted', :account, null, 'bob', 'audit')", account=bench.tenant)

    for _ in range(25):
        await bench.again(one)

    row = bench.row(one)
    assert (row.status, row.held, bench.provider.called(one)) == ("unknown", None, 1)
