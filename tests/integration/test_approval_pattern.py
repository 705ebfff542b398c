"""An approval for a pattern: which effects fit it, and what its limits count."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from approving import Asking
from bench import Bench
from scripted_provider import Note
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from acuse import (
    ActionCatalog,
    ApprovalError,
    Approvals,
    AsyncApprovals,
    AsyncOutbox,
    Effect,
    InvalidField,
    Outbox,
    State,
    UnknownAction,
)

HOUR = timedelta(hours=1)
NOTE = Note.declared.name


@pytest.fixture
def approvals(tenant: str) -> Approvals:
    return Approvals(tenant=tenant)


@pytest.fixture
def outbox(tenant: str) -> Outbox:
    return Outbox(tenant=tenant)


@pytest.mark.invariant(8)
@pytest.mark.parametrize(
    ("where", "fits", "strange"),
    [
        ({"target_prefix": "case-"}, "case-318", "ticket-1"),
        ({"target_prefix": "100%_"}, "100%_sure", "100 and sure"),  # a prefix is no pattern of LIKE
        ({"target": "case-318"}, "case-318", "case-3180"),
    ],
)
def test_a_pattern_allows_the_targets_that_it_names_and_no_others(
    engine: Engine, approvals: Approvals, outbox: Outbox, where: dict[str, str], fits: str, strange: str
) -> None:
    with engine.connect() as connection:
        pattern = approvals.grant_pattern(connection, Note, by="ann", expires_in=HOUR, **where)  # type: ignore[arg-type]
        assert outbox.stage(connection, Note(ref=fits), workflow="w", call="1", approval=pattern).created
        for said in (Note(ref=strange), Effect("scripted.note.v2", fits, {"ref": fits})):
            with pytest.raises(ApprovalError, match="bound to this tenant, action, target and payload"):
                outbox.stage(connection, said, workflow="w", call="2", approval=pattern)
        with pytest.raises(ApprovalError):
            outbox.stage(connection, Note(ref=fits), workflow="w", call="3", approval=pattern, tenant="somebody-else")


def test_a_pattern_says_what_it_allows(engine: Engine, approvals: Approvals) -> None:
    with engine.connect() as connection:
        pattern = approvals.grant_pattern(
            connection, NOTE, by="ann", max_uses=3, max_sum=("amount", Decimal("99.50")), reason="small ones"
        )
        found = approvals.get(connection, pattern)
        assert (found.action, found.target, found.target_prefix, found.digest, found.payload) == (NOTE, None, None, None, None)
        assert (found.uses_left, found.sum_left, found.sum_field, found.reason) == (3, Decimal("99.50"), "amount", "small ones")
        assert found.stands
        assert (found.decided_by, found.requested_by) == ("ann", None)


@pytest.mark.parametrize("amount", [None, "-1", "1e3", "twelve", True, [1], {"value": 1}])
def test_what_is_no_amount_is_not_staged_under_a_limit_of_the_sum(
    engine: Engine, approvals: Approvals, outbox: Outbox, amount: Any
) -> None:
    with engine.connect() as connection:
        pattern = approvals.grant_pattern(connection, NOTE, by="ann", max_sum=("amount", 100))
        with pytest.raises(ApprovalError, match=r"sums \$\.amount of the payload, which is no amount here"):
            outbox.stage(connection, Effect(NOTE, "case-1", {"amount": amount}), effect_key="k", approval=pattern)
        for at, fine in enumerate((0, 12, 12.5, "12.50")):
            assert outbox.stage(
                connection, Effect(NOTE, "case-1", {"amount": fine}), effect_key=f"k-{at}", approval=pattern
            ).created


async def test_a_smaller_one_may_still_fit_where_a_larger_one_did_not(bench: Bench) -> None:
    host = Asking(bench)
    with bench.sync.begin() as connection:
        pattern = host.approvals.grant_pattern(connection, Note, by="ann", max_sum=("amount", Decimal(10)))
    ones = {}
    for amount in ("7", "4", "3", "0.01"):
        ones[amount] = bench.stage(fields={"amount": Decimal(amount)}, approval=pattern.removeprefix("apr_"))
        await bench.carry(ones[amount])
    assert {amount: bench.state(one) for amount, one in ones.items()} == {
        "7": State.CONFIRMED,
        "4": State.REJECTED,
        "3": State.CONFIRMED,
        "0.01": State.REJECTED,
    }
    assert bench.row(ones["4"]).reason == "approval_sum_exceeded"
    assert host.get(pattern).sum_left == 0


@pytest.mark.invariant(8)
async def test_a_pattern_that_expired_or_was_revoked_allows_nothing(bench: Bench) -> None:
    host = Asking(bench)
    for end in ("expired", "revoked"):
        with bench.sync.begin() as connection:
            pattern = host.approvals.grant_pattern(connection, Note, by="ann", expires_in=HOUR)
        one = bench.stage(approval=pattern.removeprefix("apr_"))
        host.time_is_up(pattern) if end == "expired" else host.revoke(pattern)
        await bench.carry(one)
        assert (bench.state(one), bench.row(one).reason) == (State.REJECTED, f"approval_{end}")
    assert bench.provider.calls == []


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({}, ApprovalError),
        ({"max_uses": 1, "target": "a", "target_prefix": "b"}, ApprovalError),
        ({"max_uses": 0}, ApprovalError),
        ({"max_sum": ("amount", 0)}, InvalidField),
        ({"max_sum": ("amount", 1.5)}, InvalidField),
        ({"max_sum": ("amount", Decimal("NaN"))}, InvalidField),
        ({"max_sum": ("", 1)}, InvalidField),
        ({"max_uses": 1, "target": "ann@example.org"}, InvalidField),
        ({"max_uses": 1, "target_prefix": ""}, InvalidField),
    ],
)
def test_a_pattern_that_makes_no_sense_is_refused(approvals: Approvals, bad: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        approvals.grant_pattern(None, Note, by="ann", **bad)  # type: ignore[arg-type]


def test_a_pattern_for_an_action_that_nobody_knows_is_refused(tenant: str) -> None:
    approvals = Approvals(catalog=ActionCatalog([Note]), tenant=tenant)
    with pytest.raises(UnknownAction):
        approvals.grant_pattern(None, "scripted.nothing.v1", by="ann", max_uses=1)  # type: ignore[arg-type]


_RAW = "select acuse.grant_pattern(:tenant, 'a.b.v1', null, null, 'ann', null, {})"


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        (_RAW.format("null, null, null, null"), "patterns_have_a_limit"),
        (_RAW.format("null, null, null, 10"), "sums_name_their_field"),
        ("update acuse.approval set summed = 11 where tenant = :tenant", "sum_kept"),
        ("update acuse.approval set digest = sha256('x') where tenant = :tenant", "exact_or_pattern"),
        ("update acuse.approval set decision = null where tenant = :tenant", "decided_by_somebody"),
    ],
)
def test_the_database_refuses_what_no_approval_may_be(engine: Engine, tenant: str, statement: str, constraint: str) -> None:
    with engine.connect() as connection:
        connection.execute(text(_RAW.format("null, null, 'amount', 10")), {"tenant": tenant})
        with pytest.raises(IntegrityError, match=f"{constraint}|exact_or_pattern"):
            connection.execute(text(statement), {"tenant": tenant})


async def test_the_asynchronous_face_says_the_same(async_engine: AsyncEngine, tenant: str) -> None:
    approvals, outbox = AsyncApprovals(tenant=tenant), AsyncOutbox(tenant=tenant)
    async with async_engine.connect() as connection:
        pattern = await approvals.grant_pattern(connection, Note, by="ann", max_sum=("amount", Decimal(5)), target_prefix="case-")
        note = Note(ref="case-1", amount=Decimal(4))
        assert (await outbox.stage(connection, note, workflow="w", call="c", approval=pattern)).created
        assert (await approvals.get(connection, pattern)).sum_left == 5
