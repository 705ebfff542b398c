"""`acuse migrate`: brings a database to the newest schema, or prints the SQL for somebody else to run."""

import argparse
import os
import sys

from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from acuse_migrations.upgrade import HEAD, print_sql, upgrade

__all__ = ["MigrateCommand", "migrate"]


class MigrateCommand:
    """The sub-command `migrate`."""

    name = "migrate"
    help = "bring the database to the newest schema (schema acuse, own version table), or print the SQL"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--sql", action="store_true", help="print the SQL and touch no database")
        parser.add_argument("--database-url", default=os.environ.get("ACUSE_DATABASE_URL"), help="default: ACUSE_DATABASE_URL")

    def run(self, arguments: argparse.Namespace) -> int:
        """Migrate in one transaction."""
        if arguments.sql:
            print_sql(sys.stdout)
            return 0
        if not arguments.database_url:
            print("acuse migrate: say which database: set ACUSE_DATABASE_URL or give --database-url", file=sys.stderr)
            return 2
        try:
            given = make_url(arguments.database_url)
            if given.get_backend_name() != "postgresql":
                print(
                    f"acuse migrate: the URL names {given.get_backend_name()}: PostgreSQL 15 or newer is needed", file=sys.stderr
                )
                return 2
            url = given.set(drivername="postgresql+psycopg")
            with create_engine(url, poolclass=NullPool).begin() as connection:
                upgrade(connection)
        except ArgumentError:
            print("acuse migrate: the URL is none: postgresql+psycopg://user:password@host:port/database", file=sys.stderr)
            return 2
        except OperationalError as error:
            print(f"acuse migrate: the database does not answer: {error.orig}", file=sys.stderr)
            return 1
        except DBAPIError as error:
            print(f"acuse migrate: the database refuses, and nothing was changed: {error.orig}", file=sys.stderr)
            return 1
        print(f"schema acuse is at {HEAD}", file=sys.stderr)
        return 0


migrate = MigrateCommand()
