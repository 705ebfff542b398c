"""An old transaction elsewhere keeps every row that the relay moves as a dead one: it must not read them again."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from outbox_rows import Clock, fill, reads_of, taken, waiting
from sqlalchemy import Connection, Engine, text
from stage_factory import stage

from acuse.command.doctor import _looked_at
from acuse.store.engine import sync_engine
from acuse.store.relay import take_census
from acuse.store.snapshot import holders
from acuse_relay.queue.fake import FakeQueue
from acuse_relay.relay import FULL_SCAN_SECONDS, Relay

ROUNDS, ROWS = 20, 200
"""Four thousand rows go through while the transaction is open."""


@pytest.fixture
def ledger(fresh_database_url: str) -> Iterator[Engine]:
    engine = sync_engine(fresh_database_url, pool_size=5, name="acuse relay")
    yield engine
    engine.dispose()


@contextmanager
def old_transaction(url: str, kind: str, tenant: str) -> Iterator[Connection]:
    """A session of somebody else: a report with its snapshot, or a business transaction that has staged and is idle."""
    engine = sync_engine(url, pool_size=1, name="monthly report")
    try:
        with engine.connect() as connection:
            if kind == "report":
                connection.execution_options(isolation_level="REPEATABLE READ")
                connection.execute(text("select count(*) from acuse.operation"))
            else:
                stage(connection, tenant)
            yield connection
            connection.commit()
    finally:
        engine.dispose()


@pytest.mark.case("R032")
@pytest.mark.parametrize("kind", ["report", "stage"])
@pytest.mark.parametrize("bound", [10_000, 1], ids=["all in one batch", "a backlog in many batches"])
def test_what_was_moved_is_not_read_again(ledger: Engine, fresh_database_url: str, tenant: str, kind: str, bound: int) -> None:
    queue, clock = FakeQueue(), Clock()
    relay = Relay(ledger, queue, bound=bound, batch_size=100, clock=clock)
    fill(ledger, tenant, ago="5 min")
    assert relay.run_once() == 1
    taken(queue)
    with old_transaction(fresh_database_url, kind, tenant) as old:
        reads, moved = reads_of(ledger), 0
        # Given thousands of rows that come and go while it is open, a few seconds apart
        for number in range(ROUNDS):
            fill(ledger, tenant, ROWS, ago=f"{(ROUNDS - number) * 5} s")
            while done := relay.run_once():
                moved += done
                taken(queue)
        assert moved == ROUNDS * ROWS
        # Then a batch has never read much more than what it moved
        assert max(reads) < 8 * ROWS, reads
        # Though all of them are still there, as a full look shows, which is seldom
        clock.now += FULL_SCAN_SECONDS
        relay.run_once()
        assert reads[-1] >= ROUNDS * ROWS
        assert holders(old) == []  # it does not name itself
    # And what it staged itself is found once it is committed
    clock.now += FULL_SCAN_SECONDS
    relay.run_once()
    assert (waiting(ledger), len(taken(queue))) == (0, int(kind == "stage"))


@pytest.mark.parametrize("kind", ["report", "stage"])
def test_the_session_that_keeps_dead_rows_is_measured_and_named(
    ledger: Engine, fresh_database_url: str, tenant: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acuse.command.doctor.OLDEST_TRANSACTION_SECONDS", 0)
    with ledger.begin() as connection:
        assert take_census(connection).oldest_snapshot == 0
    with old_transaction(fresh_database_url, kind, tenant) as old:
        pid = old.execute(text("select pg_backend_pid()")).scalar_one()
        with ledger.begin() as connection:
            assert take_census(connection).oldest_snapshot > 0
            assert [(one.pid, one.application) for one in holders(connection)] == [(pid, "monthly report")]
        said = [finding.sentence for finding in _looked_at(ledger) if "dead rows" in finding.sentence]
        assert len(said) == 1
        assert f"session {pid} (monthly report, role " in said[0]
