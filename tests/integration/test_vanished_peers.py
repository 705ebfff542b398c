"""A peer that vanishes without a goodbye holds neither a connection nor a row for ever."""

import socket
from collections.abc import Callable
from datetime import timedelta

import pytest
import redis
from dramatiq.middleware import Middleware
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine
from stage_factory import claim, dispatch, stage, stage_committed

from acuse.keepalive import SILENT_SECONDS, socket_keepalive
from acuse.store.engine import sync_engine
from acuse_adapters.broker import make_broker
from acuse_relay.queue.redis import RedisQueue


def settings_of(made: socket.socket) -> dict[int, int]:
    """What the system does with a socket."""
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    return {option: made.getsockopt(socket.IPPROTO_TCP, option) for option in socket_keepalive()}


def of_descriptor(descriptor: int) -> dict[int, int]:
    with socket.socket(fileno=socket.dup(descriptor)) as copy:
        return settings_of(copy)


def test_the_other_end_of_a_database_connection_is_missed_within_seconds(engine: Engine) -> None:
    with engine.connect() as connection:
        assert of_descriptor(connection.connection.fileno()) == socket_keepalive()  # type: ignore[attr-defined]
    assert SILENT_SECONDS <= 30


async def test_so_it_is_of_a_worker_s_connection(async_engine: AsyncEngine) -> None:
    async with async_engine.connect() as connection:
        raw = (await connection.get_raw_connection()).driver_connection
        assert raw is not None
        assert of_descriptor(raw.fileno()) == socket_keepalive()


def test_what_the_url_says_of_it_is_meant(database_url: str) -> None:
    engine = sync_engine(f"{database_url}?keepalives_idle=77")
    with engine.connect() as connection:
        assert of_descriptor(connection.connection.fileno())[socket.TCP_KEEPIDLE] == 77  # type: ignore[attr-defined]
    engine.dispose()


def relay_client(url: str) -> redis.Redis:
    return RedisQueue.from_url(url)._client


def worker_client(url: str) -> redis.Redis:
    return make_broker(url, "acuse-test-unused", Middleware(), timedelta(seconds=15)).client  # type: ignore[no-any-return]


@pytest.mark.parametrize("client_of", [relay_client, worker_client])
def test_a_redis_that_vanished_is_missed_too(redis_url: str, client_of: Callable[[str], redis.Redis]) -> None:
    with client_of(redis_url) as client:
        connection = client.connection_pool.get_connection()
        try:
            assert settings_of(connection._sock) == socket_keepalive()
        finally:
            client.connection_pool.release(connection)


def test_a_worker_that_vanished_inside_a_transaction_is_ended_by_the_server(engine: Engine, tenant: str) -> None:
    setting = text("select current_setting('idle_in_transaction_session_timeout')")
    (operation,) = stage_committed(engine, tenant)
    with engine.begin() as connection:
        fence = claim(connection, [operation])[operation]
        assert connection.execute(setting).scalar_one() == "1min"
    with engine.begin() as connection:
        assert dispatch(connection, operation, fence) == "open"
        assert connection.execute(setting).scalar_one() == "1min"
    # And a host's own transaction is left alone
    with engine.begin() as connection:
        stage(connection, tenant)
        assert connection.execute(setting).scalar_one() == "0"
