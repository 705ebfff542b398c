"""Cancelling in memory: an operation, a workflow, a version of a flow."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from acuse.protocol import State
from acuse.store.caller import Row
from acuse.testing.memory.ending import finished
from acuse.testing.memory.row import Operation
from acuse.testing.memory.tables import Tables

__all__ = ["cancel", "cancel_workflow", "withdraw"]

_Values = Mapping[str, Any]


def cancel(tables: Tables, values: _Values) -> list[Row]:
    """Cancel a prepared operation; else its state, or nothing if there is none."""
    one = tables.operations.get(UUID(values["id"]))
    if one is None or one.tenant != values["tenant"]:
        return [(None,)]
    if one.state is not State.PREPARED:
        return [(one.state.value,)]
    tables.keep(one)
    where = dict.fromkeys(("handed_at", "claim_until", "due_at", "waiting", "held"))
    ended = {"state": State.REJECTED, "outcome_code": "cancelled", "reason": values["reason"], "settled_at": tables.now}
    one.change(tables.now, **ended, **where)
    one.note("cancelled", State.PREPARED, "host", actor=values["by"], reason=values["reason"], outcome_code="cancelled")
    finished(tables, one)
    return [("cancelled",)]


def cancel_workflow(tables: Tables, values: _Values) -> list[Row]:
    """Cancel a workflow; its operations already in the air."""
    key = (values["tenant"], values["workflow"])
    if key not in tables.cancelled:
        tables.put(tables.cancelled, key, tables.now)
    its = [one for one in tables.of_tenant(values["tenant"]) if one.workflow == values["workflow"]]
    tables.want(one.id for one in its if one.state is State.PREPARED)
    return _in_the_air(its)


def withdraw(tables: Tables, values: _Values) -> list[Row]:
    """Withdraw a version of a flow; its operations already in the air."""
    key = (values["tenant"], values["flow_version"])
    if key not in tables.withdrawn:
        tables.put(tables.withdrawn, key, tables.now)
    return _in_the_air(one for one in tables.of_tenant(values["tenant"]) if one.flow_version == values["flow_version"])


def _in_the_air(operations: Iterable[Operation]) -> list[Row]:
    return [(str(one.id),) for one in operations if one.in_the_air]
