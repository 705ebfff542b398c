"""Granting without a request: for exactly one effect, or for a pattern of targets with limits."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from acuse.errors import ApprovalError, InvalidField
from acuse.identifier import approval_id
from acuse.intent import (
    MAX_ACTION,
    MAX_TARGET,
    MAX_TENANT,
    Action,
    ActionCatalog,
    Effect,
    check_moment,
    check_target,
    check_text,
    digest,
)
from acuse.store.caller import Row
from acuse.store.cancel import MAX_NAME, MAX_REASON
from acuse.store.statement import Statement

__all__ = ["GRANT", "GRANT_PATTERN", "action_of", "grant_values", "granted", "limits", "pattern_values"]

_UNTIL: Final = """
             coalesce(cast(:expires_at as timestamptz), clock_timestamp() +
                      make_interval(secs => cast(:expires_in as double precision))),
             cast(:max_uses as integer)
"""
GRANT: Final = Statement(f"select cast(acuse.grant_approval(:tenant, :action, :target, :digest, :by, :reason, {_UNTIL}) as text)")
GRANT_PATTERN: Final = Statement(
    f"select cast(acuse.grant_pattern(:tenant, :action, :target, :prefix, :by, :reason, {_UNTIL}, "
    "cast(:sum_field as text), cast(cast(:max_sum as text) as numeric)) as text)"
)

_MOST_USES: Final = 2**31 - 1  # the column is an integer
_MAX_FIELD: Final = 100


def limits(*, expires_at: datetime | None, expires_in: timedelta | None, max_uses: int | None) -> dict[str, Any]:
    """The limits as values of a statement. Raises `InvalidField`, and `ApprovalError` for those that make no sense."""
    if expires_at is not None and expires_in is not None:
        raise ApprovalError(reason="give expires_at or expires_in, not both")
    if expires_in is not None and expires_in <= timedelta(0):
        raise ApprovalError(reason="expires_in must be above zero")
    if max_uses is not None and not 1 <= max_uses <= _MOST_USES:
        raise ApprovalError(reason="max_uses must be 1 or more; leave it out for no limit")
    return {
        "expires_at": None if expires_at is None else check_moment("expires_at", expires_at),
        "expires_in": None if expires_in is None else expires_in.total_seconds(),
        "max_uses": max_uses,
    }


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
    return {
        "action": effect.action,
        "target": effect.target,
        "digest": digest(effect.body()),
        **limits(expires_at=expires_at, expires_in=expires_in, max_uses=max_uses),
        **_who(by, reason, tenant),
    }


def action_of(said: type[Action] | str, catalog: ActionCatalog | None) -> str:
    """The name of an action that a pattern is for. Raises `UnknownAction` if there is a catalog, and `InvalidField`."""
    name = check_text("action", said, MAX_ACTION) if isinstance(said, str) else said.declared.name
    if catalog is not None:
        catalog.get(name)
    return name


def pattern_values(
    action: str,
    *,
    target: str | None,
    target_prefix: str | None,
    by: str,
    expires_at: datetime | None,
    expires_in: timedelta | None,
    max_uses: int | None,
    max_sum: tuple[str, Decimal | int] | None,
    reason: str | None,
    tenant: str,
) -> dict[str, Any]:
    """The values for `GRANT_PATTERN`. Raises `IntakeError`, and `ApprovalError` for limits that make no sense, or for none."""
    if target is not None and target_prefix is not None:
        raise ApprovalError(reason="give target or target_prefix, not both; leave both out for every target")
    if all(limit is None for limit in (expires_at, expires_in, max_uses, max_sum)):
        raise ApprovalError(reason="a pattern needs a limit: expires_in (or expires_at), max_uses or max_sum")
    field, most = (None, None) if max_sum is None else _sum(*max_sum)
    return {
        "action": action,
        "target": None if target is None else check_target(target),
        "prefix": None if target_prefix is None else check_text("target_prefix", target_prefix, MAX_TARGET),
        "sum_field": field,
        "max_sum": most,
        **limits(expires_at=expires_at, expires_in=expires_in, max_uses=max_uses),
        **_who(by, reason, tenant),
    }


def granted(rows: Sequence[Row]) -> str:
    """The id, `apr_…`."""
    [[identity]] = rows
    return approval_id(UUID(identity))


def _sum(field: str, most: Decimal | int) -> tuple[str, str]:
    check_text("max_sum", field, _MAX_FIELD)
    if isinstance(most, float) or not Decimal(most).is_finite() or most <= 0:
        raise InvalidField(field="max_sum", reason="must be a field of the payload and a Decimal or int above zero")
    return field, f"{Decimal(most):f}"


def _who(by: str, reason: str | None, tenant: str) -> dict[str, Any]:
    return {
        "by": check_text("by", by, MAX_NAME),
        "reason": None if reason is None else check_text("reason", reason, MAX_REASON),
        "tenant": check_text("tenant", tenant, MAX_TENANT),
    }
