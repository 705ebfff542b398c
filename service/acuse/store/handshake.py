"""The handshake at start-up: the tables must be the ones that this version knows."""

from typing import Final

from sqlalchemy import Connection, text

from acuse.errors import SchemaMismatch

__all__ = ["SCHEMA", "check_schema"]

SCHEMA: Final = "0001"
"""The revision of the schema that this code was written for."""

_EXISTS = text("select to_regclass('acuse.alembic_version') is not null")
_REVISIONS = text("select version_num from acuse.alembic_version order by version_num")
_LEDGER = text("select value from acuse.meta where key = 'ledger_id'")


def check_schema(connection: Connection) -> str:
    """Return the id of this ledger, 32 hex digits; it tells its messages from those of another one in the same broker.

    Raises `SchemaMismatch` (found, wanted) when the database has no schema `acuse` or another revision of it.
    """
    found = ", ".join(connection.execute(_REVISIONS).scalars()) if connection.execute(_EXISTS).scalar_one() else ""
    if found != SCHEMA:
        raise SchemaMismatch(found=found or None, wanted=SCHEMA)
    return str(connection.execute(_LEDGER).scalar_one())
