"""Which operations wait behind another: those that need it, and those of its ordering key that were staged later."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from acuse.identifier import operation_id, uuid_of

__all__ = ["Waiting", "waiting_behind"]

_BEHIND: Final = text(
    """
    select n.id, n.action, n.target from acuse.dependency d join acuse.operation n on n.id = d.operation_id
     where d.needs = :id and n.status = 'prepared'
    union
    select n.id, n.action, n.target from acuse.operation o
      join acuse.operation n on (n.tenant, n.provider, n.ordering_key) = (o.tenant, o.provider, o.ordering_key)
     where o.id = :id and o.ordering_key is not null and n.ordering_key is not null and n.status = 'prepared' and n.seq > o.seq
     order by id limit :limit
    """
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An operation that waits."""

    operation_id: str
    action: str
    target: str


def waiting_behind(connection: Connection, operation: str, limit: int = 20) -> tuple[Waiting, ...]:
    """Return at most `limit` prepared operations that wait behind `operation`."""
    rows = connection.execute(_BEHIND, {"id": uuid_of(operation, prefix="op", field="operation_id"), "limit": limit})
    return tuple(Waiting(operation_id(row.id), row.action, row.target) for row in rows)
