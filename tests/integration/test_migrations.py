"""The schema comes with the wheel: on a connection of the host's own migration, or as SQL that somebody else runs."""

import io
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from drivers import libpq
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.pool import NullPool

import acuse_migrations
from acuse import SchemaMismatch
from acuse.store.handshake import SCHEMA, check_schema
from acuse_migrations import HEAD, print_sql, upgrade

# Everything that the migrations make, by its definition.
_SCHEMA = text(
    """
    select 'column', table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || coalesce(column_default, '')
      from information_schema.columns where table_schema = 'acuse'
    union all select 'index', indexdef from pg_indexes where schemaname = 'acuse'
    union all select 'constraint', conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
      from pg_constraint where connamespace = 'acuse'::regnamespace
    union all select 'trigger', pg_get_triggerdef(oid) from pg_trigger
      where not tgisinternal and tgrelid::regclass::text like 'acuse.%'
    union all select 'function', pg_get_functiondef(oid) from pg_proc where pronamespace = 'acuse'::regnamespace
    union all select 'partition', inhrelid::regclass || ' ' || inhparent::regclass from pg_inherits
    union all select 'option', relname || array_to_string(reloptions, ',') from pg_class
      where relnamespace = 'acuse'::regnamespace and reloptions is not null
    """
)


def schema_of(connection: Connection) -> set[tuple[str, str]]:
    return {(kind, definition) for kind, definition in connection.execute(_SCHEMA)}


def has_schema(engine: Engine) -> bool:
    with engine.connect() as connection:
        return bool(connection.execute(text("select count(*) from pg_namespace where nspname = 'acuse'")).scalar_one())


@pytest.fixture
def empty(empty_database_url: str) -> Engine:
    return create_engine(empty_database_url, poolclass=NullPool)


def test_upgrading_is_a_part_of_the_caller_s_transaction(empty: Engine) -> None:
    with empty.connect() as connection:
        connection.execute(text("create table host_table (id int)"))
        upgrade(connection)
        connection.rollback()
    assert not has_schema(empty)
    with empty.begin() as connection:
        connection.execute(text("create table host_table (id int)"))
        upgrade(connection)
    with empty.begin() as connection:
        assert len(check_schema(connection)) == 32
        before = schema_of(connection)
        # and once more changes nothing
        upgrade(connection)
        assert schema_of(connection) == before
        assert len(before) > 300


def test_the_printed_sql_makes_the_same_schema(empty: Engine, empty_database_url: str, engine: Engine) -> None:
    printed = io.StringIO()
    print_sql(printed)
    with psycopg.connect(libpq(empty_database_url), autocommit=True) as connection:
        connection.execute(printed.getvalue().encode())
    with empty.connect() as made, engine.connect() as upgraded:
        assert schema_of(made) == schema_of(upgraded)
        assert check_schema(made) != check_schema(upgraded)


@pytest.mark.skipif(shutil.which("psql") is None, reason="no psql here; the printed SQL is run by psycopg as well")
def test_the_printed_sql_is_readable_by_psql(empty: Engine, empty_database_url: str, tmp_path: Path, engine: Engine) -> None:
    file = tmp_path / "acuse.sql"
    with file.open("w", encoding="utf-8") as output:
        print_sql(output)
    arguments = ["psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", str(file), libpq(empty_database_url)]
    subprocess.run(arguments, check=True, capture_output=True)
    with empty.connect() as made, engine.connect() as upgraded:
        assert schema_of(made) == schema_of(upgraded)


_ENVIRONMENT = """
from alembic import context
context.configure(connection=context.config.attributes["connection"], target_metadata=None)
context.run_migrations()
"""
_REVISION = """
revision, down_revision = "host_1", None
from alembic import op
from acuse_migrations import upgrade as upgrade_acuse


def upgrade():
    op.execute("create table before_acuse (id int)")
    upgrade_acuse(op.get_bind())
    op.execute("create table after_acuse (id int)")
"""


def test_a_host_calls_it_from_a_migration_of_its_own(empty: Engine, tmp_path: Path) -> None:
    # Given a host with an Alembic environment and a version table of its own
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text(_ENVIRONMENT)
    (tmp_path / "versions" / "host_1.py").write_text(_REVISION)
    config = Config()
    config.set_main_option("script_location", str(tmp_path))
    with empty.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    with empty.connect() as connection:
        assert check_schema(connection)
        assert connection.execute(text("select version_num from public.alembic_version")).scalars().all() == ["host_1"]
        assert connection.execute(text("select version_num from acuse.alembic_version")).scalars().all() == [HEAD]
        assert connection.execute(
            text("select to_regclass('before_acuse') is not null and to_regclass('after_acuse') is not null")
        ).scalar_one()


def test_this_code_and_the_migrations_mean_the_same_schema() -> None:
    scripts = ScriptDirectory(str(Path(acuse_migrations.__file__).parent))
    assert scripts.get_heads() == [HEAD]
    assert HEAD == SCHEMA


def test_another_schema_is_named_at_start_up(empty: Engine, engine: Engine) -> None:
    with empty.connect() as connection:
        with pytest.raises(SchemaMismatch, match="has no acuse schema") as none:
            check_schema(connection)
        assert (none.value.found, none.value.wanted) == (None, SCHEMA)
    with engine.connect() as connection:
        assert check_schema(connection) == check_schema(connection)
        connection.execute(text("update acuse.alembic_version set version_num = '9999'"))
        with pytest.raises(SchemaMismatch, match="is at version 9999") as other:
            check_schema(connection)
        assert other.value.found == "9999"
