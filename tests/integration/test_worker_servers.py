"""A worker that starts while its servers come and go."""

from collections.abc import Iterator

import pytest
import redis
from eventually import eventually, running
from scripted_provider import BARE, Provider, ScriptedAdapter
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool
from structlog.testing import capture_logs

from acuse.settings import Settings
from acuse_adapters.port import Registry
from acuse_adapters.process import WorkerProcess

pytestmark = pytest.mark.session("it closes the database of its own, for everybody")

_CLOSE = "alter database {} with allow_connections false"
_OPEN = "alter database {} with allow_connections true"
_END = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = :name and pid <> pg_backend_pid()"


@pytest.fixture
def server(servers: tuple[str, str]) -> Iterator[Engine]:
    made = create_engine(
        make_url(servers[0]).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT", poolclass=NullPool
    )
    yield made
    made.dispose()


def test_a_database_that_goes_away_again_while_a_worker_starts_does_not_end_it(
    server: Engine, fresh_database_url: str, redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = make_url(fresh_database_url).database

    # Given a database that answered once, and is away when the metrics are served, which is before anything is worked on
    def away(*_: object, **__: object) -> None:
        with server.connect() as connection:
            connection.execute(text(_CLOSE.format(name)))
            connection.execute(text(_END), {"name": name})

    monkeypatch.setattr("acuse_adapters.process.start_http_server", away)
    settings = Settings(database_url=fresh_database_url, redis_url=redis_url, redis_namespace=namespace, metrics_port=1)
    process, ended = WorkerProcess(settings, Registry([ScriptedAdapter(Provider(), BARE)])), []

    # Then it starts, and ends only when it is told to
    with capture_logs() as logs, running(lambda _stop: ended.append(process.run())):
        try:
            eventually(lambda: ended or [entry for entry in logs if entry["event"] == "worker_started"])
            assert ended == []
            process.stop()
        finally:
            with server.connect() as connection:
                connection.execute(text(_OPEN.format(name)))
    assert ended == [0]


def test_a_worker_that_has_ended_keeps_no_connection_to_redis(database_url: str, redis_url: str, namespace: str) -> None:
    with redis.Redis.from_url(redis_url) as client:

        def connected() -> set[str]:
            return {one["addr"] for one in client.client_list()}

        before = connected()
        settings = Settings(database_url=database_url, redis_url=redis_url, redis_namespace=namespace)
        process = WorkerProcess(settings, Registry([ScriptedAdapter(Provider(), BARE)]))
        with capture_logs() as logs, running(lambda _stop: process.run() and None):
            eventually(lambda: [entry for entry in logs if entry["event"] == "worker_started"])
            assert connected() > before
            process.stop()
        eventually(lambda: connected() <= before)
