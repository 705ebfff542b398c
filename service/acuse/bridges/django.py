"""Django: staging on its connection, inside `transaction.atomic()`. Needs neither its admin nor an app of ours."""

import psycopg
from django.db import connections

from acuse.bridges.bound import Bound
from acuse.errors import ConfigurationError
from acuse.outbox import Outbox

__all__ = ["Bound", "bound"]


def bound(outbox: Outbox, using: str = "default", *, tenant: str | None = None) -> Bound:
    """Return the outbox on Django's own connection, in the `atomic` block that is open there.

    using: an alias of `DATABASES`. A savepoint that is rolled back takes with it what was staged inside. Call it in the block,
    since the connection belongs to the thread. Raises `ConfigurationError` outside of a block, for another database, and for
    another driver.
    """
    connection = connections[using]
    if connection.vendor != "postgresql":
        raise ConfigurationError(f"DATABASES[{using!r}] is {connection.vendor}: Acuse needs the PostgreSQL that holds its ledger")
    if not connection.in_atomic_block:
        raise ConfigurationError(f"nothing would be in one transaction with your change: use transaction.atomic(using={using!r})")
    connection.ensure_connection()
    raw = connection.connection
    if not isinstance(raw, psycopg.Connection):
        raise ConfigurationError(
            f"DATABASES[{using!r}] is driven by {type(raw).__module__}: install psycopg 3, which Django prefers"
        )
    return Bound(outbox, raw, tenant)
