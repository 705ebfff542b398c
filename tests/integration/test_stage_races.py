"""Two real connections stage the same, step by step, at every isolation level."""

from collections.abc import Callable

import pytest
from host import CaseClosed, CloseCase, Counts, SendEmail, counts, routes
from racing import Racer, until
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from acuse import EffectConflict, Outbox, Published, RetryTransaction, Staged, Wish

LEVELS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
STRICT = LEVELS[1:]


def stage(tenant: str, call: str = "t1", subject: str = "Hello") -> Callable[[Connection], Staged]:
    return lambda c: Outbox(tenant=tenant).stage(c, SendEmail(case="case-1", subject=subject), workflow="w", call=call)


def staged(engine: Engine, function: Callable[[Connection], Staged], isolation: str = "READ COMMITTED") -> Racer[Staged]:
    racer = Racer(engine, function, isolation).start()
    assert racer.result().created
    return racer


@pytest.mark.case("R079")
@pytest.mark.invariant(2)
def test_whoever_stages_second_waits_and_gets_the_operation_of_the_first(engine: Engine, tenant: str) -> None:
    first = staged(engine, stage(tenant))
    second = Racer(engine, stage(tenant)).start_blocked()
    first.commit()
    assert (second.result().created, second.result().operation_id) == (False, first.result().operation_id)
    second.commit()
    assert counts(engine, tenant) == Counts.of(1)


@pytest.mark.invariant(2)
@pytest.mark.parametrize("isolation", STRICT)
def test_at_stricter_levels_the_second_is_told_to_run_again_and_its_transaction_lives(
    engine: Engine, tenant: str, isolation: str
) -> None:
    # Given a second transaction whose snapshot is older than the first one's commit
    first = staged(engine, stage(tenant), isolation)
    second = Racer(engine, stage(tenant), isolation).start_blocked()
    first.commit()
    with pytest.raises(RetryTransaction) as retry:
        second.result()
    assert retry.value.sqlstate == "40001"
    assert second.connection.exec_driver_sql("select 1").scalar_one() == 1
    second.rollback()
    # When the caller runs its transaction again, it gets the operation
    again = Racer(engine, stage(tenant), isolation).start()
    assert (again.result().created, again.result().operation_id) == (False, first.result().operation_id)
    again.commit()
    assert counts(engine, tenant) == Counts.of(1)


@pytest.mark.invariant(1)
@pytest.mark.parametrize("isolation", LEVELS)
def test_if_the_first_rolls_back_the_second_stages(engine: Engine, tenant: str, isolation: str) -> None:
    first = staged(engine, stage(tenant), isolation)
    second = Racer(engine, stage(tenant), isolation).start_blocked()
    first.rollback()
    assert second.result().created
    second.commit()
    assert counts(engine, tenant) == Counts.of(1)


@pytest.mark.invariant(2)
def test_a_racing_conflict_names_its_paths_too(engine: Engine, tenant: str) -> None:
    first = staged(engine, stage(tenant))
    second = Racer(engine, stage(tenant, subject="Other")).start_blocked()
    first.commit()
    with pytest.raises(EffectConflict) as conflict:
        second.result()
    assert conflict.value.paths == ("$.payload.subject",)
    second.rollback()


def test_two_calls_that_race_for_one_doubt_slot_make_one_operation(engine: Engine, tenant: str) -> None:
    first = staged(engine, stage(tenant, call="t1"))
    second = Racer(engine, stage(tenant, call="t2")).start_blocked()
    first.commit()
    assert (second.result().in_doubt, second.result().operation_id) == (True, first.result().operation_id)
    second.commit()
    assert counts(engine, tenant) == Counts.of(1)


@pytest.mark.parametrize("isolation", STRICT)
def test_the_doubt_slot_holds_at_stricter_levels(engine: Engine, tenant: str, isolation: str) -> None:
    first = staged(engine, stage(tenant, call="t1"), isolation)
    second = Racer(engine, stage(tenant, call="t2"), isolation).start_blocked()
    first.commit()
    with pytest.raises(RetryTransaction):
        second.result()
    second.rollback()
    assert counts(engine, tenant) == Counts.of(1)


