"""Approvals as they are read: what each allows, of whom it was asked, who decided, what it is worth now."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from acuse.errors import InvalidField, NotFound
from acuse.identifier import approval_id, uuid_of
from acuse.intent import MAX_TENANT, MAX_WORKFLOW, check_text, read_body
from acuse.store.caller import Row
from acuse.store.moment import in_utc
from acuse.store.statement import Statement

__all__ = [
    "FIND",
    "GET",
    "LARGEST_PAGE",
    "ApprovalRecord",
    "ApprovalState",
    "find_values",
    "get_values",
    "record_of",
    "records_of",
]

LARGEST_PAGE: Final = 500

_COLUMNS: Final = """
    cast(a.id as text), a.tenant, acuse.approval_state(a, clock_timestamp()), a.action, a.target, a.target_prefix,
    encode(a.digest, 'hex'), a.effect_key, a.workflow_id, a.call_id, a.requested_at, a.requested_by, a.request_reason, a.callback,
    a.decided_at, a.decided_by, a.reason, a.expires_at, a.max_uses, a.used, a.sum_field, a.max_sum, a.summed, a.revoked_at,
    a.revoked_by, a.revoke_reason, a.superseded_at, cast(a.followed_by as text), clock_timestamp()
"""
GET: Final = Statement(
    f"""
    select {_COLUMNS}, (select encode(p.body, 'hex') from acuse.payload p where p.id = a.id)
      from acuse.approval a
     where a.id = cast(cast(:id as text) as uuid) and (cast(:tenant as text) is null or a.tenant = :tenant)
    """  # noqa: S608 - constants
)
FIND: Final = Statement(
    f"""
    select {_COLUMNS}, null from acuse.approval a
     where (cast(:tenant as text) is null or a.tenant = :tenant)
       and (cast(:workflow as text) is null or a.workflow_id = :workflow)
       and (cast(:before as text) is null or a.id < cast(cast(:before as text) as uuid))
       and (cast(:pending as boolean) is not true or a.decision is null and a.revoked_at is null and a.followed_by is null)
       and (cast(:state as text) is null or acuse.approval_state(a, clock_timestamp()) = :state)
     order by a.id desc limit cast(:limit as integer)
    """  # noqa: S608 - constants
)


class ApprovalState(StrEnum):
    """What an approval is worth at a moment, on the database's clock."""

    PENDING = "pending"  # -> granted, denied, revoked (a person), superseded (a newer draft), expired (the clock)
    GRANTED = "granted"  # -> revoked, superseded (before anything was sent), expired
    DENIED = "denied"  # final, and always a person's answer
    EXPIRED = "expired"  # final: nobody answered in time, or it was granted and its time is over
    SUPERSEDED = "superseded"  # final: the intent was asked for with other content
    REVOKED = "revoked"  # final


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """An approval as it was at `read_at`.

    It is bound to `action`, `target` and `digest` (hex SHA-256 of the canonical body); digest None: a pattern, for every target,
    or for those that begin with `target_prefix`, or for the one `target`. effect_key: the intent that it was requested for.
    expires_at: until when it can be decided, and then used. max_uses: None is no limit; one operation uses it once, however often
    it is attempted. sum_field, max_sum, summed: of the payload, over the operations that used it.
    reason: of whoever decided. superseded_by: the newer request. payload: as it was asked for; None in lists, for grants that
    nobody requested, and once retention has dropped it.
    """

    approval_id: str
    tenant: str
    state: ApprovalState
    action: str
    target: str | None
    target_prefix: str | None
    digest: str | None
    effect_key: str | None
    workflow: str | None
    call: str | None
    requested_at: datetime
    requested_by: str | None
    request_reason: str | None
    callback: str | None
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None
    expires_at: datetime | None
    max_uses: int | None
    used: int
    sum_field: str | None
    max_sum: Decimal | None
    summed: Decimal
    revoked_at: datetime | None
    revoked_by: str | None
    revoke_reason: str | None
    superseded_at: datetime | None
    superseded_by: str | None
    read_at: datetime
    payload: dict[str, Any] | None

    @property
    def uses_left(self) -> int | None:
        """How many more operations it allows; None: any number."""
        return None if self.max_uses is None else self.max_uses - self.used

    @property
    def sum_left(self) -> Decimal | None:
        """How much more it allows of its field of the payload; None: any amount."""
        return None if self.max_sum is None else self.max_sum - self.summed

    @property
    def stands(self) -> bool:
        """Whether it allowed a dispatch at `read_at`."""
        return self.state is ApprovalState.GRANTED and self.uses_left != 0


_FIELDS: Final = tuple(field.name for field in fields(ApprovalRecord))  # the columns are in their order


def get_values(approval: str, tenant: str | None) -> dict[str, Any]:
    """The values for `GET`; tenant None: of any. Raises `InvalidField`."""
    return {
        "id": uuid_of(approval, prefix="apr", field="approval").hex,
        "tenant": None if tenant is None else check_text("tenant", tenant, MAX_TENANT),
    }


def find_values(
    tenant: str | None, *, state: ApprovalState | str | None, workflow: str | None, before: str | None, limit: int
) -> dict[str, Any]:
    """The values for `FIND`. Raises `InvalidField`."""
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidField(field="limit", reason=f"must be from 1 to {LARGEST_PAGE}")
    if state is not None and state not in set(ApprovalState):
        raise InvalidField(field="state", reason=f"must be one of {', '.join(ApprovalState)}")
    return {
        "tenant": None if tenant is None else check_text("tenant", tenant, MAX_TENANT),
        "state": None if state is None else str(state),
        "pending": state == ApprovalState.PENDING,  # has an index, which the state of a moment cannot have
        "workflow": None if workflow is None else check_text("workflow", workflow, MAX_WORKFLOW),
        "before": None if before is None else uuid_of(before, prefix="apr", field="before").hex,
        "limit": limit,
    }


def record_of(approval: str, rows: Sequence[Row]) -> ApprovalRecord:
    """What `GET` answered. Raises `NotFound`."""
    if not rows:
        raise NotFound(what="approval", id=approval)
    [record] = records_of(rows)
    return record


def records_of(rows: Sequence[Row]) -> tuple[ApprovalRecord, ...]:
    """What `FIND` answered, newest first."""
    return tuple(_record(row) for row in rows)


def _record(row: Row) -> ApprovalRecord:
    values = dict(zip(_FIELDS, map(in_utc, row), strict=True))
    body, newer = values["payload"], values["superseded_by"]
    values["approval_id"] = approval_id(UUID(values["approval_id"]))
    values["state"] = ApprovalState(values["state"])
    # What was followed after its end was not superseded.
    values["superseded_by"] = None if values["superseded_at"] is None else approval_id(UUID(newer))
    values["payload"] = None if body is None else read_body(bytes.fromhex(body))[2]
    return ApprovalRecord(**values)
