"""An operation staged before somebody decided: it waits, costs nobody anything, and ends as the approval does."""

from datetime import timedelta
from uuid import UUID

import pytest
from approving import Asking
from bench import Bench
from racing import Racer
from scripted_provider import Note
from sqlalchemy import Connection
from stage_factory import claim, dispatch

from acuse import ApprovalError, ApprovalState, Ledger, State
from acuse.identifier import uuid_of

HOUR = timedelta(hours=1)


@pytest.fixture
def host(bench: Bench) -> Asking:
    return Asking(bench)


@pytest.mark.invariant(8)
async def test_what_waits_for_a_decision_uses_no_attempt_and_no_message_and_is_woken_by_the_grant(
    bench: Bench, host: Asking
) -> None:
    # Given an operation staged under a request that nobody has answered
    asked = host.ask(lasts=HOUR)
    assert (asked.created, asked.state) == (True, ApprovalState.PENDING)
    one = host.staged(asked.approval_id)
    row = bench.row(one)
    assert (row.status, row.waiting, row.handed_at, bench.messages(one)) == ("prepared", "approval", None, 0)
    assert row.due_at == host.get(asked.approval_id).expires_at
    # When the recover loop comes by, and a message that somebody forged, then it still waits, and nothing was sent or counted
    for _ in range(25):
        host.recover()
        assert bench.messages(one) == 0
        await bench.carry(one)
    row = bench.row(one)
    assert (row.status, row.waiting, row.attempts, row.handovers, row.held) == ("prepared", "approval", 0, 0, None)
    assert row.due_at == host.get(asked.approval_id).expires_at
    assert "It is sent when a person grants" in Ledger(bench.sync).get(f"op_{one.hex}").what_next
    # When it is granted, then the grant's own transaction wakes it, and it is sent once
    assert host.decide(asked.approval_id, True).won
    assert bench.messages(one) == 1
    await host.relay()
    assert (bench.state(one), bench.provider.called(one)) == (State.CONFIRMED, 1)
    assert host.get(asked.approval_id).used == 1


@pytest.mark.invariant(8)
@pytest.mark.parametrize("end", ["denied", "revoked", "superseded"])
async def test_what_waits_is_rejected_with_the_reason_as_soon_as_there_is_one(bench: Bench, host: Asking, end: str) -> None:
    asked = host.ask(lasts=HOUR)
    one = host.staged(asked.approval_id)
    match end:
        case "denied":
            host.decide(asked.approval_id, False)
        case "revoked":
            host.revoke(asked.approval_id)
        case _:
            assert host.ask("other words").superseded == asked.approval_id

    await host.relay()

    row = bench.row(one)
    assert (row.status, row.outcome_code, row.reason) == ("rejected", "approval_gone", f"approval_{end}")
    assert (row.attempts, bench.provider.calls) == (0, [])


@pytest.mark.case("R091")
@pytest.mark.invariant(8)
async def test_an_approval_that_nobody_answers_expires_by_itself_and_is_no_persons_no(bench: Bench, host: Asking) -> None:
    # Given a request for 5 minutes, and an operation that waits for it
    asked = host.ask(lasts=timedelta(minutes=5), callback="host/decided")
    one = host.staged(asked.approval_id, on_settled="host/settled")
    # When the time is up, then it is expired at once, before anything has run
    host.time_is_up(asked.approval_id)
    found = host.get(asked.approval_id)
    assert (found.state, found.decided_by, found.decided_at) == (ApprovalState.EXPIRED, None, None)
    # And the late click is told so, and changes nothing
    for answer in (True, False):
        with pytest.raises(ApprovalError, match=r"expired at .* before this decision; nothing is sent under it") as late:
            host.decide(asked.approval_id, answer)
        assert late.value.state == "expired"
    # And the loop that runs anyway brings the operation to its end, with no call; the host is told both
    host.recover()
    await host.relay()
    record = Ledger(bench.sync).get(f"op_{one.hex}")
    assert (record.state, record.outcome_code, record.reason) == (State.REJECTED, "approval_gone", "approval_expired")
    assert record.why == "Its approval was gone before it was sent: the approval had expired."
    assert (record.attempts, bench.provider.calls) == (0, [])
    assert [message["id"].rpartition("-")[2] for message in host.told(asked.approval_id)] == ["pending", "expired"]
    [settled] = bench.told(one)
    assert (settled["kwargs"]["state"], settled["kwargs"]["outcome_code"]) == ("rejected", "approval_gone")
    # And an agent that resumes later and asks again hears what became of it
    assert host.ask().state is ApprovalState.EXPIRED


async def test_a_grant_that_comes_in_time_takes_the_word_of_the_expiry_back(bench: Bench, host: Asking) -> None:
    asked = host.ask(lasts=HOUR, callback="host/decided")
    one = host.staged(asked.approval_id)
    host.decide(asked.approval_id, True, expires_in=timedelta(minutes=1))

    # Then the grant lasts as long as the decider said, and nobody will be told that it expired undecided
    found = host.get(asked.approval_id)
    assert found.decided_at is not None
    assert found.expires_at == found.decided_at + timedelta(minutes=1)
    assert [message["kwargs"]["state"] for message in host.told(asked.approval_id)] == ["pending", "granted"]
    left = "select count(*) from acuse.outbox_message where message->'kwargs'->>'approval_id' = :id"
    assert bench.ask(left, id=asked.approval_id) == 2
    # And a grant that expires before it is used sends nothing either
    host.time_is_up(asked.approval_id)
    await host.relay()
    assert (bench.state(one), bench.row(one).reason) == (State.REJECTED, "approval_expired")
    with pytest.raises(ApprovalError, match="ann granted it, and it expired at"):
        host.decide(asked.approval_id, False)


