"""Checked by mypy and never executed: what a host writes has the types that it reads."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, assert_type

import dramatiq
import psycopg
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from acuse import (
    Action,
    ActionCatalog,
    ApprovalRecord,
    Approvals,
    ApprovalState,
    AsyncApprovals,
    AsyncLedger,
    AsyncOutbox,
    Cancellation,
    Decision,
    Effect,
    Event,
    HistoryEntry,
    Ledger,
    OperationRecord,
    Outbox,
    Page,
    Plan,
    Published,
    Receipt,
    Requested,
    Routes,
    Staged,
    State,
    Wish,
)


class CloseCase(Action, name="crm.close_case.v1", target="case", identity=("case",), overwrites=True):
    case: str
    resolution: str = "onboarded"


class CaseClosed(Event, name="onboarding.case_closed.v1", identity=("case",)):
    case: str


routes = Routes()


@routes.on(CaseClosed)
def close(event: CaseClosed, plan: Plan) -> None:
    closed = plan.effect(CloseCase(case=event.case))
    plan.effect(Effect("email.send.v1", event.case, {"to": "owner"}), after=closed, on_settled=remember)


@dramatiq.actor
def remember(operation_id: str) -> None: ...


def synchronous(
    session: Session,
    scoped: scoped_session[Session],
    connection: Connection,
    raw: psycopg.Connection[Any],
    cursor: psycopg.Cursor[Any],
) -> None:
    outbox = Outbox(routes=routes, catalog=ActionCatalog([CloseCase]), tenant="acme")
    assert_type(outbox.publish(session, CaseClosed(case="case-1"), workflow="w", key="k"), Published)
    staged = outbox.stage(
        scoped,
        CloseCase(case="case-1"),
        workflow="w",
        call="toolu_1",
        approval="apr_…",
        not_after=datetime.now(UTC) + timedelta(hours=1),
        on_settled=remember,
        value=Decimal("12.50"),
    )
    assert_type(staged, Staged)
    assert_type(staged.operation_id, str)
    assert_type(staged.state, State)
    first = Wish(CloseCase(case="case-1"))
    second = Wish(Effect("email.send.v1", "case-1", {}), after=[first, staged, "op_…"])
    assert_type(outbox.stage_many(connection, [first, second], workflow="w"), tuple[Staged, ...])
    outbox.send(raw, remember.message("op_…"), delay=1000)
    outbox.send(cursor, remember.message("op_…"), delay=timedelta(seconds=1))
    outbox.publish(session, CloseCase(case="case-1"))  # type: ignore[arg-type]
    outbox.stage(session, "crm.close_case.v1")  # type: ignore[arg-type]
    outbox.stage(session, CloseCase(case="case-1"), workflw="w")  # type: ignore[call-arg]


def reading(ledger: Ledger, connection: Connection) -> None:
    record = ledger.wait("op_…", timeout=10)
    assert_type(record, OperationRecord)
    assert_type(record.receipt, Receipt | None)
    assert_type(record.why, str)
    assert_type(record.settled_at, datetime | None)
    assert_type(ledger.history("op_…"), tuple[HistoryEntry, ...])
    assert_type(ledger.find(state=[State.UNKNOWN, State.DISPATCHING], held=True), Page)
    assert_type(ledger.cancel(connection, "op_…", by="ann", reason="no need"), Cancellation)
    assert_type(ledger.cancel_workflow(connection, "w", by="ann", reason="no need"), tuple[str, ...])


def approving(approvals: Approvals, session: Session) -> None:
    approval = approvals.grant(session, CloseCase(case="case-1"), by="ann", expires_in=timedelta(hours=1), max_uses=1)
    assert_type(approval, str)
    assert_type(approvals.get(session, approval), ApprovalRecord)
    pattern = approvals.grant_pattern(session, CloseCase, by="ann", target_prefix="case-", max_sum=("amount", Decimal(500)))
    assert_type(pattern, str)
    asked = approvals.request(session, CloseCase(case="case-1"), workflow="w", expires_in=timedelta(hours=1), callback="q/actor")
    assert_type(asked, Requested)
    assert_type(asked.state, ApprovalState)
    assert_type(approvals.decide(session, asked.approval_id, True, by="ann"), Decision)
    assert_type(approvals.pending(session, workflow="w"), tuple[ApprovalRecord, ...])
    approvals.decide(session, asked.approval_id, True)  # type: ignore[call-arg]  # nobody decides without a name
    in_the_air: Sequence[str] = approvals.revoke(session, approval, by="ann", reason="wrong case")
    assert_type(tuple(in_the_air), tuple[str, ...])


async def asynchronous(
    session: AsyncSession,
    scoped: async_scoped_session[AsyncSession],
    connection: AsyncConnection,
    raw: psycopg.AsyncConnection[Any],
    engine: AsyncEngine,
) -> None:
    outbox, ledger, approvals = AsyncOutbox(routes), AsyncLedger(engine, tenant="acme"), AsyncApprovals(tenant="acme")
    assert_type(await outbox.publish(session, CaseClosed(case="case-1")), Published)
    assert_type(await outbox.stage(scoped, CloseCase(case="case-1"), workflow="w"), Staged)
    assert_type(await outbox.stage_many(raw, [Wish(CloseCase(case="case-1"))], workflow="w"), tuple[Staged, ...])
    assert_type(await ledger.wait("op_…", timeout=timedelta(seconds=1), until={State.UNKNOWN}), OperationRecord)
    assert_type(await approvals.grant(connection, CloseCase(case="case-1"), by="ann"), str)
    assert_type(await approvals.request(raw, CloseCase(case="case-1"), workflow="w"), Requested)
    assert_type(await approvals.decide(scoped, "apr_…", False, by="ann", reason="no"), Decision)
    await outbox.stage(Session(), CloseCase(case="case-1"))  # type: ignore[arg-type]
