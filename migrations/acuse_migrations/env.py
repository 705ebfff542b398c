"""Alembic's environment: schema `acuse`, own version table, no metadata (the schema is written in SQL)."""

from alembic import context
from sqlalchemy import Connection

_SCHEMA = "create schema if not exists acuse"


def _offline() -> None:
    context.configure(
        url=context.config.get_main_option("sqlalchemy.url"),
        version_table_schema="acuse",
        literal_binds=True,
        dialect_opts={"paramstyle": "named"},  # else each % of a function body is printed twice
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.execute(_SCHEMA)
        context.run_migrations()


def _online(connection: Connection) -> None:
    connection.exec_driver_sql(_SCHEMA)
    context.configure(connection=connection, version_table_schema="acuse")
    # The caller owns the transaction: a host runs this inside its own migration.
    context.run_migrations()


if context.is_offline_mode():
    _offline()
else:
    _online(context.config.attributes["connection"])
