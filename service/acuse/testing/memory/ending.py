"""What the end of an operation, or a doubt about it, sets going: who is woken, what the host is told, which incident opens."""

from collections.abc import Mapping
from typing import Any

from acuse.identifier import operation_id
from acuse.protocol import State
from acuse.testing.memory.row import Operation
from acuse.testing.memory.tables import Tables
from acuse.testing.message import HostMessage, Incident

__all__ = ["finished", "open_incident", "tell_host", "wake_next"]


def finished(tables: Tables, one: Operation) -> None:
    """Wake what waits for it, and tell the host."""
    wake_next(tables, one)
    tell_host(tables, one)


def wake_next(tables: Tables, one: Operation) -> None:
    """Wake its dependants, and the next of its chain."""
    prepared = [it for it in tables.operations.values() if it.state is State.PREPARED]
    tables.want(it.id for it in prepared if one.id in it.needs and it.held is None)
    if one.ordering_key is not None:
        chain = (one.tenant, one.provider, one.ordering_key)
        tables.want([it.id for it in prepared if (it.tenant, it.provider, it.ordering_key) == chain][:1])


def tell_host(tables: Tables, one: Operation) -> None:
    """Send the message that `on_settled` asked for."""
    if one.on_settled is None:
        return
    queue, _, actor = one.on_settled.partition("/")
    kwargs = {
        "operation_id": operation_id(one.id),
        "state": one.state.value,
        "outcome_code": one.outcome_code,
        "tenant": one.tenant,
        "workflow": one.workflow,
        "call": one.call,
        "action": one.action,
        "target": one.target,
        "result_id": one.result_id,
        "result_version": one.result_version,
        "version": one.version,
    }
    message_id = f"{operation_id(one.id)}-{one.version}"
    tables.tell(HostMessage(queue, actor, (), kwargs, message_id, told=True, available_at=tables.now))


def open_incident(tables: Tables, one: Operation, kind: str, detail: Mapping[str, Any]) -> None:
    """Open an incident, once per operation and kind."""
    name = operation_id(one.id)
    if not any((it.operation_id, it.kind) == (name, kind) for it in tables.incidents):
        tables.incidents.append(Incident(name, kind, dict(detail)))
