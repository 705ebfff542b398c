"""The database of a sub-command for people: an argument, and an engine that was looked at before it is used."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from acuse.errors import ConfigurationError
from acuse.store.engine import sync_engine
from acuse.store.handshake import check_schema

__all__ = ["add_database", "database"]


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add the argument that says which database."""
    parser.add_argument("--database-url", default=os.environ.get("ACUSE_DATABASE_URL"), help="default: ACUSE_DATABASE_URL")


@contextmanager
def database(arguments: argparse.Namespace, name: str) -> Iterator[Engine]:
    """Yield an engine on the database of the arguments, which has the schema that this version knows.

    Raises `ConfigurationError` where none is named or it does not answer, `SchemaMismatch` for another schema.
    """
    if not arguments.database_url:
        raise ConfigurationError("say which database: set ACUSE_DATABASE_URL or give --database-url")
    engine = sync_engine(arguments.database_url, pool_size=1, name=name)
    try:
        with engine.connect() as connection:
            check_schema(connection)
        yield engine
    except OperationalError as error:
        # A driver's text names host and port, never the password.
        raise ConfigurationError(f"the database does not answer: {str(error.orig).strip().splitlines()[0]}") from None
    finally:
        engine.dispose()
