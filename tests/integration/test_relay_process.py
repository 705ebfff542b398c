"""The relay as a process: start-up, signals, metrics."""

import argparse
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from eventually import eventually
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, text
from stage_factory import claim, dispatch, let_claims_expire, outbox, stage_committed, state_of
from structlog.testing import capture_logs

from acuse.embedded import EmbeddedValkey
from acuse.errors import ConfigurationError, SchemaMismatch
from acuse.settings import Settings
from acuse.store.engine import sync_engine
from acuse_relay.command import relay as command
from acuse_relay.process import RelayProcess, relay_process


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def settings(fresh_database_url: str, redis_url: str, namespace: str) -> Settings:
    return Settings(
        database_url=fresh_database_url,
        redis_url=redis_url,
        redis_namespace=namespace,
        metrics_port=0,
        recover_seconds=0.01,
    )


@contextmanager
def started(process: RelayProcess) -> Iterator[list[object]]:
    """Run a process in a thread. Gives a list that holds its exit code, or the error that ended it, once it has ended."""
    ends: list[object] = []

    def run() -> None:
        try:
            ends.append(process.run())
        except Exception as error:
            ends.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ends
    finally:
        process.stop()
        thread.join(20)
        assert not thread.is_alive()


def scrape(process: RelayProcess) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{process.metrics_port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
            if not sample.name.endswith("_created")
        }


def test_a_process_relays_recovers_and_ends_when_it_is_told_to(settings: Settings, ledger: Engine, tenant: str) -> None:
    (operation,) = stage_committed(ledger, tenant)
    process = relay_process(settings)
    with started(process) as ends:
        eventually(lambda: outbox(ledger) == [])
        with ledger.begin() as connection:
            dispatch(connection, operation, claim(connection, [operation])[operation])
            let_claims_expire(connection, [operation])
        eventually(lambda: state_of(ledger, operation).status == "unknown")
        eventually(lambda: outbox(ledger) == [])
    assert ends == [0]


def test_metrics_show_what_is_unfinished_and_no_payload(settings: Settings, ledger: Engine, tenant: str) -> None:
    # Given an operation in doubt, one that only a person can carry on, an incident, and a row that is not to be moved yet
    doubtful, held = stage_committed(ledger, tenant, 2)
    with ledger.begin() as connection:
        fences = claim(connection, [doubtful, held])
        dispatch(connection, doubtful, fences[doubtful])
        connection.execute(
            text("select acuse.defer(:id, :fence, null, null, 'look at it', true)"), {"id": held, "fence": fences[held]}
        )
        connection.execute(text("select acuse.open_incident(:id, 'duplicate_effect', null)"), {"id": doubtful})
        connection.execute(text("select acuse.pause_account('crm', 'one', null, 'ann', 'audit')"))
        connection.execute(
            text("""insert into acuse.account (provider, account, failures, opened_at, openings, open_until, updated_at)
                    values ('crm', 'two', 5, clock_timestamp(), 1, clock_timestamp(), clock_timestamp())""")
        )
        connection.execute(
            text("""select acuse.send('later', '{"id": "1", "actor": "a", "args": [], "kwargs": {}, "options": {}}',
                    clock_timestamp() + interval '1 hour')""")
        )
    process = relay_process(settings)
    with started(process):
        eventually(lambda: process.metrics_port and scrape(process).get(("acuse_relayed_total", "acuse.crm")) == 2)
        with ledger.begin() as connection:
            let_claims_expire(connection, [doubtful])
        # What is in doubt travels on a queue of its own, past the backlog of new ones.
        eventually(lambda: scrape(process).get(("acuse_relayed_total", "acuse.crm.doubt")) == 1)
        seen = scrape(process)
    assert seen["acuse_unresolved_operations", "acuse.crm".removeprefix("acuse."), "unknown"] == 1
    assert 0 <= seen["acuse_oldest_unresolved_seconds", "crm"] < 60
    assert seen["acuse_held_operations", "crm"] == 1
    assert seen["acuse_open_incidents", "duplicate_effect"] == 1
    assert seen["acuse_accounts_paused", "crm", "pause"] == seen["acuse_accounts_paused", "crm", "breaker"] == 1
    assert seen["acuse_outbox_depth", "later"] == 1
    assert seen["acuse_outbox_oldest_seconds", "later"] == 0
    assert seen["acuse_queue_depth", "acuse.crm"] >= 1
    assert seen["acuse_recovered_total", "expired"] == 1
    assert seen[("acuse_database_up",)] == seen[("acuse_queue_up",)] == 1
    assert not [key for key in seen if tenant in key or "look at it" in key]


