"""Whether an operation may be dispatched: `acuse.standing` and `acuse.turn` in memory."""

from datetime import datetime

from acuse.protocol import State
from acuse.testing.memory.approval import gate as approval_gate
from acuse.testing.memory.row import Operation
from acuse.testing.memory.tables import Tables

__all__ = ["standing", "turn"]


def standing(tables: Tables, one: Operation, now: datetime) -> str | None:
    """Why it may not be dispatched any more; None if it may."""
    approval = approval_gate(tables, one, now)
    if approval is not None and approval != "approval_pending":
        return approval
    if one.workflow is not None and (one.tenant, one.workflow) in tables.cancelled:
        return "workflow_cancelled"
    if one.flow_version is not None and (one.tenant, one.flow_version) in tables.withdrawn:
        return "flow_withdrawn"
    if one.not_after is not None and one.not_after <= now:
        return "expired"
    return approval  # last: what cannot be sent any more waits for nobody


def turn(tables: Tables, one: Operation) -> str | None:
    """Why it is not a prepared operation's turn; None if it is."""
    needed = [tables.operations.get(needs) for needs in one.needs]
    if any(it is None or it.tenant != one.tenant for it in needed):
        return "dependency_missing"
    states = {it.state for it in needed if it is not None}
    if State.REJECTED in states:
        return "dependency_rejected"
    if states - {State.CONFIRMED}:
        return "dependency_waiting"
    return "ordering_waiting" if any(_goes_before(it, one) for it in tables.operations.values()) else None


def _goes_before(other: Operation, one: Operation) -> bool:
    chain = (other.tenant, other.provider, other.ordering_key) == (one.tenant, one.provider, one.ordering_key)
    if one.ordering_key is None or not chain:
        return False
    return other.in_the_air or (other.state is State.PREPARED and other.seq < one.seq)
