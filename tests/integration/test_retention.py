"""History goes by the month, and nobody who stages waits for it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from host import SendEmail
from racing import until
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.pool import NullPool

from acuse import InvalidField, Outbox
from acuse.agents import Journal
from acuse.protocol import Found, State
from acuse.store.evidence import record
from acuse.store.retention import HISTORY, Retired, drop_history, ensure_partitions

OLD, OLDER, AFTER = "2020-01", "2019-12", "2020-02"
TABLES = {f"{table}_{month}" for table in HISTORY for month in ("202001", "201912")}
YEAR = timedelta(days=365)

_INSERT = text(
    """
    insert into acuse.operation
        (id, tenant, effect_key, action, provider, account, target, digest, handed_at, created_at, updated_at)
      values (:id, 't', :key, 'email.send.v1', 'email', 'default', 'case-1', sha256('x'), now(), now(), now())
    """
)
_PAYLOAD = text("insert into acuse.payload values (:id, 'x')")
_ENTRY = text(
    """
    insert into acuse.ledger (operation_id, version, at, kind, to_status, by)
      values (cast(:id as uuid), 1, now(), 'staged', 'prepared', 'host')
    """
)
_RUN = text(
    """
    insert into acuse.run (id, tenant, run_id, workflow_id, flow_version, max_turns, lease, created_at, updated_at)
      values (cast(:id as uuid), 't', :month, :month, '1', 40, '1 min', now(), now())
    """
)
_MESSAGE = text("insert into acuse.run_message values (cast(:id as uuid), 1, 0, 'user', 'x', false, now())")
_WAITING = text(
    """
    select count(*) from pg_stat_activity
     where datname = current_database() and query ilike :what and wait_event_type = 'Lock'
    """
)


@pytest.fixture
def engine(fresh_database_url: str) -> Iterator[Engine]:
    """A database of its own with two months of history from long ago."""
    made = create_engine(fresh_database_url, poolclass=NullPool)
    with made.begin() as connection:
        for month, after in ((OLDER, OLD), (OLD, AFTER)):
            for table in HISTORY:
                name, low, high = f"{table}_{month.replace('-', '')}", _floor(connection, month), _floor(connection, after)
                bounds = f"from ('{low}') to ('{high}')"
                connection.execute(text(f"create table acuse.{name} partition of acuse.{table} for values {bounds}"))
            operation = _pending(connection, month, f"key of {month}")
            connection.execute(_PAYLOAD, {"id": operation})
            connection.execute(_ENTRY, {"id": operation})
            connection.execute(text("select acuse.cancel('t', :id, 'ann', 'long ago')"), {"id": operation})
    yield made
    made.dispose()


def _floor(connection: Connection, month: str) -> str:
    asked = text("select acuse.uuid7_floor(cast(:month as timestamptz))::text")
    return str(connection.execute(asked, {"month": f"{month}-01 00:00:00+00"}).scalar_one())


def _pending(connection: Connection, month: str, key: str) -> str:
    """An operation that was staged in that month and is not settled."""
    operation = _floor(connection, month)[:-1] + str(len(key) % 10)
    connection.execute(_INSERT, {"id": operation, "key": key})
    return operation


def stage(engine: Engine, call: str, lock_timeout: str = "2s") -> None:
    with engine.begin() as connection:
        connection.execute(text(f"set local lock_timeout = '{lock_timeout}'"))
        staged = Outbox(tenant="t").stage(connection, SendEmail(case="case-1"), workflow="w", call=call, distinct=True)
        assert staged.created


def tables(engine: Engine) -> set[str]:
    with engine.connect() as connection:
        asked = text("select relname from pg_class where relname = any(:names)")
        return set(connection.execute(asked, {"names": list(TABLES)}).scalars())


def months(names: object) -> set[str]:
    return {str(name)[-6:] for name in names}  # type: ignore[attr-defined]


def test_old_months_go_and_the_operations_stay(engine: Engine) -> None:
    retired = drop_history(engine, datetime(2020, 2, 1, tzinfo=UTC))
    assert (set(retired.dropped), retired.kept, tables(engine)) == (TABLES, (), set())
    with engine.connect() as connection:
        assert connection.execute(text("select count(*) from acuse.operation where tenant = 't'")).scalar_one() == 2
    stage(engine, "t1")
    assert drop_history(engine, YEAR) == Retired((), ())


def test_only_months_that_are_old_enough_go(engine: Engine) -> None:
    assert months(drop_history(engine, datetime(2020, 1, 31, tzinfo=UTC)).dropped) == {"201912"}
    assert months(tables(engine)) == {"202001"}
    # However young history may be, the last month and this one stay
    drop_history(engine, timedelta(0))
    with engine.begin() as connection:
        assert ensure_partitions(connection) == 0
    stage(engine, "t1")


def test_a_month_stays_while_an_operation_of_it_is_unsettled(engine: Engine) -> None:
    with engine.begin() as connection:
        _pending(connection, OLD, "nobody settled it")
    retired = drop_history(engine, YEAR)
    assert (retired.kept, months(retired.dropped), months(tables(engine))) == ((OLD,), {"201912"}, {"202001"})


def test_a_month_stays_while_an_incident_of_it_is_open(engine: Engine) -> None:
    with engine.begin() as connection:
        asked = text("select acuse.open_incident(id, 'duplicate_effect', null) from acuse.operation where effect_key = :key")
        connection.execute(asked, {"key": f"key of {OLDER}"})
    retired = drop_history(engine, YEAR)
    assert (retired.kept, months(retired.dropped)) == ((OLDER,), {"202001"})


def test_a_month_stays_while_a_run_of_it_has_not_ended_and_its_words_go_with_it(engine: Engine) -> None:
    with engine.begin() as connection:
        for month in (OLDER, OLD):
            values = {"id": _floor(connection, month), "month": month}
            connection.execute(_RUN, values)
            connection.execute(_MESSAGE, values)
        Journal("t").cancel(connection, OLDER, by="ann", reason="long ago")
    retired = drop_history(engine, YEAR)
    assert (retired.kept, months(retired.dropped)) == ((OLD,), {"201912"})
    with engine.begin() as connection:
        assert [len(Journal("t").read(connection, month).messages) for month in (OLDER, OLD)] == [0, 1]


def test_stages_pass_while_a_month_is_detached_behind_an_open_transaction(engine: Engine) -> None:
    done: list[Retired] = []
    with engine.connect() as open_transaction, running(lambda: done.append(drop_history(engine, YEAR))) as retiring:
        # Given a caller that has staged and not committed yet, and a retention that waits for it
        Outbox(tenant="t").stage(open_transaction, SendEmail(case="case-1"), workflow="w", call="t0")
        retiring.start()
        until(lambda: waits(engine, "alter table"), "the detach to wait for the open transaction")
        # When others stage, then they pass and commit at once
        for number in range(1, 6):
            stage(engine, f"t{number}")
        assert not done
        open_transaction.commit()
    assert set(done[0].dropped) == TABLES


def test_a_plain_drop_would_have_made_them_wait(engine: Engine) -> None:
    # What the test above is worth: the same with DROP TABLE alone.
    def drop() -> None:
        with engine.begin() as connection:
            connection.execute(text("drop table acuse.payload_202001"))

    with engine.connect() as open_transaction, running(drop) as dropping:
        Outbox(tenant="t").stage(open_transaction, SendEmail(case="case-1"), workflow="w", call="t0")
        dropping.start()
        until(lambda: waits(engine, "drop table"), "the drop to wait")
        with pytest.raises(OperationalError, match="lock timeout"):
            stage(engine, "t1", lock_timeout="100ms")
        open_transaction.commit()


@contextmanager
def running(function: Callable[[], None]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=function, daemon=True)
    yield thread
    thread.join(20)
    assert not thread.is_alive()


def waits(engine: Engine, what: str) -> bool:
    with engine.connect() as observer:
        return bool(observer.execute(_WAITING, {"what": f"{what} acuse.%"}).scalar_one())


def test_a_run_that_was_interrupted_is_finished_by_the_next(engine: Engine) -> None:
    # Given a partition that was detached and not dropped, and one whose detach was interrupted half way
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("alter table acuse.evidence detach partition acuse.evidence_202001")
        interrupt_detach(engine)
        pending = connection.exec_driver_sql("select count(*) from pg_inherits where inhdetachpending").scalar_one()
        assert pending == 1
    assert set(drop_history(engine, YEAR).dropped) == TABLES
    assert tables(engine) == set()


def interrupt_detach(engine: Engine) -> None:
    def detach() -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection, pytest.raises(OperationalError):
            connection.exec_driver_sql("alter table acuse.ledger detach partition acuse.ledger_202001 concurrently")

    ended = text(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where query ilike 'alter table acuse.ledger%' and datname = current_database()"
    )
    with engine.connect() as reader, running(detach) as detaching:
        reader.execute(text("select count(*) from acuse.ledger"))
        detaching.start()
        until(lambda: waits(engine, "alter table"), "the detach to wait")
        reader.execute(ended)


def test_two_runs_at_once_are_one(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("select pg_advisory_xact_lock(hashtextextended('acuse.retention', 0))"))
        assert drop_history(engine, YEAR) == Retired((), ())
        assert tables(engine) == TABLES


def test_a_limit_must_be_a_moment_of_this_world(engine: Engine) -> None:
    with pytest.raises(InvalidField, match="time zone"):
        drop_history(engine, datetime(2020, 1, 1))  # noqa: DTZ001 - that is the point


def test_months_ahead_are_made_once_with_their_guards(engine: Engine) -> None:
    with engine.begin() as connection:
        assert ensure_partitions(connection, 13) == 0
        assert ensure_partitions(connection, 15) == 2 * len(HISTORY)
        newest = connection.execute(text("select max(relname) from pg_class where relname ~ '^ledger_[0-9]{6}$'")).scalar_one()
        with pytest.raises(Exception, match="append-only"):
            connection.execute(text(f"truncate acuse.{newest}"))


def test_evidence_that_comes_after_its_history_was_dropped_is_told_to_a_person_and_refuses_nobody(engine: Engine) -> None:
    # Given an operation whose month is gone
    with engine.connect() as connection:
        asked = text("select id from acuse.operation where effect_key = 'key of 2020-01'")
        operation = connection.execute(asked).scalar_one()
    drop_history(engine, datetime(2020, 2, 1, tzinfo=UTC))

    # When a webhook comes for it, twice
    for _ in range(2):
        with engine.begin() as connection:
            said = record(connection, operation, "webhook", "evt-1", 1, Found("R-1"), datetime.now(UTC))
            # Then it is taken as known, and changes nothing
            assert said is not None
            assert (said.fresh, said.state) == (False, State.REJECTED)

    # And one incident says what it said
    with engine.connect() as connection:
        rows = connection.execute(
            text("select kind, detail from acuse.incident where operation_id = :id"), {"id": operation}
        ).all()
    assert [row.kind for row in rows] == ["late_evidence"]
    assert rows[0].detail == {"source": "webhook", "source_id": "evt-1", "finding": "found", "attempt": 1, "state": "rejected"}


def test_what_is_wrong_with_evidence_is_no_dropped_history(engine: Engine) -> None:
    with engine.begin() as connection:
        operation = connection.execute(text("select id from acuse.operation where effect_key = 'key of 2020-01'")).scalar_one()
        with pytest.raises(IntegrityError, match="evidence_source_id_check"):
            record(connection, operation, "webhook", "", 1, Found("R-1"), datetime.now(UTC))
