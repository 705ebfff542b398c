"""Bringing a database to the newest schema: on a connection of yours, or as SQL text for somebody else to run."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from alembic import command, context, op
from alembic.config import Config
from sqlalchemy import Connection

__all__ = ["HEAD", "print_sql", "upgrade"]

HEAD = "0001"
"""The newest revision. Workers and relays refuse to start on another."""


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations in the connection's transaction, for example from the host's own migration.

    The caller commits. Everything lives in the schema `acuse`, with a version table of its own (`acuse.alembic_version`).
    """
    config = _config()
    config.attributes["connection"] = connection
    with _host_migration_kept():
        command.upgrade(config, revision)


@contextmanager
def _host_migration_kept() -> Iterator[None]:
    # Alembic knows one running migration per process, in two modules. Ours may run inside one of the host's, whose next
    # statement would find nothing there.
    before = [(vars(module), dict(vars(module))) for module in (context, op)]
    try:
        yield
    finally:
        for names, kept in before:
            names.update(kept)


def print_sql(output: TextIO, revision: str = "head") -> None:
    """Write the SQL of all migrations to `output` without touching a database."""
    config = _config(output)
    config.set_main_option("sqlalchemy.url", "postgresql+psycopg://")
    command.upgrade(config, revision, sql=True)


def _config(output: TextIO | None = None) -> Config:
    config = Config(output_buffer=output, stdout=io.StringIO())
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config
