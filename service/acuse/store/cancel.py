"""Cancelling, in the caller's own transaction: an operation, a workflow, a version of a flow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from acuse.errors import NotFound
from acuse.identifier import operation_id, uuid_of
from acuse.intent import MAX_FLOW_VERSION, MAX_TENANT, MAX_WORKFLOW, check_text
from acuse.protocol import State
from acuse.store.caller import Row
from acuse.store.statement import Statement

__all__ = [
    "CANCEL",
    "CANCEL_WORKFLOW",
    "MAX_NAME",
    "MAX_REASON",
    "WITHDRAW",
    "Cancellation",
    "cancel_values",
    "cancellation_of",
    "in_the_air",
    "withdraw_values",
    "workflow_values",
]

CANCEL: Final = Statement("select acuse.cancel(:tenant, cast(cast(:id as text) as uuid), :by, :reason)")
CANCEL_WORKFLOW: Final = Statement("select cast(c as text) from acuse.cancel_workflow(:tenant, :workflow, :by, :reason) c")
WITHDRAW: Final = Statement("select cast(w as text) from acuse.withdraw_flow_version(:tenant, :flow_version, :by, :reason) w")

MAX_NAME: Final = 200  # of a person or a service
MAX_REASON: Final = 2000


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What became of a wish to cancel. Not `cancelled`: `state` says why; `in_the_air`: it may still take effect."""

    operation_id: str
    cancelled: bool
    state: State

    @property
    def in_the_air(self) -> bool:
        """Whether a request may be on the wire, or may have taken effect already."""
        return self.state in (State.DISPATCHING, State.UNKNOWN)


def cancel_values(operation: str, by: str, reason: str, tenant: str) -> dict[str, Any]:
    """The values for `CANCEL`. Raises `InvalidField`."""
    return {"id": uuid_of(operation, prefix="op", field="operation_id").hex} | _who(by, reason, tenant)


def cancellation_of(operation: str, rows: Sequence[Row]) -> Cancellation:
    """What `CANCEL` answered. Raises `NotFound`; then nothing was written."""
    [[answer]] = rows
    if answer is None:
        raise NotFound(what="operation", id=operation)
    cancelled = answer == "cancelled"
    return Cancellation(operation, cancelled, State.REJECTED if cancelled else State(answer))


def workflow_values(workflow: str, by: str, reason: str, tenant: str) -> dict[str, Any]:
    """The values for `CANCEL_WORKFLOW`. Raises `InvalidField`."""
    return {"workflow": check_text("workflow", workflow, MAX_WORKFLOW)} | _who(by, reason, tenant)


def withdraw_values(flow_version: str, by: str, reason: str, tenant: str) -> dict[str, Any]:
    """The values for `WITHDRAW`. Raises `InvalidField`."""
    return {"flow_version": check_text("flow_version", flow_version, MAX_FLOW_VERSION)} | _who(by, reason, tenant)


def in_the_air(rows: Sequence[Row]) -> tuple[str, ...]:
    """The operations that were sent already and may still take effect, in the order of their staging."""
    return tuple(operation_id(UUID(identity)) for (identity,) in rows)


def _who(by: str, reason: str, tenant: str) -> dict[str, Any]:
    return {
        "by": check_text("by", by, MAX_NAME),
        "reason": check_text("reason", reason, MAX_REASON),
        "tenant": check_text("tenant", tenant, MAX_TENANT),
    }
