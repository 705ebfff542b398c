"""Real servers for the rings beyond `unit`: those that the environment names, else the embedded pair.

Each run makes a database and a key prefix of its own and removes them. With ACUSE_TEST_PGBOUNCER=1 the databases of the tests
are reached through a pgbouncer in transaction mode, and tests that say by the marker `session` why they cannot
are skipped.
"""

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import NullPool

from acuse.store.engine import async_engine as make_async_engine
from acuse.store.engine import sync_engine as make_sync_engine
from pooler import WANTED, Pooler, pooler

RING_OF = {"unit": "unit", "integration": "integration", "faults": "faults", "acceptance": "acceptance", "packaging": "packaging"}


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URLs of a PostgreSQL (any database of it) and a Redis that this run may use."""
    database, redis = os.environ.get("ACUSE_TEST_DATABASE_URL"), os.environ.get("ACUSE_TEST_REDIS_URL")
    if database and redis:
        yield database, redis
        return
    from acuse.embedded import EmbeddedPair

    folder: Path = tmp_path_factory.mktemp("pair")
    with EmbeddedPair(folder=folder, durable=False) as pair:
        yield database or pair.database_url, redis or pair.redis_url


def _admin(server_url: str) -> Engine:
    return create_engine(
        make_url(server_url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT", poolclass=NullPool
    )


def _create_database(server_url: str, template_url: str | None = None) -> str:
    """An empty database, or a copy of one that nobody is connected to."""
    name = f"acuse_test_{uuid.uuid4().hex[:12]}"
    template = "template1" if template_url is None else make_url(template_url).database
    with _admin(server_url).connect() as connection:
        connection.execute(text(f"create database {name} template {template}"))
    return make_url(server_url).set(drivername="postgresql+psycopg", database=name).render_as_string(hide_password=False)


def _run_on(url: str, step: Callable[[Connection], object]) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        step(connection)
    engine.dispose()


def _new_identity(connection: Connection) -> None:
    # A copy is another ledger: messages of the original are not its own.
    connection.execute(text("update acuse.meta set value = replace(gen_random_uuid()::text, '-', '') where key = 'ledger_id'"))


def _drop_database(server_url: str, url: str) -> None:
    with _admin(server_url).connect() as connection:
        connection.execute(text(f"drop database if exists {make_url(url).database} with (force)"))


@pytest.fixture(scope="session")
def template_database_url(servers: tuple[str, str]) -> Iterator[str]:
    """A database with the schema that is only ever copied; migrating takes a second, copying a tenth of it."""
    from acuse_migrations import upgrade

    url = _create_database(servers[0])
    _run_on(url, upgrade)
    yield url
    _drop_database(servers[0], url)


@pytest.fixture(scope="session")
def run_pooler(servers: tuple[str, str]) -> Iterator[Pooler | None]:
    """The pooler of this run, if it has one."""
    if not WANTED:
        yield None
        return
    with pooler(servers[0]) as made:
        yield made


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Behind a pooler, run what goes through it; what needs a session of the database is skipped and says why."""
    if not WANTED:
        return
    through = [item for item in items if "run_pooler" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in through])
    items[:] = through
    for item in items:
        marker = item.get_closest_marker("session")
        if marker is not None:
            item.add_marker(pytest.mark.skip(reason=f"needs a session: {marker.args[0]}"))


@pytest.fixture(scope="session")
def database_url(servers: tuple[str, str], template_database_url: str, run_pooler: Pooler | None) -> Iterator[str]:
    """A database of this run, with the schema."""
    url = _create_database(servers[0], template_database_url)
    _run_on(url, _new_identity)
    yield run_pooler.of(url) if run_pooler else url
    _drop_database(servers[0], url)


@pytest.fixture
def fresh_database_url(servers: tuple[str, str], template_database_url: str, run_pooler: Pooler | None) -> Iterator[str]:
    """A database of this test alone, with the schema."""
    url = _create_database(servers[0], template_database_url)
    _run_on(url, _new_identity)
    yield run_pooler.of(url) if run_pooler else url
    _drop_database(servers[0], url)


@pytest.fixture
def empty_database_url(servers: tuple[str, str]) -> Iterator[str]:
    """A database of this test alone, without the schema."""
    url = _create_database(servers[0])
    yield url
    _drop_database(servers[0], url)


@pytest.fixture(scope="session")
def redis_url(servers: tuple[str, str]) -> str:
    """A Redis that this run may use under its own prefixes."""
    return servers[1]


@pytest.fixture
def namespace(redis_url: str) -> Iterator[str]:
    """A Dramatiq key prefix of this test alone; its keys are removed afterwards."""
    import redis

    prefix = f"acuse-test-{uuid.uuid4().hex[:12]}"
    yield prefix
    with redis.Redis.from_url(redis_url) as client:
        keys = list(client.scan_iter(f"{prefix}*"))
        if keys:
            client.delete(*keys)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A sync engine on the run's database."""
    made = make_sync_engine(database_url)
    yield made
    made.dispose()


@pytest.fixture
async def async_engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """An async engine on the run's database."""
    made = make_async_engine(database_url)
    yield made
    await made.dispose()


@pytest.fixture
def tenant() -> str:
    """A tenant that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
