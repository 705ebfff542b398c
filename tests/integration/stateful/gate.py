"""Every true reason why a dispatch may not go, told from what stands in the database: the same rule said a second time."""

from datetime import datetime, timedelta

from acuse.protocol import Basis
from stateful.snapshot import Operation, Snapshot

__all__ = ["reasons", "standing", "turn"]


def reasons(seen: Snapshot, one: Operation, fence: int, version: int, basis: Basis | None, deadline: timedelta) -> set[str]:
    """Return the gates that may stop this dispatch; empty if it must go."""
    if one.fence != fence:
        return {"fenced"}
    if one.status not in ("prepared", "unknown") or one.claim_until is None:
        return {"moved"}
    found = set() if one.claim_until >= seen.now + deadline else {"claim_too_short"}
    found |= _basis(seen, one, version, basis)
    if (gate := standing(seen, one)) is not None:
        found.add(gate)
    if one.status == "prepared" and (gate := turn(seen, one)) is not None:
        found.add(gate)
    if (one.provider, one.account) in seen.paused and not _over(seen.paused[one.provider, one.account], seen.now):
        found.add("account_paused")
    return found


def _basis(seen: Snapshot, one: Operation, version: int, basis: Basis | None) -> set[str]:
    if one.status == "prepared":
        return set() if basis is None else {"stale_verdict"}
    if basis is None or one.version != version or (basis is Basis.ACCEPTED_RISK and one.risk_accepted_at is None):
        return {"stale_verdict"}
    if basis is Basis.SAME_KEY and (one.retry_until is None or one.retry_until < seen.now):
        return {"window_closed"}
    return set()


def standing(seen: Snapshot, one: Operation) -> str | None:
    """Return why an operation may not be dispatched any more, or None."""
    if one.approval_id is not None:
        approval = seen.approvals.get(one.approval_id)
        if approval is None or approval.tenant != one.tenant:
            return "approval_missing"
        if (approval.action, approval.target, approval.digest) != (one.action, one.target, one.digest):
            return "approval_mismatch"
        if approval.revoked_at is not None:
            return "approval_revoked"
        if _over(approval.expires_at, seen.now):
            return "approval_expired"
        if not one.charged and approval.max_uses is not None and approval.used >= approval.max_uses:
            return "approval_used_up"
    if one.workflow_id is not None and (one.tenant, one.workflow_id) in seen.cancelled:
        return "workflow_cancelled"
    if one.flow_version is not None and (one.tenant, one.flow_version) in seen.withdrawn:
        return "flow_withdrawn"
    return "expired" if _over(one.not_after, seen.now) else None


def turn(seen: Snapshot, one: Operation) -> str | None:
    """Return why it is not a prepared operation's turn, or None."""
    needs = [seen.operations.get(need) for need in seen.needs.get(one.id, [])]
    if any(need is None or need.tenant != one.tenant for need in needs):
        return "dependency_missing"
    states = {need.status for need in needs if need is not None}
    if "rejected" in states:
        return "dependency_rejected"
    if states - {"confirmed"}:
        return "dependency_waiting"
    chain = [other for other in seen.pending if one.chain is not None and other.chain == one.chain and other.id != one.id]
    if any(other.in_the_air or other.seq < one.seq for other in chain):
        return "ordering_waiting"
    return None


def _over(until: datetime | None, now: datetime) -> bool:
    return until is not None and until <= now
