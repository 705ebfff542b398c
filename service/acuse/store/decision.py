"""A person's answer to a request for approval, and taking an approval back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from acuse.errors import ApprovalError, NotFound
from acuse.identifier import approval_id, operation_id
from acuse.intent import check_text
from acuse.store.approval import ApprovalState, get_values
from acuse.store.caller import Row
from acuse.store.cancel import MAX_NAME, MAX_REASON
from acuse.store.moment import in_utc
from acuse.store.statement import Statement

__all__ = ["DECIDE", "REVOKE", "Decision", "decide_values", "decision_of", "revoke_values", "revoked"]

DECIDE: Final = Statement(
    """
    select won, state, by, at, cast(followed_by as text)
      from acuse.decide_approval(:tenant, cast(cast(:id as text) as uuid), cast(:approve as boolean), :by, cast(:reason as text),
                                 make_interval(secs => cast(:expires_in as double precision)))
    """
)
REVOKE: Final = Statement(
    "select cast(r as text) from acuse.revoke_approval(:tenant, cast(cast(:id as text) as uuid), :by, :reason) r"
)


@dataclass(frozen=True, slots=True)
class Decision:
    """How an approval was decided: `granted` or `denied`, by whom and when.

    won: by this call; else by an earlier one, and this call changed nothing.
    """

    approval_id: str
    state: ApprovalState
    decided_by: str
    decided_at: datetime
    won: bool

    @property
    def approved(self) -> bool:
        """Whether it was granted, whoever did it."""
        return self.state is ApprovalState.GRANTED


def decide_values(
    approval: str, *, approve: bool, by: str, reason: str | None, expires_in: timedelta | None, tenant: str
) -> dict[str, Any]:
    """The values for `DECIDE`. Raises `InvalidField`, and `ApprovalError` for a time that makes no sense."""
    if expires_in is not None and (not approve or expires_in <= timedelta(0)):
        raise ApprovalError(reason="expires_in is how long a grant lasts from now: above zero, and only with approve")
    return get_values(approval, tenant) | {
        "approve": approve,
        "by": check_text("by", by, MAX_NAME),
        "reason": None if reason is None else check_text("reason", reason, MAX_REASON),
        "expires_in": None if expires_in is None else expires_in.total_seconds(),
    }


def decision_of(approval: str, rows: Sequence[Row]) -> Decision:
    """What `DECIDE` answered. Raises `NotFound`, and `ApprovalError` for what can be decided no more: nothing was written."""
    if not rows:
        raise NotFound(what="approval", id=approval)
    [[won, state, by, at, followed_by]] = rows
    found, at = ApprovalState(state), in_utc(at)
    if found in (ApprovalState.GRANTED, ApprovalState.DENIED):
        return Decision(approval, found, by, at, won)
    when = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    newer = "" if followed_by is None else f" by {approval_id(UUID(followed_by))}"
    expired = "it expired at" if by is None else f"{by} granted it, and it expired at"
    reasons = {
        ApprovalState.EXPIRED: f"{expired} {when}, before this decision; nothing is sent under it, ask for a new one",
        ApprovalState.SUPERSEDED: f"it was superseded at {when}{newer}: what it asked for has changed; decide that one",
        ApprovalState.REVOKED: f"it was revoked at {when} by {by}; nothing is sent under it",
    }
    raise ApprovalError(reason=reasons[found], approval_id=approval, state=found.value)


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