@pytest.mark.invariant(8)
@pytest.mark.parametrize("act", ["approve", "deny", "revoke", "supersede"])
async def test_once_the_host_was_told_of_the_expiry_it_has_expired_for_everybody(bench: Bench, host: Asking, act: str) -> None:
    # Given a click at the very moment at which the relay takes the word of the expiry
    asked = host.ask(lasts=HOUR, callback="host/decided")
    bench.do("delete from acuse.outbox_message where message->>'id' = :told", told=f"{asked.approval_id}-expired")

    match act:
        case "revoke":
            host.revoke(asked.approval_id)
        case "supersede":
            assert host.ask("other words").superseded is None
        case _:
            with pytest.raises(ApprovalError, match="it expired at"):
                host.decide(asked.approval_id, act == "approve")

    # Then nothing else is told or done, and what waits for it is rejected when its time has come
    one = bench.stage(approval=asked.approval_id.removeprefix("apr_"), effect_key=host.get(asked.approval_id).effect_key)
    host.time_is_up(asked.approval_id)
    assert host.get(asked.approval_id).state is ApprovalState.EXPIRED
    assert [message["kwargs"]["state"] for message in host.told(asked.approval_id)] == ["pending"]
    host.recover()
    await host.relay()
    assert bench.row(one).reason == "approval_expired"


async def test_an_operation_under_a_request_without_an_end_waits_for_ever_or_for_its_own_end(bench: Bench, host: Asking) -> None:
    asked = host.ask()
    one = host.staged(asked.approval_id)
    assert (bench.row(one).waiting, bench.row(one).due_at) == ("approval", None)
    host.recover()
    assert bench.messages(one) == 0
    # When its workflow is cancelled, then nobody has to decide any more
    bench.do("select acuse.cancel_workflow(:tenant, 'w', 'bob', 'over')", tenant=bench.tenant)
    await host.relay()
    assert (bench.state(one), bench.row(one).outcome_code) == (State.REJECTED, "cancelled")


async def test_what_waits_ends_at_its_own_end_if_that_comes_first(bench: Bench, host: Asking) -> None:
    asked = host.ask(lasts=2 * HOUR)
    found = host.get(asked.approval_id)
    one = host.staged(asked.approval_id, not_after=found.read_at + HOUR)
    assert bench.row(one).due_at == found.read_at + HOUR
    # When that has passed and a worker looks, then nobody has to decide any more
    bench.do("update acuse.operation set not_after = clock_timestamp(), version = version + 1 where id = :id", one)
    await bench.carry(one)
    assert (bench.state(one), bench.row(one).outcome_code, bench.provider.calls) == (State.REJECTED, "expired", [])


async def test_what_is_staged_while_somebody_decides_is_not_forgotten(bench: Bench, host: Asking) -> None:
    # Given a decision that is not committed yet
    asked = host.ask(lasts=HOUR)
    with bench.sync.connect() as deciding:
        host.approvals.decide(deciding, asked.approval_id, True, by="ann")

        # When a host stages under the approval, then it waits for the decision, and goes the usual way
        staging = Racer(bench.sync, lambda connection: _stage(host, connection, asked.approval_id)).start_blocked()
        deciding.commit()
    one = staging.result()
    staging.commit()
    assert (bench.row(one).waiting, bench.messages(one)) == (None, 1)


async def test_who_decides_while_somebody_stages_sees_whom_to_wake(bench: Bench, host: Asking) -> None:
    asked = host.ask(lasts=HOUR)
    with bench.sync.connect() as staging:
        one = _stage(host, staging, asked.approval_id)
        deciding = Racer(bench.sync, lambda connection: host.approvals.decide(connection, asked.approval_id, True, by="ann"))
        deciding.start_blocked()
        staging.commit()
    assert deciding.result().won
    deciding.commit()
    assert (bench.row(one).waiting, bench.messages(one)) == ("approval", 1)


async def test_a_grant_that_comes_while_a_worker_looks_wakes_the_operation_all_the_same(bench: Bench, host: Asking) -> None:
    # Given a worker whose dispatch has found the approval pending, and is not committed
    asked = host.ask(lasts=HOUR)
    one = host.staged(asked.approval_id)
    with bench.sync.begin() as connection:
        fence = claim(connection, [one])[one]
    with bench.sync.connect() as worker:
        assert dispatch(worker, one, fence) == "approval_pending"
        deciding = Racer(bench.sync, lambda connection: host.approvals.decide(connection, asked.approval_id, True, by="ann"))
        deciding.start_blocked()
        worker.commit()
    deciding.result()
    deciding.commit()
    await host.relay()
    assert (bench.state(one), bench.row(one).attempts) == (State.CONFIRMED, 1)


@pytest.mark.parametrize("lasts", [HOUR, None], ids=["an hour", "for ever"])
async def test_a_wake_up_that_was_lost_is_found(bench: Bench, host: Asking, lasts: timedelta | None) -> None:
    asked = host.ask(lasts=lasts)
    one = host.staged(asked.approval_id)
    host.decide(asked.approval_id, True)
    bench.drop_messages()

    host.recover()
    await host.relay()

    assert bench.state(one) is State.CONFIRMED


def _stage(host: Asking, connection: Connection, approval: str) -> UUID:
    note = Note(ref="case-1")
    staged = host.outbox.stage(connection, note, workflow="w", call="c-1", approval=approval, account=host.bench.tenant)
    return uuid_of(staged.operation_id, prefix="op", field="id")
