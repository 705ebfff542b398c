"""`acuse dev` and `acuse run`: they come up, carry an effect out, and end on SIGTERM with everything that they started."""

import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import Started, leftovers, started
from sqlalchemy import Engine

from acuse import Ledger, OperationRecord, Outbox, State
from acuse.store.engine import sync_engine
from acuse_adapters.email.action import SendEmail
from acuse_adapters.simulators.process import SimulatorProcess
from acuse_adapters.ticketing.action import CreateTicket

GRACE_SECONDS = 3.0


def exports(one: Started) -> dict[str, str]:
    return dict(re.findall(r"^export (\w+)='(.*)'$", one.out, re.MULTILINE))


def carried_out(engine: Engine, reference: str) -> list[OperationRecord]:
    """Stage a ticket and, behind it, an email; wait for both."""
    outbox, ledger = Outbox(), Ledger(engine)
    with engine.begin() as connection:
        ticket = outbox.stage(connection, CreateTicket(reference=reference, subject="Help"), workflow=reference, call="1")
        wish = SendEmail(reference=reference, to="owner@example.org", subject="Seen", body="We have seen it.")
        email = outbox.stage(connection, wish, workflow=reference, call="2", after=[ticket.operation_id])
    return [ledger.wait(one.operation_id, timeout=20) for one in (ticket, email)]


def test_dev_carries_effects_out_ends_on_sigterm_and_keeps_what_it_knows(tmp_path: Path) -> None:
    seen: list[str] = []
    for start in ("first", "second"):
        # When it is started
        with started("dev", "--folder", tmp_path / "state", ACUSE_METRICS_PORT="9100") as dev:
            dev.says("press Ctrl-C to stop", 60)
            printed = exports(dev)
            assert set(printed) >= {"ACUSE_DATABASE_URL", "ACUSE_REDIS_URL", "ACUSE_CRM_URL", "ACUSE_TICKET_URL"}
            engine = sync_engine(printed["ACUSE_DATABASE_URL"])
            try:
                # Then what was confirmed at the start before is still known
                for operation in seen:
                    assert Ledger(engine).get(operation).state is State.CONFIRMED
                # And effects that are staged there are carried out, in their order
                records = carried_out(engine, f"{start}-1")
                assert [record.state for record in records] == [State.CONFIRMED, State.CONFIRMED], [it.why for it in records]
                seen += [record.operation_id for record in records]
            finally:
                engine.dispose()
            # And SIGTERM ends all of it
            assert {"relay", "worker"} <= {word for command, _ in dev.commands() for word in command}
            dev.send(signal.SIGTERM)
            assert dev.ends(40) == 0, dev.err
        assert leftovers(dev) == []
        assert "Traceback" not in dev.err


def test_dev_reports_a_process_that_dies_by_itself_and_ends_the_others(tmp_path: Path) -> None:
    with started("dev", "--folder", tmp_path / "state") as dev:
        dev.says("press Ctrl-C to stop", 60)
        [relay] = [process for command, process in dev.commands() if command[-1:] == ["relay"]]
        relay.kill()
        assert dev.ends(40) == 1
    assert "relay ended by itself" in dev.err
    assert leftovers(dev) == []


@pytest.fixture
def helpdesk(tmp_path: Path) -> Iterator[SimulatorProcess]:
    with SimulatorProcess("ticketing", tmp_path / "providers") as process:
        yield process


@pytest.fixture
def settings(fresh_database_url: str, redis_url: str, namespace: str, helpdesk: SimulatorProcess) -> dict[str, str]:
    return {
        "ACUSE_DATABASE_URL": fresh_database_url,
        "ACUSE_REDIS_URL": redis_url,
        "ACUSE_REDIS_NAMESPACE": namespace,
        "ACUSE_GRACE_SECONDS": str(GRACE_SECONDS),
        "ACUSE_TICKET_URL": helpdesk.url,
    }


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url)
    yield engine
    engine.dispose()


@pytest.mark.invariant(6)
def test_run_carries_an_effect_out_and_on_sigterm_marks_what_is_in_the_air(
    settings: dict[str, str], ledger: Engine, helpdesk: SimulatorProcess
) -> None:
    outbox = Outbox()
    with started("run", **settings) as run:
        # Given one effect that was carried out, and one whose request the provider holds, applied and not answered
        with ledger.begin() as connection:
            done = outbox.stage(connection, CreateTicket(reference="a-1", subject="One"), workflow="w", call="1").operation_id
        assert Ledger(ledger).wait(done, timeout=20).state is State.CONFIRMED, run.err
        helpdesk.hold("after_apply")
        with ledger.begin() as connection:
            held = outbox.stage(connection, CreateTicket(reference="a-2", subject="Two"), workflow="w", call="2").operation_id
        helpdesk.wait_held(20)
        # When it is told to stop
        asked = time.monotonic()
        run.send(signal.SIGTERM)
        assert run.ends(30) == 0, run.err
        # Then it ends within its grace and the time to save what was torn off, and says that it does not know
        assert GRACE_SECONDS - 0.5 < time.monotonic() - asked < GRACE_SECONDS + 10
    record = Ledger(ledger).get(held)
    assert (record.state, record.doubts) == (State.UNKNOWN, 1)
    assert "shut down" in (record.reason or "")
    assert leftovers(run) == []


def test_a_worker_whose_port_is_taken_ends_and_takes_no_work_with_it(settings: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started("worker", **settings, ACUSE_METRICS_PORT=str(port)) as worker:
            assert worker.ends(30) == 2
    assert f"acuse worker: ACUSE_METRICS_PORT: cannot listen on 127.0.0.1:{port}" in worker.err
    assert leftovers(worker) == []


def test_run_ends_with_a_sentence_where_it_cannot_work(settings: dict[str, str], servers: tuple[str, str]) -> None:
    # Given a database without the schema
    with started("run", **settings | {"ACUSE_DATABASE_URL": servers[0]}) as run:
        assert run.ends(30) == 2
    assert "acuse run: the database has no acuse schema" in run.err
    assert "run `acuse migrate`" in run.err
    # And no adapter
    with started("run", **{name: value for name, value in settings.items() if name != "ACUSE_TICKET_URL"}) as run:
        assert run.ends(30) == 2
    assert "acuse run: no adapter is configured" in run.err
    assert "Traceback" not in run.err
