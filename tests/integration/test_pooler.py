"""Behind a pooler in transaction mode, where every transaction may meet another session."""

import argparse
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import psycopg
import pytest
from drivers import libpq
from eventually import eventually, running
from host import CloseCase
from scripted_provider import BARE, Provider, ScriptedAdapter
from sqlalchemy import Engine, event, text
from sqlalchemy.ext.asyncio import AsyncEngine
from structlog.testing import capture_logs

from acuse import Outbox
from acuse.command.doctor import doctor
from acuse.settings import Settings
from acuse.store.engine import async_engine, sync_engine
from acuse.store.pooler import Between, look_between
from acuse.store.relay import ready_queues
from acuse.store.retention import drop_history
from acuse_adapters.port import Registry
from acuse_adapters.process import WorkerProcess
from acuse_relay.process import relay_process
from pooler import INSTALLED, pooler

pytestmark = [
    pytest.mark.skipif(not INSTALLED, reason="there is no pgbouncer here: install the package pgbouncer"),
    pytest.mark.session("it has poolers of its own"),
]

OFTEN = 8
"""More often than a driver runs a statement before it prepares it."""

_LOCKS = text(
    """
    select count(*) from pg_locks
     where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
    """
)


@pytest.fixture
def mode() -> str:
    return "transaction"


@pytest.fixture
def through(servers: tuple[str, str], database_url: str, mode: str) -> Iterator[str]:
    """The way to the run's database through a pooler of this test."""
    with pooler(servers[0], mode=mode, size=4) as made:
        yield made.of(database_url)


@pytest.fixture
async def worker_engine(through: str) -> AsyncIterator[AsyncEngine]:
    engine = async_engine(through)
    yield engine
    await engine.dispose()


class Shuffle:
    """A neighbour at the same pooler: it sees to it that each of our transactions meets another session than the last did."""

    def __init__(self, url: str) -> None:
        # A pooler hands out what came back last. So one neighbour takes that, then the other gives back what it held.
        self._holding, self._free = (psycopg.connect(libpq(url), prepare_threshold=None) for _ in range(2))
        self._holding.execute("select 1")

    def __call__(self) -> None:
        self._free.execute("select 1")
        self._holding.rollback()
        self._holding, self._free = self._free, self._holding

    def close(self) -> None:
        self._holding.close()
        self._free.close()


@contextmanager
def pool(url: str) -> Iterator[Engine]:
    engine = sync_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def shuffled(url: str) -> Iterator[Callable[[], None]]:
    neighbour = Shuffle(url)
    try:
        yield neighbour
    finally:
        neighbour.close()


def test_every_transaction_meets_another_session_here(through: str) -> None:
    met: list[int] = []
    with pool(through) as engine, shuffled(through) as shuffle:
        for _ in range(4):
            with engine.begin() as connection:
                met.append(connection.execute(text("select pg_backend_pid()")).scalar_one())
            shuffle()
    assert all(one != following for one, following in pairwise(met)), met


def test_our_own_statements_work_in_whatever_session_they_meet(through: str) -> None:
    with pool(through) as engine, shuffled(through) as shuffle:
        for _ in range(OFTEN):
            with engine.begin() as connection:
                assert isinstance(ready_queues(connection, {}), list)
            shuffle()


async def test_so_do_those_of_a_worker(through: str, worker_engine: AsyncEngine) -> None:
    with shuffled(through) as shuffle:
        for _ in range(OFTEN):
            async with worker_engine.begin() as connection:
                assert isinstance(await connection.run_sync(ready_queues, {}), list)
            shuffle()


def test_a_host_stages_on_a_connection_that_it_made_like_any_other(through: str, tenant: str) -> None:
    outbox = Outbox(tenant=tenant)
    with psycopg.connect(libpq(through)) as connection, shuffled(through) as shuffle:
        for number in range(OFTEN):
            assert outbox.stage(connection, CloseCase(case=f"case-{number}"), workflow="w").created
            connection.commit()
            shuffle()


def test_retention_leaves_no_lock_behind(through: str, engine: Engine) -> None:
    # Given a run of it of which every statement meets another session
    with pool(through) as pooled, shuffled(through) as shuffle:
        event.listen(pooled, "before_cursor_execute", lambda *_: shuffle())
        drop_history(pooled, timedelta(days=365))
        # Then the next one is not kept out
        with engine.connect() as connection:
            assert connection.execute(_LOCKS).scalar_one() == 0


@pytest.mark.parametrize(("mode", "noticed"), [("transaction", Between.TRANSACTION_POOLER), ("session", Between.POOLER)])
def test_what_stands_between_is_noticed(through: str, engine: Engine, noticed: Between) -> None:
    with pool(through) as pooled:
        assert look_between(pooled) is noticed
    assert look_between(engine) is Between.NOTHING


def test_it_is_noticed_too_where_others_keep_the_pooler_busy(through: str) -> None:
    with pool(through) as pooled, shuffled(through) as shuffle:
        event.listen(pooled, "before_cursor_execute", lambda *_: shuffle())
        assert look_between(pooled) is Between.TRANSACTION_POOLER


def test_the_doctor_says_so(
    through: str, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACUSE_DATABASE_URL", through)
    monkeypatch.setenv("ACUSE_REDIS_URL", redis_url)
    doctor.run(argparse.Namespace())
    said = capsys.readouterr().out
    assert "note   database     behind a pooler in transaction mode: " in said
    assert "asyncpg: statement_cache_size=0" in said


def test_a_worker_says_so_when_it_starts(through: str, redis_url: str, namespace: str) -> None:
    settings = Settings(database_url=through, redis_url=redis_url, redis_namespace=namespace)
    process = WorkerProcess(settings, Registry([ScriptedAdapter(Provider(), BARE)]))
    with capture_logs() as logs, running(lambda _stop: process.run() and None):
        eventually(lambda: [entry for entry in logs if entry["event"] == "worker_started"])
        process.stop()
    (said,) = [entry["noticed"] for entry in logs if entry["event"] == "worker_behind_pooler"]
    assert said == Between.TRANSACTION_POOLER.value


def test_a_relay_says_so_when_it_starts(through: str, redis_url: str, namespace: str) -> None:
    process = relay_process(Settings(database_url=through, redis_url=redis_url, redis_namespace=namespace))
    with capture_logs() as logs, running(lambda _stop: process.run() and None):
        eventually(lambda: [entry for entry in logs if entry["event"] == "relay.started"])
        process.stop()
    (said,) = [entry["noticed"] for entry in logs if entry["event"] == "relay.behind_pooler"]
    assert said == Between.TRANSACTION_POOLER.value
