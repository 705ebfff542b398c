"""Saying what is wanted inside your own transaction: commit makes it so, rollback leaves nothing.

Both faces are stateless and safe to share between threads and tasks. Each method runs exactly one statement on the connection
that it is given, and never commits.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from acuse.errors import InDoubt
from acuse.intent import Action, ActionCatalog, ActorLike, Effect, Event, Routes
from acuse.store.caller import AsyncCaller, Caller, Row, run, run_async
from acuse.store.message import SEND, MessageLike, message_values
from acuse.store.request import Needed, Request, Setting, Wish, publishing, staging, tenant_of
from acuse.store.stage import STAGE, Published, Staged, published_of, staged_of
from acuse.store.statement import Statement

__all__ = ["AsyncOutbox", "Outbox", "Published", "Staged", "Wish"]


class _Intake:
    """What both faces share: everything but running the statement."""

    def __init__(self, routes: Routes | None = None, catalog: ActionCatalog | None = None, tenant: str = "default") -> None:
        """Make an outbox.

        routes: what events lead to. catalog: the known actions; untyped effects are validated against it, and without one they
        are taken as they are, with neither a declared identity nor an order. tenant: where a call does not name one.
        """
        self._routes = Routes() if routes is None else routes
        self._catalog = catalog
        self._tenant = tenant_of(tenant)

    def _publishing(
        self, event: Event, workflow: str | None, flow_version: str | None, key: str | None, tenant: str | None, trace: str | None
    ) -> Request:
        setting = Setting(self._tenant if tenant is None else tenant, workflow, flow_version, trace)
        return publishing(event, setting, self._routes, self._catalog, key)

    def _staging(
        self, wishes: Sequence[Wish], workflow: str | None, flow_version: str | None, tenant: str | None, trace: str | None
    ) -> Request:
        setting = Setting(self._tenant if tenant is None else tenant, workflow, flow_version, trace)
        return staging(wishes, setting, self._catalog)


class Outbox(_Intake):
    """For a SQLAlchemy `Session`, `scoped_session` or `Connection`, or a psycopg `Connection` or `Cursor`.

    Every method raises `TypeError` for another connection, `ConfigurationError` for one that commits each statement by itself,
    and `RetryTransaction` when the database asks for the whole transaction again.
    """

    def _run(self, session: Caller, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
        return run(session, statement, values)

    def publish(
        self,
        session: Caller,
        event: Event,
        *,
        workflow: str | None = None,
        flow_version: str | None = None,
        key: str | None = None,
        tenant: str | None = None,
        trace: str | None = None,
    ) -> Published:
        """Write an event and the operations that its routes lead to.

        key: your own key of this occurrence, where the event class declares no identity; an event that was published before is
        not written again. trace: a W3C `traceparent`.
        Raises `IntakeError`, and `EffectConflict` when key or identity stand for other content; then nothing was written.
        """
        request = self._publishing(event, workflow, flow_version, key, tenant, trace)
        return published_of(request, self._run(session, STAGE, {"request": request.text}))

    def stage(
        self,
        session: Caller,
        said: Action | Effect,
        *,
        workflow: str | None = None,
        flow_version: str | None = None,
        call: str | None = None,
        effect_key: str | None = None,
        approval: str | None = None,
        after: Needed | Sequence[Needed] = (),
        ordering_key: str | None = None,
        succeeds: str | Staged | None = None,
        compensates: str | Staged | None = None,
        not_after: datetime | None = None,
        on_settled: ActorLike | str | None = None,
        value: Decimal | float | None = None,
        distinct: bool = False,
        account: str | None = None,
        tenant: str | None = None,
        trace: str | None = None,
        raise_in_doubt: bool = False,
    ) -> Staged:
        """Write one operation, or return the one that stands for this intent already. See `Wish` for the parameters.

        Raises `IntakeError` (`IdentityMissing`, `InvalidField`, `InvalidPayload`, `UnknownAction`), `EffectConflict` with the
        paths that differ, `ApprovalError`, and `InDoubt` with `raise_in_doubt` or over a predecessor that may still take
        effect; then nothing was written, and your transaction is still usable.
        """
        wish = Wish(
            said,
            call,
            effect_key,
            approval,
            after,
            ordering_key,
            succeeds,
            compensates,
            not_after,
            on_settled,
            value,
            distinct,
            account,
        )
        request = self._staging([wish], workflow, flow_version, tenant, trace)
        return _only(staged_of(request, self._run(session, STAGE, {"request": request.text})), raise_in_doubt)

    def stage_many(
        self,
        session: Caller,
        wishes: Sequence[Wish],
        *,
        workflow: str | None = None,
        flow_version: str | None = None,
        tenant: str | None = None,
        trace: str | None = None,
    ) -> tuple[Staged, ...]:
        """Write several operations, all or none; the results are in the order of `wishes`. Raises as `stage` does."""
        request = self._staging(wishes, workflow, flow_version, tenant, trace)
        return staged_of(request, self._run(session, STAGE, {"request": request.text})) if wishes else ()

    def send(
        self, session: Caller, message: MessageLike, *, delay: timedelta | int | None = None, tenant: str | None = None
    ) -> None:
        """Send a Dramatiq message of yours once the transaction is committed. delay: a timedelta, or milliseconds.

        The message must be JSON, its queue none of ours (`acuse.…`): raises `InvalidField`. It may be delivered twice, as any
        message. tenant: whose share of the queue it uses while more waits there than the broker takes.
        """
        self._run(session, SEND, message_values(message, delay, self._tenant if tenant is None else tenant_of(tenant)))


class AsyncOutbox(_Intake):
    """For a SQLAlchemy `AsyncSession`, `async_scoped_session` or `AsyncConnection`, a psycopg `AsyncConnection` or `AsyncCursor`,
    or an asyncpg `Connection`. The methods are those of `Outbox`, awaited.
    """

    async def _run(self, session: AsyncCaller, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
        return await run_async(session, statement, values)

    async def publish(
        self,
        session: AsyncCaller,
        event: Event,
        *,
        workflow: str | None = None,
        flow_version: str | None = None,
        key: str | None = None,
        tenant: str | None = None,
        trace: str | None = None,
    ) -> Published:
        """See `Outbox.publish`."""
        request = self._publishing(event, workflow, flow_version, key, tenant, trace)
        return published_of(request, await self._run(session, STAGE, {"request": request.text}))

    async def stage(
        self,
        session: AsyncCaller,
        said: Action | Effect,
        *,
        workflow: str | None = None,
        flow_version: str | None = None,
        call: str | None = None,
        effect_key: str | None = None,
        approval: str | None = None,
        after: Needed | Sequence[Needed] = (),
        ordering_key: str | None = None,
        succeeds: str | Staged | None = None,
        compensates: str | Staged | None = None,
        not_after: datetime | None = None,
        on_settled: ActorLike | str | None = None,
        value: Decimal | float | None = None,
        distinct: bool = False,
        account: str | None = None,
        tenant: str | None = None,
        trace: str | None = None,
        raise_in_doubt: bool = False,
    ) -> Staged:
        """See `Outbox.stage`."""
        wish = Wish(
            said,
            call,
            effect_key,
            approval,
            after,
            ordering_key,
            succeeds,
            compensates,
            not_after,
            on_settled,
            value,
            distinct,
            account,
        )
        request = self._staging([wish], workflow, flow_version, tenant, trace)
        return _only(staged_of(request, await self._run(session, STAGE, {"request": request.text})), raise_in_doubt)

    async def stage_many(
        self,
        session: AsyncCaller,
        wishes: Sequence[Wish],
        *,
        workflow: str | None = None,
        flow_version: str | None = None,
        tenant: str | None = None,
        trace: str | None = None,
    ) -> tuple[Staged, ...]:
        """See `Outbox.stage_many`."""
        request = self._staging(wishes, workflow, flow_version, tenant, trace)
        return staged_of(request, await self._run(session, STAGE, {"request": request.text})) if wishes else ()

    async def send(
        self, session: AsyncCaller, message: MessageLike, *, delay: timedelta | int | None = None, tenant: str | None = None
    ) -> None:
        """See `Outbox.send`."""
        await self._run(session, SEND, message_values(message, delay, self._tenant if tenant is None else tenant_of(tenant)))


def _only(staged: tuple[Staged, ...], raise_in_doubt: bool) -> Staged:
    [one] = staged
    if raise_in_doubt and one.in_doubt:
        raise InDoubt(operation_id=one.operation_id)
    return one
