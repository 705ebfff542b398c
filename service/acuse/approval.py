"""Approvals for hosts: asked for, decided by a person, checked by every dispatch, and revocable until then."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from acuse.intent import Action, ActionCatalog, ActorLike, Effect
from acuse.store.approval import FIND, GET, ApprovalRecord, ApprovalState, find_values, get_values, record_of, records_of
from acuse.store.approval_request import REQUEST, Requested, request_values, requested
from acuse.store.caller import AsyncCaller, Caller, run, run_async
from acuse.store.decision import DECIDE, REVOKE, Decision, decide_values, decision_of, revoke_values, revoked
from acuse.store.grant import GRANT, GRANT_PATTERN, action_of, grant_values, granted, pattern_values
from acuse.store.request import effect_of, tenant_of

__all__ = ["ApprovalRecord", "ApprovalState", "Approvals", "AsyncApprovals", "Decision", "Requested"]


class _Approving:
    """What both faces share: everything but running the statement."""

    def __init__(self, catalog: ActionCatalog | None = None, tenant: str = "default") -> None:
        """Make the face. Give the catalog of your outbox, so that both bring an untyped effect into the same form."""
        self._catalog = catalog
        self._tenant = tenant_of(tenant)

    def _of(self, tenant: str | None) -> str:
        return self._tenant if tenant is None else tenant

    # What each says of how comes out of the public methods, which name it.
    def _requesting(self, said: Action | Effect, tenant: str | None, **how: Any) -> dict[str, Any]:  # noqa: ANN401 - above
        return request_values(effect_of(said, self._catalog), tenant=self._of(tenant), **how)

    def _granting(self, said: Action | Effect, tenant: str | None, **how: Any) -> dict[str, Any]:  # noqa: ANN401 - above
        return grant_values(effect_of(said, self._catalog), tenant=self._of(tenant), **how)

    def _patterning(self, said: type[Action] | str, tenant: str | None, **how: Any) -> dict[str, Any]:  # noqa: ANN401
        return pattern_values(action_of(said, self._catalog), tenant=self._of(tenant), **how)


class Approvals(_Approving):
    """Works on the connections that `Outbox` takes, in your transaction. Stateless.

    An approval is bound to tenant, action, target and payload, or to a pattern: staging another content with it raises
    `ApprovalError`, and each first dispatch and each repeat checks it again. Under one that is pending a staged operation waits.
    """

    def request(
        self,
        connection: Caller,
        said: Action | Effect,
        *,
        workflow: str | None = None,
        call: str | None = None,
        effect_key: str | None = None,
        by: str | None = None,
        reason: str | None = None,
        expires_in: timedelta | None = None,
        expires_at: datetime | None = None,
        max_uses: int | None = 1,
        callback: ActorLike | str | None = None,
        anew: bool = False,
        tenant: str | None = None,
    ) -> Requested:
        """Ask for an approval of this intent; workflow, call and effect_key as you stage it, and it allows no other intent.

        Asked again with the same content it is the same approval, whatever became of it; with anew, one that has ended may be
        asked for again. Other content needs its own, and supersedes what was asked or granted before. by and reason: who asks
        and why, for the person who decides. expires_in: until when it can be decided and used. callback: a Dramatiq actor, or
        `queue/actor`, that is told pending, granted, denied, expired, superseded and revoked.
        Raises `IntakeError`, `ApprovalError` for limits that make no sense, and `RetryTransaction`.
        """
        values = self._requesting(
            said,
            tenant,
            workflow=workflow,
            call=call,
            given=effect_key,
            by=by,
            reason=reason,
            expires_at=expires_at,
            expires_in=expires_in,
            max_uses=max_uses,
            callback=callback,
            anew=anew,
        )
        return requested(run(connection, REQUEST, values))

    def decide(
        self,
        connection: Caller,
        approval: str,
        approve: bool,
        *,
        by: str,
        reason: str | None = None,
        expires_in: timedelta | None = None,
        tenant: str | None = None,
    ) -> Decision:
        """Answer a request. The first answer wins; a later one changes nothing and is told whose that was.

        expires_in: how long the grant lasts from now, in place of what was asked for.
        Raises `NotFound`, and `ApprovalError` (with its `state`) for one that has expired, or was superseded or revoked.
        """
        values = decide_values(approval, approve=approve, by=by, reason=reason, expires_in=expires_in, tenant=self._of(tenant))
        return decision_of(approval, run(connection, DECIDE, values))

    def pending(
        self,
        connection: Caller,
        *,
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 50,
        tenant: str | None = None,
    ) -> tuple[ApprovalRecord, ...]:
        """Read what waits for a decision, newest first; before: the id of the last one of the page before."""
        values = find_values(self._of(tenant), state=ApprovalState.PENDING, workflow=workflow, before=before, limit=limit)
        return records_of(run(connection, FIND, values))

    def grant(
        self,
        connection: Caller,
        said: Action | Effect,
        *,
        by: str,
        expires_at: datetime | None = None,
        expires_in: timedelta | None = None,
        max_uses: int | None = None,
        reason: str | None = None,
        tenant: str | None = None,
    ) -> str:
        """Allow exactly this effect; returns `apr_…`.

        expires_in counts on the database's clock. max_uses: for how many operations; None is no limit.
        Raises `IntakeError`, and `ApprovalError` for limits that make no sense.
        """
        values = self._granting(
            said, tenant, by=by, expires_at=expires_at, expires_in=expires_in, max_uses=max_uses, reason=reason
        )
        return granted(run(connection, GRANT, values))

    def grant_pattern(
        self,
        connection: Caller,
        action: type[Action] | str,
        *,
        by: str,
        target: str | None = None,
        target_prefix: str | None = None,
        max_uses: int | None = None,
        max_sum: tuple[str, Decimal | int] | None = None,
        expires_at: datetime | None = None,
        expires_in: timedelta | None = None,
        reason: str | None = None,
        tenant: str | None = None,
    ) -> str:
        """Allow every effect of an action whose target fits, within limits of which at least one is given; returns `apr_…`.

        target: that one; target_prefix: those that begin with it; neither: all. max_sum: a field of the payload and the most that
        it may add up to, `("amount", Decimal(500))`; staging a payload whose field is no number of 0 or more raises
        `ApprovalError`. Each operation is counted once, when it is first dispatched, however often it is repeated.
        Raises `IntakeError`, and `ApprovalError` for limits that make no sense.
        """
        values = self._patterning(
            action,
            tenant,
            by=by,
            target=target,
            target_prefix=target_prefix,
            max_uses=max_uses,
            max_sum=max_sum,
            expires_at=expires_at,
            expires_in=expires_in,
            reason=reason,
        )
        return granted(run(connection, GRANT_PATTERN, values))

    def revoke(self, connection: Caller, approval: str, *, by: str, reason: str, tenant: str | None = None) -> tuple[str, ...]:
        """Let nothing be sent under it any more; returns the operations already in the air, which may still take effect.

        Nothing is erased; what has ended already stays what it was. Raises `NotFound`.
        """
        values = revoke_values(approval, by, reason, self._of(tenant))
        return revoked(approval, run(connection, REVOKE, values))

    def get(self, connection: Caller, approval: str, *, tenant: str | None = None) -> ApprovalRecord:
        """Read an approval; the role needs select on the tables. Raises `NotFound`."""
        return record_of(approval, run(connection, GET, get_values(approval, self._of(tenant))))


class AsyncApprovals(_Approving):
    """`Approvals` on the connections that `AsyncOutbox` takes. The methods are the same, awaited."""

    async def request(
        self,
        connection: AsyncCaller,
        said: Action | Effect,
        *,
        workflow: str | None = None,
        call: str | None = None,
        effect_key: str | None = None,
        by: str | None = None,
        reason: str | None = None,
        expires_in: timedelta | None = None,
        expires_at: datetime | None = None,
        max_uses: int | None = 1,
        callback: ActorLike | str | None = None,
        anew: bool = False,
        tenant: str | None = None,
    ) -> Requested:
        """See `Approvals.request`."""
        values = self._requesting(
            said,
            tenant,
            workflow=workflow,
            call=call,
            given=effect_key,
            by=by,
            reason=reason,
            expires_at=expires_at,
            expires_in=expires_in,
            max_uses=max_uses,
            callback=callback,
            anew=anew,
        )
        return requested(await run_async(connection, REQUEST, values))

    async def decide(
        self,
        connection: AsyncCaller,
        approval: str,
        approve: bool,
        *,
        by: str,
        reason: str | None = None,
        expires_in: timedelta | None = None,
        tenant: str | None = None,
    ) -> Decision:
        """See `Approvals.decide`."""
        values = decide_values(approval, approve=approve, by=by, reason=reason, expires_in=expires_in, tenant=self._of(tenant))
        return decision_of(approval, await run_async(connection, DECIDE, values))

    async def pending(
        self,
        connection: AsyncCaller,
        *,
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 50,
        tenant: str | None = None,
    ) -> tuple[ApprovalRecord, ...]:
        """See `Approvals.pending`."""
        values = find_values(self._of(tenant), state=ApprovalState.PENDING, workflow=workflow, before=before, limit=limit)
        return records_of(await run_async(connection, FIND, values))

    async def grant(
        self,
        connection: AsyncCaller,
        said: Action | Effect,
        *,
        by: str,
        expires_at: datetime | None = None,
        expires_in: timedelta | None = None,
        max_uses: int | None = None,
        reason: str | None = None,
        tenant: str | None = None,
    ) -> str:
        """See `Approvals.grant`."""
        values = self._granting(
            said, tenant, by=by, expires_at=expires_at, expires_in=expires_in, max_uses=max_uses, reason=reason
        )
        return granted(await run_async(connection, GRANT, values))

    async def grant_pattern(
        self,
        connection: AsyncCaller,
        action: type[Action] | str,
        *,
        by: str,
        target: str | None = None,
        target_prefix: str | None = None,
        max_uses: int | None = None,
        max_sum: tuple[str, Decimal | int] | None = None,
        expires_at: datetime | None = None,
        expires_in: timedelta | None = None,
        reason: str | None = None,
        tenant: str | None = None,
    ) -> str:
        """See `Approvals.grant_pattern`."""
        values = self._patterning(
            action,
            tenant,
            by=by,
            target=target,
            target_prefix=target_prefix,
            max_uses=max_uses,
            max_sum=max_sum,
            expires_at=expires_at,
            expires_in=expires_in,
            reason=reason,
        )
        return granted(await run_async(connection, GRANT_PATTERN, values))

    async def revoke(
        self, connection: AsyncCaller, approval: str, *, by: str, reason: str, tenant: str | None = None
    ) -> tuple[str, ...]:
        """See `Approvals.revoke`."""
        values = revoke_values(approval, by, reason, self._of(tenant))
        return revoked(approval, await run_async(connection, REVOKE, values))

    async def get(self, connection: AsyncCaller, approval: str, *, tenant: str | None = None) -> ApprovalRecord:
        """See `Approvals.get`."""
        return record_of(approval, await run_async(connection, GET, get_values(approval, self._of(tenant))))