@pytest.mark.parametrize("isolation", LEVELS)
def test_stages_that_have_nothing_to_do_with_each_other_never_conflict(engine: Engine, tenant: str, isolation: str) -> None:
    # Under SERIALIZABLE a look before the insert failed unrelated pairs.
    racers = [staged(engine, stage(tenant, f"t{n}", f"Number {n}"), isolation) for n in range(4)]
    for racer in racers:
        racer.commit()
    assert counts(engine, tenant) == Counts.of(4)


def test_nor_do_they_in_a_table_so_small_that_reading_all_of_it_looks_cheap(fresh_database_url: str, tenant: str) -> None:
    engine = create_engine(fresh_database_url, poolclass=NullPool)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("vacuum analyze acuse.operation")
    racers = [staged(engine, stage(tenant, f"t{n}", f"Number {n}"), "SERIALIZABLE") for n in range(4)]
    for racer in racers:
        racer.commit()
    assert counts(engine, tenant) == Counts.of(4)


def test_keys_in_opposite_order_do_not_deadlock(engine: Engine, tenant: str) -> None:
    def stage_all(numbers: range) -> Callable[[Connection], tuple[Staged, ...]]:
        wishes = [Wish(CloseCase(case=f"case-{n}")) for n in numbers]
        return lambda connection: Outbox(tenant=tenant).stage_many(connection, wishes, workflow="w")

    # Given a first transaction that holds them all, and two that want them in opposite orders
    first = Racer(engine, stage_all(range(8))).start()
    first.result()
    up, down = Racer(engine, stage_all(range(8))).start_blocked(), Racer(engine, stage_all(range(7, -1, -1))).start_blocked()
    # When it rolls back, both go on at once: one waits for the other, and none is killed
    first.rollback()
    done, waits = (up, down) if _first_done(up, down) else (down, up)
    assert {s.created for s in done.result()} == {True}
    done.commit()
    assert {s.created for s in waits.result()} == {False}
    assert [s.operation_id for s in up.result()] == [s.operation_id for s in reversed(down.result())]
    waits.commit()
    assert counts(engine, tenant) == Counts.of(8)


def _first_done(one: Racer[tuple[Staged, ...]], other: Racer[tuple[Staged, ...]]) -> bool:
    until(lambda: not one.alive or not other.alive, "one of both to be done")
    return not one.alive


def test_keys_in_opposite_order_one_by_one_are_a_deadlock_that_says_run_again(engine: Engine, tenant: str) -> None:
    def closing(case: str) -> Callable[[Connection], Staged]:
        return lambda connection: Outbox(tenant=tenant).stage(connection, CloseCase(case=case), workflow="w")

    # Given two transactions that hold what the other wants next
    first, second = staged(engine, closing("case-1")), staged(engine, closing("case-2"))
    first.again(closing("case-2")).wait_blocked()
    second.again(closing("case-1"))
    # Then the server ends one of them, and the caller hears what to do
    done = [_outcome(first), _outcome(second)]
    retries = [error for error in done if isinstance(error, RetryTransaction)]
    assert [retry.sqlstate for retry in retries] == ["40P01"]
    assert isinstance(retries[0].__cause__, DBAPIError)
    first.rollback()
    second.rollback()


def _outcome(racer: Racer[Staged]) -> Staged | Exception:
    try:
        return racer.result()
    except RetryTransaction as error:
        racer.rollback()
        return error


@pytest.mark.invariant(2)
@pytest.mark.parametrize("isolation", LEVELS)
def test_an_event_that_is_published_twice_at_once_is_one_event(engine: Engine, tenant: str, isolation: str) -> None:
    def publish(connection: Connection) -> Published:
        return Outbox(routes=routes, tenant=tenant).publish(connection, CaseClosed(case="case-1"), workflow="w")

    first = Racer(engine, publish, isolation).start()
    assert first.result().created
    second = Racer(engine, publish, isolation).start_blocked()
    first.commit()
    if isolation == "READ COMMITTED":
        assert (second.result().created, second.result().event_id) == (False, first.result().event_id)
    else:
        with pytest.raises(RetryTransaction):
            second.result()
    second.rollback()
    assert counts(engine, tenant) == Counts(events=1, operations=2, payloads=2, entries=2, messages=2)
