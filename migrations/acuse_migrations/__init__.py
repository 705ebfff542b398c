"""The schema of Acuse as Alembic migrations, shipped in the wheel: callable on a connection, or printable as SQL."""

from acuse_migrations.upgrade import HEAD, print_sql, upgrade

__all__ = ["HEAD", "print_sql", "upgrade"]
