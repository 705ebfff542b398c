"""Approvals for hosts: granted for exactly one effect, checked by every dispatch, and revocable until then."""

from datetime import datetime, timedelta

from acuse.intent import Action, ActionCatalog, Effect
from acuse.store.approval import (
    GET,
    GRANT,
    REVOKE,
    ApprovalRecord,
    get_values,
    grant_values,
    granted,
    record_of,
    revoke_values,
    revoked,
)
from acuse.store.caller import AsyncCaller, Caller, run, run_async
from acuse.store.request import effect_of, tenant_of

__all__ = ["ApprovalRecord", "Approvals", "AsyncApprovals"]


class _Granting:
    """What both faces share."""

    def __init__(self, catalog: ActionCatalog | None = None, tenant: str = "default") -> None:
        """Make the face. Give the catalog of your outbox, so that both bring an untyped effect into the same form."""
        self._catalog = catalog
        self._tenant = tenant_of(tenant)


class Approvals(_Granting):
    """Works on the connections that `Outbox` takes, in your transaction. Stateless.

    An approval is bound to tenant, action, target and payload: staging another content with it raises `ApprovalError`, and each
    first dispatch and each repeat checks it again.
    """

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
        effect = effect_of(said, self._catalog)
        values = grant_values(
            effect,
            by=by,
            expires_at=expires_at,
            expires_in=expires_in,
            max_uses=max_uses,
            reason=reason,
            tenant=self._tenant if tenant is None else tenant,
        )
        return granted(run(connection, GRANT, values))

    def revoke(self, connection: Caller, approval: str, *, by: str, reason: str, tenant: str | None = None) -> tuple[str, ...]:
        """Let nothing be sent under it any more; returns the operations already in the air, which may still take effect.

        Nothing is erased; revoking again changes nothing. Raises `NotFound`.
        """
        values = revoke_values(approval, by, reason, self._tenant if tenant is None else tenant)
        return revoked(approval, run(connection, REVOKE, values))

    def get(self, connection: Caller, approval: str, *, tenant: str | None = None) -> ApprovalRecord:
        """Read an approval; the role needs select on the table. Raises `NotFound`."""
        values = get_values(approval, self._tenant if tenant is None else tenant)
        return record_of(approval, run(connection, GET, values))


class AsyncApprovals(_Granting):
    """`Approvals` on the connections that `AsyncOutbox` takes. The methods are the same, awaited."""

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
        effect = effect_of(said, self._catalog)
        values = grant_values(
            effect,
            by=by,
            expires_at=expires_at,
            expires_in=expires_in,
            max_uses=max_uses,
            reason=reason,
            tenant=self._tenant if tenant is None else tenant,
        )
        return granted(await run_async(connection, GRANT, values))

    async def revoke(
        self, connection: AsyncCaller, approval: str, *, by: str, reason: str, tenant: str | None = None
    ) -> tuple[str, ...]:
        """See `Approvals.revoke`."""
        values = revoke_values(approval, by, reason, self._tenant if tenant is None else tenant)
        return revoked(approval, await run_async(connection, REVOKE, values))

    async def get(self, connection: AsyncCaller, approval: str, *, tenant: str | None = None) -> ApprovalRecord:
        """See `Approvals.get`."""
        values = get_values(approval, self._tenant if tenant is None else tenant)
        return record_of(approval, await run_async(connection, GET, values))
