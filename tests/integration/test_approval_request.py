"""A request stands for one intent: asked again it is the same, with other content it is another, and one answer wins."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from approving import Asking
from bench import Bench
from drivers import libpq
from host import CloseCase
from scripted_provider import Note
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from acuse import ApprovalError, Approvals, ApprovalState, AsyncApprovals, EffectConflict, InvalidField, NotFound, State

NOWHERE = "apr_01a22b29f50f7366becd753e29cc3883"
CLOSE = CloseCase(case="case-1")
HOUR = timedelta(hours=1)


@pytest.fixture
def host(bench: Bench) -> Asking:
    return Asking(bench)


@pytest.fixture
def approvals(tenant: str) -> Approvals:
    return Approvals(tenant=tenant)


def test_a_request_says_what_is_wanted_by_whom_and_why(engine: Engine, approvals: Approvals, tenant: str) -> None:
    with engine.connect() as connection:
        asked = approvals.request(
            connection, CLOSE, workflow="w", call="t-1", by="agent", reason="the customer wrote", expires_in=HOUR, max_uses=2
        )
        found = approvals.get(connection, asked.approval_id)
        assert asked.approval_id.startswith("apr_")
        assert (asked.created, asked.state, asked.superseded) == (True, ApprovalState.PENDING, None)
        assert (found.tenant, found.action, found.target, found.workflow, found.call) == (
            tenant,
            CLOSE.declared.name,
            "case-1",
            "w",
            "t-1",
        )
        assert (found.requested_by, found.request_reason, found.max_uses) == ("agent", "the customer wrote", 2)
        assert found.payload == {"case": "case-1", "resolution": "onboarded", "reopening": 0}
        assert found.expires_at == found.requested_at + HOUR
        assert not found.stands
        # And it is found among what waits for an answer, until there is one
        assert [one.approval_id for one in approvals.pending(connection, workflow="w")] == [asked.approval_id]
        assert approvals.pending(connection, workflow="elsewhere") == ()
        decision = approvals.decide(connection, asked.approval_id, False, by="ann", reason="wrong case")
        assert approvals.pending(connection) == ()
        found = approvals.get(connection, asked.approval_id)
        assert (decision.won, decision.approved) == (True, False)
        assert (found.state, found.decided_by, found.reason) == (ApprovalState.DENIED, "ann", "wrong case")
        assert found.decided_at == decision.decided_at


def test_an_agent_that_resumes_asks_nobody_twice(host: Asking) -> None:
    first = host.ask()
    again = host.ask()
    assert (again.approval_id, again.created, again.state) == (first.approval_id, False, ApprovalState.PENDING)
    host.decide(first.approval_id, False)
    assert (host.ask().approval_id, host.ask().state) == (first.approval_id, ApprovalState.DENIED)
    # Until somebody wants to be asked again, on purpose
    anew = host.ask(anew=True)
    assert anew.created
    assert anew.superseded is None
    assert host.get(first.approval_id).state is ApprovalState.DENIED
    assert host.ask(anew=True).approval_id == anew.approval_id


@pytest.mark.case("R085")
@pytest.mark.invariant(8)
async def test_an_approval_is_tied_to_its_intent_and_a_swapped_answer_is_refused(bench: Bench, host: Asking) -> None:
    # Given two calls of one turn, with the very same words, of which only the first was approved
    ticket, email = host.ask(call="ticket"), host.ask(call="email")
    assert ticket.approval_id != email.approval_id
    host.decide(ticket.approval_id, True)
    # When the answers are swapped, then each is refused where it does not belong
    for call, approval in (("email", ticket.approval_id), ("ticket", email.approval_id)):
        with pytest.raises(ApprovalError, match="asked for another intent"):
            host.stage(approval, call=call)
    # And what is resumed with its own answers is carried out as that says, once, however often it is resumed
    ops = {
        call: host.staged(asked.approval_id, call=call, distinct=True) for call, asked in (("ticket", ticket), ("email", email))
    }
    for _ in range(2):
        assert host.ask(call="ticket").state is ApprovalState.GRANTED
        assert not host.stage(ticket.approval_id, call="ticket", distinct=True).created
        await host.relay()
        await bench.carry(*ops.values())
    assert (bench.state(ops["ticket"]), bench.provider.called(ops["ticket"])) == (State.CONFIRMED, 1)
    assert (bench.state(ops["email"]), bench.provider.called(ops["email"])) == (State.PREPARED, 0)
    host.decide(email.approval_id, True)
    await host.relay()
    assert (bench.state(ops["email"]), bench.provider.called(ops["email"])) == (State.CONFIRMED, 1)
    assert bench.provider.called(ops["ticket"]) == 1


@pytest.mark.case("R088")
@pytest.mark.invariant(8)
async def test_of_a_loop_of_drafts_only_the_approved_text_is_sent_and_it_is_sent_once(bench: Bench, host: Asking) -> None:
    # Given a node that asks before its pause, and a reviewer who wants it changed three times; each resume runs the node again
    drafts = []
    for words in ("first", "second", "third", "fourth"):
        for _ in range(2):
            asked = host.ask(words, callback="host/decided")
        drafts.append(asked.approval_id)
    assert len(set(drafts)) == 4
    host.decide(drafts[-1], True)
    # Then three drafts are superseded, and each names the next
    found = [host.get(draft) for draft in drafts]
    assert [one.state for one in found] == [ApprovalState.SUPERSEDED] * 3 + [ApprovalState.GRANTED]
    assert [one.superseded_by for one in found] == [*drafts[1:], None]
    assert [message["kwargs"]["state"] for message in host.told(drafts[0])] == ["pending", "superseded"]
    # And none of them can be decided any more, nor can anything be sent under it
    for draft in drafts[:3]:
        with pytest.raises(ApprovalError, match=r"superseded at .* by apr_.*decide that one") as late:
            host.decide(draft, True)
        assert late.value.state == "superseded"
    one = host.staged(drafts[-1], "fourth")
    for words, draft in zip(("first", "second", "third"), drafts, strict=False):
        with pytest.raises(EffectConflict):
            host.stage(draft, words)
    await host.relay()
    await bench.carry(one)
    # One effect, one operation, the words that were approved, once
    assert bench.ask("select count(*) from acuse.operation where tenant = :tenant", tenant=bench.tenant) == 1
    [call] = bench.provider.calls
    assert b"fourth" in call.body
    assert bench.state(one) is State.CONFIRMED


@pytest.mark.case("R088")
@pytest.mark.invariant(8)
async def test_a_draft_that_was_staged_and_granted_is_not_sent_once_a_newer_one_was_asked_for(bench: Bench, host: Asking) -> None:
    # Given a draft that was granted, and its operation on its way
    first = host.ask("first")
    one = host.staged(first.approval_id, "first")
    host.decide(first.approval_id, True)
    # When the text is changed, then the old one is rejected, and the new one takes its intent up
    second = host.ask("second")
    assert second.superseded == first.approval_id
    await host.relay()
    assert (bench.state(one), bench.row(one).reason) == (State.REJECTED, "approval_superseded")
    assert bench.provider.calls == []
    host.decide(second.approval_id, True)
    with bench.sync.begin() as connection:
        host.outbox.stage(
            connection,
            Note(ref="case-1", text="second"),
            approval=second.approval_id,
            succeeds=f"op_{one.hex}",
            account=bench.tenant,
        )
    await host.relay()
    [call] = bench.provider.calls
    assert b"second" in call.body


async def test_what_was_sent_already_is_superseded_by_nothing(bench: Bench, host: Asking) -> None:
    first = host.ask("first")
    host.decide(first.approval_id, True)
    one = host.staged(first.approval_id, "first")
    await host.relay()
    assert bench.state(one) is State.CONFIRMED

    second = host.ask("second")

    assert (second.created, second.superseded) == (True, None)
    assert host.get(first.approval_id).state is ApprovalState.GRANTED


def test_a_loser_sees_who_decided_and_a_stranger_sees_nothing(host: Asking) -> None:
    asked = host.ask()
    first = host.decide(asked.approval_id, True, by="ann")
    for answer, by in ((False, "bob"), (True, "ann")):
        late = host.decide(asked.approval_id, answer, by=by)
        assert (late.won, late.state, late.decided_by, late.decided_at) == (False, "granted", "ann", first.decided_at)
    host.revoke(asked.approval_id)
    with pytest.raises(ApprovalError, match=r"revoked at .* by bob") as revoked:
        host.decide(asked.approval_id, True)
    assert revoked.value.state == "revoked"
    for approval, tenant in ((NOWHERE, None), (asked.approval_id, "somebody-else")):
        with pytest.raises(NotFound):
            host.decide(approval, True, tenant=tenant)


def test_the_host_is_told_under_an_id_that_stays_the_same(host: Asking) -> None:
    asked = host.ask(callback="host/decided", lasts=HOUR)
    host.decide(asked.approval_id, True)
    host.revoke(asked.approval_id)
    messages = host.told(asked.approval_id)
    assert [one["id"] for one in messages] == [f"{asked.approval_id}-{state}" for state in ("pending", "granted", "revoked")]
    assert {one["actor"] for one in messages} == {"decided"}
    assert messages[1]["kwargs"] == {
        "approval_id": asked.approval_id,
        "state": "granted",
        "tenant": host.bench.tenant,
        "workflow": "w",
        "call": "c-1",
        "action": "scripted.note.v1",
        "target": "case-1",
    }


def test_a_request_lives_and_dies_with_the_transaction_that_made_it(engine: Engine, approvals: Approvals) -> None:
    with engine.connect() as connection:
        asked = approvals.request(connection, CLOSE, workflow="w", callback="host/decided", expires_in=HOUR)
        connection.rollback()
        with pytest.raises(NotFound):
            approvals.get(connection, asked.approval_id)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"expires_in": timedelta(0)}, ApprovalError),
        ({"max_uses": 0}, ApprovalError),
        ({"callback": "nowhere"}, InvalidField),
        ({"by": ""}, InvalidField),
        ({"workflow": None}, InvalidField),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(approvals: Approvals, bad: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error) as refused:
        approvals.request(None, CLOSE, **({"workflow": "w"} | bad))  # type: ignore[arg-type]
    assert next(iter(bad)) in str(refused.value)


def test_a_decision_that_makes_no_sense_is_refused(approvals: Approvals) -> None:
    for bad in ({"approve": False, "expires_in": HOUR}, {"approve": True, "expires_in": timedelta(0)}):
        with pytest.raises(ApprovalError, match="how long a grant lasts"):
            approvals.decide(None, NOWHERE, by="ann", **bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidField, match="limit: must be"):
        approvals.pending(None, limit=0)  # type: ignore[arg-type]


async def test_the_asynchronous_face_says_the_same(database_url: str, async_engine: AsyncEngine, tenant: str) -> None:
    approvals = AsyncApprovals(tenant=tenant)
    raw = await asyncpg.connect(libpq(database_url))
    async with async_engine.connect() as connection, raw.transaction():
        for caller, workflow in ((connection, "w-1"), (raw, "w-2")):
            asked = await approvals.request(caller, CLOSE, workflow=workflow, expires_in=HOUR, callback="host/decided")
            assert [one.approval_id for one in await approvals.pending(caller, workflow=workflow)] == [asked.approval_id]
            decision = await approvals.decide(caller, asked.approval_id, True, by="ann", expires_in=HOUR)
            assert (decision.won, decision.state) == (True, ApprovalState.GRANTED)
            assert not (await approvals.decide(caller, asked.approval_id, False, by="bob", reason="no")).won
            found = await approvals.get(caller, asked.approval_id)
            assert found.payload is not None
            assert found.decided_at == decision.decided_at
    await raw.close()
