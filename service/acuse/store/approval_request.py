"""Asking for an approval of exactly one intent, in the caller's transaction."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from acuse.errors import RetryTransaction
from acuse.identifier import approval_id
from acuse.intent import ActorLike, Effect, actor_address, check_text, effect_key
from acuse.store.approval import ApprovalState
from acuse.store.caller import Row
from acuse.store.cancel import MAX_NAME, MAX_REASON
from acuse.store.grant import limits
from acuse.store.request import tenant_of
from acuse.store.statement import Statement

__all__ = ["REQUEST", "Requested", "request_values", "requested"]

REQUEST: Final = Statement(
    "select outcome, cast(id as text), state, cast(superseded as text) "
    "from acuse.request_approval(cast(cast(:request as text) as jsonb))"
)


@dataclass(frozen=True, slots=True)
class Requested:
    """The approval that stands for an intent; true once the caller's transaction is committed.

    created: this call asked for it; else it was asked for before, and `state` is what became of it. superseded: the draft whose
    place this one took.
    """

    approval_id: str
    created: bool
    state: ApprovalState
    superseded: str | None = None


def request_values(
    effect: Effect,
    *,
    tenant: str,
    workflow: str | None,
    call: str | None,
    given: str | None,
    by: str | None,
    reason: str | None,
    expires_at: datetime | None,
    expires_in: timedelta | None,
    max_uses: int | None,
    callback: ActorLike | str | None,
    anew: bool,
) -> dict[str, Any]:
    """The values for `REQUEST`. Raises `IntakeError`, and `ApprovalError` for limits that make no sense."""
    bounds = limits(expires_at=expires_at, expires_in=expires_in, max_uses=max_uses)
    whole = {
        "tenant": tenant_of(tenant),
        "action": effect.action,
        "target": effect.target,
        "body": effect.body().decode(),
        "effect_key": effect_key(effect, workflow=workflow, call=call, given=given),
        "workflow": workflow,
        "call": call,
        "by": None if by is None else check_text("by", by, MAX_NAME),
        "reason": None if reason is None else check_text("reason", reason, MAX_REASON),
        "callback": None if callback is None else actor_address(callback, field="callback"),
        "anew": anew,
        **bounds,
        "expires_at": None if expires_at is None else expires_at.isoformat(),
    }
    # In ASCII, as for staging: the encoding of the host's connection does not matter.
    return {"request": json.dumps({name: value for name, value in whole.items() if value is not None})}


def requested(rows: Sequence[Row]) -> Requested:
    """What `REQUEST` answered. Raises `RetryTransaction`; then nothing was written."""
    [[outcome, identity, state, superseded]] = rows
    if outcome == "retry_transaction":
        raise RetryTransaction(sqlstate="40001")
    return Requested(
        approval_id(UUID(identity)),
        outcome == "created",
        ApprovalState(state),
        None if superseded is None else approval_id(UUID(superseded)),
    )
