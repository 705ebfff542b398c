"""Approvals: the authorisation for exactly one action, target and payload of one tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from acuse.errors import ApprovalError, NotFound
from acuse.identifier import approval_id, operation_id, uuid_of
from acuse.intent import MAX_TENANT, Effect, check_moment, check_text, digest
from acuse.store.caller import Row
from acuse.store.cancel import MAX_NAME, MAX_REASON
from acuse.store.moment import in_utc
from acuse.store.statement import Statement

__all__ = [
    "GET",
    "GRANT",
    "REVOKE",
    "ApprovalRecord",
    "get_values",
    "grant_values",
    "granted",
    "record_of",
    "revoke_values",
    "revoked",
]

GRANT: Final = Statement(
    """
    select cast(acuse.grant_approval(
             :tenant, :action, :target, :digest, :by, :reason,
             coalesce(cast(:expires_at as timestamptz), clock_timestamp() +
                      make_interval(secs => cast(:expires_in as double precision))),
             cast(:max_uses as integer)) as text)
    """
)
REVOKE: Final = Statement(
    "select cast(r as text) from acuse.revoke_approval(:tenant, cast(cast(:id as text) as uuid), :by, :reason) r"
)
GET: Final = Statement(
    """
    select tenant, action, target, encode(digest, 'hex'), granted_by, reason, granted_at, expires_at, max_uses, used,
           revoked_at, revoked_by, revoke_reason, clock_timestamp()
      from acuse.approval where id = cast(cast(:id as text) as uuid) and tenant = :tenant
    """
)

_MOST_USES: Final = 2**31 - 1  # the column is an integer


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """An approval as it was at `read_at`. It is bound to `action`, `target` and `digest` (hex SHA-256 of the canonical body).

    max_uses: None is no limit; one operation uses it once, however often it is attempted.
    """

    approval_id: str
    tenant: str
    action: str
    target: str
    digest: str
    granted_by: str
    reason: str | None
    granted_at: datetime
    expires_at: datetime | None
    max_uses: int | None
    used: int
    revoked_at: datetime | None
    revoked_by: str | None
    revoke_reason: str | None
    read_at: datetime

    @property
    def uses_left(self) -> int | None:
        """How many more operations it allows; None: any number."""
        return None if self.max_uses is None else self.max_uses - self.used

    @property
    def stands(self) -> bool:
        """Whether it allowed a dispatch at `read_at`."""
        expired = self.expires_at is not None and self.expires_at <= self.read_at
        return self.revoked_at is None and not expired and self.uses_left != 0


def grant_values(
    effect: Effect,
    *,
    by: str,
    expires_at: datetime | None,
    expires_in: timedelta | None,
    max_uses: int | None,
    reason: str | None,
    tenant: str,
) -> dict[str, Any]:
    """The values for `GRANT`. Raises `IntakeError`, and `ApprovalError` for limits that make no sense."""
    if expires_at is not None and expires_in is not None:
        raise ApprovalError(reason="give expires_at or expires_in, not both")
    if expires_in is not None and expires_in <= timedelta(0):
        raise ApprovalError(reason="expires_in must be above zero")
    if max_uses is not None and not 1 <= max_uses <= _MOST_USES:
        raise ApprovalError(reason="max_uses must be 1 or more; leave it out for no limit")
    return {
        "tenant": check_text("tenant", tenant, MAX_TENANT),
        "action": effect.action,
        "target": effect.target,
        "digest": digest(effect.body()),
        "by": check_text("by", by, MAX_NAME),
        "reason": None if reason is None else check_text("reason", reason, MAX_REASON),
        "expires_at": None if expires_at is None else check_moment("expires_at", expires_at),
        "expires_in": None if expires_in is None else expires_in.total_seconds(),
        "max_uses": max_uses,
    }


def granted(rows: Sequence[Row]) -> str:
    """The id, `apr_…`."""
    [[identity]] = rows
    return approval_id(UUID(identity))


def revoke_values(approval: str, by: str, reason: str, tenant: str) -> dict[str, Any]:
    """The values for `REVOKE`. Raises `InvalidField`."""
    return get_values(approval, tenant) | {
        "by": check_text("by", by, MAX_NAME),
        "reason": check_text("reason", reason, MAX_REASON),
    }


def revoked(approval: str, rows: Sequence[Row]) -> tuple[str, ...]:
    """The operations already in the air under it. Raises `NotFound`; then nothing was written."""
    if any(identity is None for (identity,) in rows):
        raise NotFound(what="approval", id=approval)
    return tuple(operation_id(UUID(identity)) for (identity,) in rows)


def get_values(approval: str, tenant: str) -> dict[str, Any]:
    """The values for `GET`. Raises `InvalidField`."""
    return {"id": uuid_of(approval, prefix="apr", field="approval").hex, "tenant": check_text("tenant", tenant, MAX_TENANT)}


def record_of(approval: str, rows: Sequence[Row]) -> ApprovalRecord:
    """What `GET` answered. Raises `NotFound`."""
    if not rows:
        raise NotFound(what="approval", id=approval)
    [row] = rows
    return ApprovalRecord(approval, *map(in_utc, row))
