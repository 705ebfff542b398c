"""Incidents: findings that contradict what is settled. They are opened where evidence is written; people read and close them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from acuse.errors import InvalidField, NotFound
from acuse.identifier import operation_id
from acuse.intent import check_text
from acuse.store.cancel import MAX_NAME, MAX_REASON
from acuse.store.moment import in_utc

__all__ = ["IncidentRecord", "close_incident", "incidents"]

_LIST: Final = text(
    """
    select i.id, i.operation_id, i.kind, i.detail, i.opened_at, i.closed_at, i.closed_by, i.close_reason, o.action, o.target
      from acuse.incident i left join acuse.operation o on o.id = i.operation_id
     where i.closed_at is null or :closed
     order by i.opened_at desc, i.id limit :limit
    """
)
# Closed once: a second person who was slower changes nothing, and is told so.
_CLOSE: Final = text(
    """
    update acuse.incident set closed_at = clock_timestamp(), closed_by = :by, close_reason = :reason
     where id = :id and closed_at is null
    """
)
_CLOSED_BY: Final = text("select closed_by from acuse.incident where id = :id")


@dataclass(frozen=True, slots=True)
class IncidentRecord:
    """An incident; id is a UUID as text. closed_at, closed_by, close_reason: None while it is open.

    action, target: of the operation; None if that is past its retention.
    """

    id: str
    operation_id: str
    kind: str
    detail: Mapping[str, Any]
    opened_at: datetime
    closed_at: datetime | None
    closed_by: str | None
    close_reason: str | None
    action: str | None
    target: str | None


def incidents(connection: Connection, *, closed: bool = False, limit: int = 200) -> tuple[IncidentRecord, ...]:
    """Return the open incidents, newest first; with `closed` those that were closed, too."""
    rows = connection.execute(_LIST, {"closed": closed, "limit": limit})
    return tuple(IncidentRecord(str(row[0]), operation_id(row[1]), *map(in_utc, row[2:])) for row in rows)


def close_incident(connection: Connection, incident: str, *, by: str, reason: str) -> None:
    """Close an open incident. It stays on record. The caller commits.

    Raises `NotFound`, and `InvalidField` for what is no id, for a name or a reason that is missing, and for an incident that
    somebody closed already; nothing was written then.
    """
    try:
        identity = UUID(incident)
    except ValueError:
        raise InvalidField(field="incident", reason="is no id of an incident; copy it from the list") from None
    values = {"id": identity, "by": check_text("by", by, MAX_NAME), "reason": check_text("reason", reason, MAX_REASON)}
    if connection.execute(_CLOSE, values).rowcount:
        return
    row = connection.execute(_CLOSED_BY, {"id": identity}).one_or_none()
    if row is None:
        raise NotFound(what="incident", id=incident)
    raise InvalidField(field="incident", reason=f"was closed already, by {row.closed_by}")