def test_metrics_show_how_long_what_was_handed_over_waits_for_a_worker(settings: Settings, ledger: Engine, tenant: str) -> None:
    # Given three that were handed over: one long ago and still in the outbox, one a worker has taken, and one nobody has
    waiting, taken, forgotten = stage_committed(ledger, tenant, 3)
    process = relay_process(settings)
    with started(process):
        eventually(lambda: outbox(ledger) == [])
        with ledger.begin() as connection:
            connection.execute(
                text("update acuse.operation set handed_at = handed_at - interval '1 hour', version = version + 1")
            )
            assert claim(connection, [taken])
            connection.execute(
                text(
                    "update acuse.operation set handed_at = handed_at + interval '30 min', version = version + 1 where id = :id"
                ),
                {"id": forgotten},
            )
            connection.execute(
                text("""insert into acuse.outbox_message (queue, tenant, operation_id, available_at)
                        values ('acuse.crm', :tenant, :id, clock_timestamp() + interval '1 hour')"""),
                {"id": waiting, "tenant": tenant},
            )
        # Then the age is that of the last one
        assert 30 * 60 <= scrape(process)["acuse_handed_over_oldest_seconds", "crm"] < 31 * 60
        with ledger.begin() as connection:
            assert claim(connection, [forgotten])
        assert ("acuse_handed_over_oldest_seconds", "crm") not in scrape(process)


def test_a_database_without_the_schema_ends_the_process_and_says_what_to_do(settings: Settings, ledger: Engine) -> None:
    with ledger.begin() as connection:
        connection.execute(text("update acuse.alembic_version set version_num = '0000'"))
    with pytest.raises(SchemaMismatch, match="acuse migrate"):
        relay_process(settings).run()


@pytest.fixture(scope="module")
def valkey() -> Iterator[EmbeddedValkey]:
    """A server of this module alone, to be set up wrongly."""
    with EmbeddedValkey.temporary(durable=False) as server:
        yield server


def test_a_broker_that_may_drop_queues_ends_the_process(settings: Settings, valkey: EmbeddedValkey) -> None:
    import redis

    with redis.Redis.from_url(valkey.redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", "100mb")
        with pytest.raises(ConfigurationError, match="noeviction"):
            relay_process(settings.model_copy(update={"redis_url": valkey.redis_url})).run()
        client.config_set("maxmemory", 0)


def test_a_broker_that_is_away_is_waited_for_and_claims_expire_meanwhile(
    settings: Settings, valkey: EmbeddedValkey, ledger: Engine, tenant: str
) -> None:
    # Given a start while the broker is away
    valkey.kill()
    (operation,) = stage_committed(ledger, tenant)
    with ledger.begin() as connection:
        dispatch(connection, operation, claim(connection, [operation])[operation])
        let_claims_expire(connection, [operation])
    process = relay_process(settings.model_copy(update={"redis_url": valkey.redis_url}))
    with capture_logs() as logs, started(process) as ends:
        eventually(lambda: state_of(ledger, operation).status == "unknown")
        eventually(lambda: [entry for entry in logs if entry["event"] == "start.failed"])
        assert scrape(process)[("acuse_queue_up",)] == 0
        # When it comes, the rows go
        valkey.start()
        eventually(lambda: outbox(ledger) == [])
    assert ends == [0]


def test_a_metrics_port_that_is_taken_is_named(settings: Settings) -> None:
    first = relay_process(settings)
    with started(first):
        eventually(lambda: first.metrics_port)
        with pytest.raises(ConfigurationError, match="ACUSE_METRICS_PORT"):
            relay_process(settings.model_copy(update={"metrics_port": first.metrics_port})).run()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_with_zero_on_a_signal(settings: Settings, ledger: Engine, tenant: str, number: signal.Signals) -> None:
    stage_committed(ledger, tenant, 3)
    environment = {
        **os.environ,
        "ACUSE_DATABASE_URL": settings.database_url,
        "ACUSE_REDIS_URL": settings.redis_url,
        "ACUSE_REDIS_NAMESPACE": settings.redis_namespace,
    }
    code = (
        "import argparse, sys; from acuse_relay.command import relay; sys.exit(relay.run(argparse.Namespace(metrics_port=None)))"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True) as child:
        try:
            eventually(lambda: outbox(ledger) == [] or child.poll() is not None)
            child.send_signal(number)
            _, said = child.communicate(timeout=20)
        finally:
            child.kill()
    assert child.returncode == 0, said
    assert "relay.started" in said
    assert "relay.stopped" in said


def test_the_command_takes_its_port_from_the_arguments() -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    assert command.name == "relay"
    assert parser.parse_args(["--metrics-port", "9100"]).metrics_port == 9100
