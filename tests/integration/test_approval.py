"""An approval is for exactly one effect, and every dispatch asks for it again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from drivers import UNPREPARED, libpq
from host import CloseCase
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine
from stepper import AMBIGUOUS, end, send, take, try_dispatch

from acuse import ActionCatalog, ApprovalError, Approvals, AsyncApprovals, Effect, InvalidField, NotFound, Outbox, State
from acuse.ledger import Ledger

NOWHERE = "apr_01a22b29f50f7366becd753e29cc3883"
CLOSE = CloseCase(case="case-1")


@pytest.fixture
def approvals(tenant: str) -> Approvals:
    return Approvals(tenant=tenant)


@pytest.fixture
def outbox(tenant: str) -> Outbox:
    return Outbox(tenant=tenant)


def test_an_approval_says_what_it_allows_and_who_said_so(engine: Engine, approvals: Approvals, tenant: str) -> None:
    with engine.connect() as connection:
        approval = approvals.grant(
            connection, CLOSE, by="ann", expires_in=timedelta(hours=2), max_uses=3, reason="checked by phone"
        )
        found = approvals.get(connection, approval)
        assert approval.startswith("apr_")
        assert (found.approval_id, found.tenant, found.action, found.target) == (approval, tenant, "crm.close_case.v1", "case-1")
        assert (found.decided_by, found.reason, found.max_uses, found.uses_left) == ("ann", "checked by phone", 3, 3)
        assert found.expires_at is not None
        assert timedelta(hours=1, minutes=59) < found.expires_at - found.requested_at < timedelta(hours=2, minutes=1)
        assert found.stands
        endless = approvals.get(connection, approvals.grant(connection, CLOSE, by="ann"))
        assert (endless.expires_at, endless.max_uses, endless.uses_left, endless.stands) == (None, None, None, True)
        moment = datetime(2031, 1, 1, tzinfo=UTC)
        assert approvals.get(connection, approvals.grant(connection, CLOSE, by="a", expires_at=moment)).expires_at == moment


@pytest.mark.parametrize(
    ("action", "account"),
    [
        (CloseCase(case="case-2"), None),
        (CloseCase(case="case-1", resolution="other"), None),
        (Effect("crm.close_case.v2", "case-1", {"case": "case-1", "resolution": "onboarded", "reopening": 0}), None),
    ],
    ids=["target", "payload", "action"],
)
def test_an_approval_is_bound_to_action_target_and_payload(
    engine: Engine, approvals: Approvals, outbox: Outbox, action: Any, account: str | None
) -> None:
    with engine.connect() as connection:
        approval = approvals.grant(connection, CLOSE, by="ann")
        with pytest.raises(ApprovalError, match="no approval with this id is bound to"):
            outbox.stage(connection, action, workflow="w", call="t", approval=approval)
        assert outbox.stage(connection, CLOSE, workflow="w", approval=approval).created


def test_an_approval_is_bound_to_its_tenant(engine: Engine, approvals: Approvals, tenant: str) -> None:
    other = Outbox(tenant=f"{tenant}-b")
    with engine.connect() as connection:
        approval = approvals.grant(connection, CLOSE, by="ann")
        for wrong in (approval, NOWHERE):
            with pytest.raises(ApprovalError):
                other.stage(connection, CLOSE, workflow="w", approval=wrong)
        for act in (
            lambda: approvals.get(connection, approval, tenant=f"{tenant}-b"),
            lambda: approvals.revoke(connection, approval, by="eve", reason="x", tenant=f"{tenant}-b"),
            lambda: approvals.revoke(connection, NOWHERE, by="eve", reason="x"),
        ):
            with pytest.raises(NotFound):
                act()
        # Then the transaction of the caller lives, and nothing was revoked
        assert approvals.get(connection, approval).stands


def test_an_untyped_effect_and_its_class_mean_the_same_approval(engine: Engine, tenant: str) -> None:
    catalog = ActionCatalog([CloseCase])
    untyped = Effect("crm.close_case.v1", "case-1", {"case": "case-1"})
    with engine.connect() as connection:
        approval = Approvals(catalog=catalog, tenant=tenant).grant(connection, untyped, by="ann")
        assert Outbox(catalog=catalog, tenant=tenant).stage(connection, CLOSE, workflow="w", approval=approval).created


def test_an_approval_lives_and_dies_with_the_transaction_that_granted_it(engine: Engine, approvals: Approvals) -> None:
    with engine.connect() as connection:
        approval = approvals.grant(connection, CLOSE, by="ann")
        connection.rollback()
        with pytest.raises(NotFound):
            approvals.get(connection, approval)


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"expires_in": timedelta(0)}, ApprovalError),
        ({"expires_in": timedelta(hours=1), "expires_at": datetime(2031, 1, 1, tzinfo=UTC)}, ApprovalError),
        ({"max_uses": 0}, ApprovalError),
        ({"expires_at": datetime(2031, 1, 1)}, InvalidField),  # noqa: DTZ001 - that is the point
        ({"by": ""}, InvalidField),
        ({"reason": "x" * 2001}, InvalidField),
    ],
)
def test_limits_that_make_no_sense_are_refused(approvals: Approvals, limits: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        approvals.grant(None, CLOSE, **({"by": "ann"} | limits))  # type: ignore[arg-type]


@pytest.mark.invariant(8)
def test_revoking_stops_what_was_not_sent_and_names_what_was(
    engine: Engine, approvals: Approvals, outbox: Outbox, tenant: str
) -> None:
    # Given two operations under one approval, of which one is in the air
    with engine.begin() as connection:
        approval = approvals.grant(connection, CLOSE, by="ann")
        sent = outbox.stage(connection, CLOSE, workflow="w", approval=approval)
        waiting = outbox.stage(connection, CLOSE, workflow="x", approval=approval)
    end(engine, send(engine, sent.operation_id), AMBIGUOUS)
    # When it is revoked, twice
    with engine.begin() as connection:
        assert approvals.revoke(connection, approval, by="bob", reason="wrong case") == (sent.operation_id,)
    with engine.begin() as connection:
        assert approvals.revoke(connection, approval, by="eve", reason="again") == (sent.operation_id,)
        found = approvals.get(connection, approval)
    # Then the first revocation stands, and the other operation is rejected when a worker takes it
    assert (found.stands, found.revoked_by, found.revoke_reason) == (False, "bob", "wrong case")
    assert try_dispatch(engine, take(engine, waiting.operation_id)).gate == "approval_revoked"
    record = Ledger(engine, tenant=tenant).get(waiting.operation_id)
    assert (record.state, record.outcome_code) == (State.REJECTED, "approval_gone")
    assert record.why == "Its approval was gone before it was sent: the approval was revoked."


@pytest.mark.invariant(8)
@pytest.mark.parametrize(
    ("expired", "gate"),
    [("expires_at = now() - interval '1 s'", "approval_expired"), ("max_uses = 1, used = 1", "approval_used_up")],
)
def test_an_approval_that_ended_allows_nothing(
    engine: Engine, approvals: Approvals, outbox: Outbox, expired: str, gate: str
) -> None:
    with engine.begin() as connection:
        approval = approvals.grant(connection, CLOSE, by="ann")
        staged = outbox.stage(connection, CLOSE, workflow="w", approval=approval)
        connection.execute(text(f"update acuse.approval set {expired} where id = :id"), {"id": approval.removeprefix("apr_")})
        assert not approvals.get(connection, approval).stands
    assert try_dispatch(engine, take(engine, staged.operation_id)).gate == gate


async def test_the_asynchronous_face_says_the_same(database_url: str, async_engine: AsyncEngine, tenant: str) -> None:
    approvals = AsyncApprovals(tenant=tenant)
    async with async_engine.connect() as connection:
        approval = await approvals.grant(connection, CLOSE, by="ann", expires_in=timedelta(hours=1), max_uses=1)
        assert (await approvals.get(connection, approval)).uses_left == 1
        assert await approvals.revoke(connection, approval, by="ann", reason="no") == ()
    raw = await asyncpg.connect(libpq(database_url), **UNPREPARED)
    async with raw.transaction():
        approval = await approvals.grant(raw, CLOSE, by="ann", expires_at=datetime(2031, 1, 1, tzinfo=UTC), max_uses=1)
        assert (await approvals.get(raw, approval)).expires_at == datetime(2031, 1, 1, tzinfo=UTC)
        assert await approvals.revoke(raw, approval, by="ann", reason="no") == ()
        with pytest.raises(NotFound):
            await approvals.revoke(raw, NOWHERE, by="ann", reason="no")
    await raw.close()
