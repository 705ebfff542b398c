"""The engine on its bench, for tests of what a worker does."""

from collections.abc import AsyncIterator

import pytest
import structlog
from account_row import Account
from bench import Bench
from sqlalchemy import Engine

from acuse.store.engine import async_engine, sync_engine


@pytest.fixture(autouse=True, scope="session")
def plain_logs() -> None:
    """Tracebacks as text, whatever a test before has set up: the framed ones, with all local variables, take seconds each."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        logger_factory=structlog.PrintLoggerFactory(),
        cache_logger_on_first_use=False,
    )


@pytest.fixture
async def bench(engine: Engine, database_url: str, tenant: str) -> AsyncIterator[Bench]:
    """A bench of this test alone. In the end, whatever the test did, every transition on record must be a legal arrow."""
    name = f"bench {tenant}"
    database = async_engine(database_url, name=name)
    made = Bench(engine, database, tenant, name)
    yield made
    await made.engine.stop(0)
    await database.dispose()
    assert made.illegal() == []


@pytest.fixture
async def fresh_bench(fresh_database_url: str, tenant: str) -> AsyncIterator[Bench]:
    """A bench on a ledger of this test alone."""
    name = f"bench {tenant}"
    sync, database = sync_engine(fresh_database_url), async_engine(fresh_database_url, name=name)
    made = Bench(sync, database, tenant, name)
    yield made
    await made.engine.stop(0)
    await database.dispose()
    assert made.illegal() == []
    sync.dispose()


@pytest.fixture
def account(bench: Bench) -> Account:
    """The row of the bench's account."""
    return Account(bench)
