"""What the ledger says: the state, the reason, the next step, the whole history; and cancelling what is not in the air yet."""

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from host import CloseCase, SendEmail
from sqlalchemy import Connection, Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine
from stepper import ACCEPTED, AMBIGUOUS, NOT_SENT, drive, end, send, status_of, take, try_dispatch

from acuse import (
    AsyncLedger,
    AsyncOutbox,
    ConfigurationError,
    InvalidField,
    Ledger,
    NotFound,
    Outbox,
    Receipt,
    Staged,
    State,
)
from acuse.identifier import uuid_of
from acuse.protocol import Absent
from acuse.store.evidence import record
from acuse.store.review import Act, operate

NOWHERE = "op_01a22b29f50f7366becd753e29cc3883"


@pytest.fixture
def ledger(engine: Engine, tenant: str) -> Ledger:
    return Ledger(engine, tenant=tenant)


def stage(engine: Engine, tenant: str, call: str = "t1", **options: Any) -> str:
    with engine.begin() as connection:
        return _stage(connection, tenant, call, **options).operation_id


def _stage(connection: Connection, tenant: str, call: str, **options: Any) -> Staged:
    return Outbox(tenant=tenant).stage(connection, SendEmail(case="case-1", subject=call), workflow="w", call=call, **options)


# Reading one


def test_a_prepared_operation_says_what_it_is(engine: Engine, ledger: Ledger, tenant: str) -> None:
    before = datetime.now(UTC)
    found = ledger.get(stage(engine, tenant, flow_version="3", value=12.5, distinct=True))
    assert (found.tenant, found.state, found.version, found.generation) == (tenant, State.PREPARED, 1, 0)
    assert (found.workflow, found.flow_version, found.call, found.distinct) == ("w", "3", "t1", True)
    assert (found.action, found.provider, found.account, found.target) == ("email.send.v1", "email", "default", "case-1")
    assert (found.attempts, found.doubts, found.receipt, found.result_id) == (0, 0, None, None)
    assert found.value == 12.5
    assert found.created_at.tzinfo is UTC
    assert abs(found.created_at - before) < timedelta(minutes=5)
    assert found.handed_at == found.created_at
    assert found.why == "Nothing was sent yet."
    assert found.what_next == "It is sent as soon as a worker is free."


def test_a_confirmed_operation_has_a_receipt(engine: Engine, ledger: Ledger, tenant: str) -> None:
    operation = stage(engine, tenant)
    drive(engine, operation, State.CONFIRMED)
    found = ledger.get(operation)
    assert (found.state, found.outcome_code, found.receipt) == (State.CONFIRMED, "accepted", Receipt("R-1", "7", "req-1"))
    assert found.why == "It happened: R-1 at the provider, version 7: the provider accepted it."
    assert found.what_next == "Nothing: it is settled."


@pytest.mark.parametrize(
    ("state", "why", "what_next"),
    [
        (State.DISPATCHING, "Attempt 1 was sent at ", "The worker settles it by "),
        (State.UNKNOWN, "Sent once at ", "It is looked for, or repeated where that is safe, from "),
        (State.REJECTED, "The provider refused it: no such case.", "Nothing: it is settled."),
    ],
)
def test_every_state_reads_as_a_sentence(
    engine: Engine, ledger: Ledger, tenant: str, state: State, why: str, what_next: str
) -> None:
    operation = stage(engine, tenant)
    drive(engine, operation, state)
    found = ledger.get(operation)
    assert found.why.startswith(why)
    assert found.what_next.startswith(what_next)
    assert (found.receipt, found.attempts, found.doubts) == (None, 1, 0 if state is State.REJECTED else 1)


def test_what_was_proven_not_sent_is_tried_again_later(engine: Engine, ledger: Ledger, tenant: str) -> None:
    operation = stage(engine, tenant)
    end(engine, send(engine, operation), NOT_SENT)
    found = ledger.get(operation)
    assert found.why == "Sent once, and it is certain that nothing came of it: connection refused."
    assert found.what_next.startswith("It is sent from 20")
    assert (found.state, found.first_sent_at) == (State.PREPARED, None)


def test_what_waits_names_what_it_waits_for(engine: Engine, ledger: Ledger, tenant: str) -> None:
    first = stage(engine, tenant, "t1")
    second = stage(engine, tenant, "t2", after=first)
    assert try_dispatch(engine, take(engine, second)).gate == "dependency_waiting"
    found = ledger.get(second)
    assert (found.waiting, found.waits_for) == ("dependency", (first,))
    assert found.why == "Nothing was sent: it waits for others."
    assert found.what_next == f"It is sent when {first} is confirmed."
    drive(engine, first, State.CONFIRMED)
    assert ledger.get(second).waits_for == ()


def test_what_is_held_names_the_person_s_question(engine: Engine, ledger: Ledger, tenant: str) -> None:
    operation = stage(engine, tenant)
    drive(engine, operation, State.UNKNOWN)
    with engine.begin() as connection:
        asked = text("update acuse.operation set held = 'look at it', due_at = null, version = version + 1 where id = :id")
        connection.execute(asked, {"id": uuid_of(operation, prefix="op", field="id")})
    assert ledger.get(operation).what_next == "A person has to decide: look at it."


def test_what_is_not_there_is_not_found(engine: Engine, ledger: Ledger, tenant: str) -> None:
    foreign = stage(engine, f"{tenant}-b")
    for operation in (NOWHERE, foreign):
        for read in (ledger.get, ledger.history, lambda o: ledger.wait(o, timeout=30)):
            with pytest.raises(NotFound) as missing:
                read(operation)
            assert (missing.value.what, missing.value.id) == ("operation", operation)
    assert Ledger(engine).get(foreign).tenant == f"{tenant}-b"
    with pytest.raises(InvalidField, match="operation_id"):
        ledger.get("op_1")


def test_a_ledger_of_its_own_opens_and_closes_its_connections(database_url: str, engine: Engine, tenant: str) -> None:
    operation = stage(engine, tenant)
    ledger = Ledger(database_url)
    assert ledger.get(operation).operation_id == operation
    ledger.close()
    with pytest.raises(ConfigurationError):
        Ledger("mysql://localhost/x")
    with pytest.raises(ConfigurationError, match="takes a SQLAlchemy Engine or a URL, not int"):
        Ledger(5432)  # type: ignore[arg-type]


# Waiting


def test_waiting_ends_when_it_is_settled(engine: Engine, ledger: Ledger, tenant: str) -> None:
    operation = stage(engine, tenant)
    sent = send(engine, operation)
    settling = threading.Thread(target=end, args=(engine, sent, ACCEPTED))
    settling.start()
    began = time.monotonic()
    assert ledger.wait(operation, timeout=30).state is State.CONFIRMED
    assert time.monotonic() - began < 10
    settling.join()


def test_the_deadline_brings_the_truth_and_never_an_error(engine: Engine, ledger: Ledger, tenant: str) -> None:
    operation = stage(engine, tenant)
    assert ledger.wait(operation, timeout=0).state is State.PREPARED
    drive(engine, operation, State.UNKNOWN)
    began = time.monotonic()
    assert ledger.wait(operation, timeout=timedelta(milliseconds=60)).state is State.UNKNOWN
    assert 0.06 <= time.monotonic() - began < 5
    assert ledger.wait(operation, timeout=30, until={State.UNKNOWN}).state is State.UNKNOWN


async def test_the_asynchronous_ledger_says_the_same(
    database_url: str, async_engine: AsyncEngine, engine: Engine, tenant: str
) -> None:
    ledger = AsyncLedger(async_engine, tenant=tenant)
    async with async_engine.begin() as connection:
        staged = await AsyncOutbox(tenant=tenant).stage(connection, SendEmail(case="case-1"), workflow="w", call="t")
    operation = staged.operation_id
    assert (await ledger.wait(operation, timeout=0.03)).state is State.PREPARED
    drive(engine, operation, State.CONFIRMED)
    assert (await ledger.wait(operation, timeout=30)).receipt == Receipt("R-1", "7", "req-1")
    assert (await ledger.get(operation)).version == Ledger(engine).get(operation).version
    assert await ledger.history(operation) == Ledger(engine).history(operation)
    assert [o.operation_id for o in (await ledger.find(state=State.CONFIRMED)).operations] == [operation]
    async with async_engine.begin() as connection:
        assert not (await ledger.cancel(connection, operation, by="ann", reason="late")).cancelled
        assert await ledger.cancel_workflow(connection, "w", by="ann", reason="late") == ()
        assert await ledger.withdraw_flow_version(connection, "1", by="ann", reason="late") == ()
    with pytest.raises(NotFound):
        await ledger.wait(NOWHERE, timeout=30)
    own = AsyncLedger(database_url)
    assert (await own.get(operation)).state is State.CONFIRMED
    await own.close()


# History


def test_the_history_tells_everything_in_order_with_who_and_why(engine: Engine, ledger: Ledger, tenant: str) -> None:
    operation = stage(engine, tenant)
    sent = send(engine, operation)
    end(engine, sent, AMBIGUOUS)
    with engine.begin() as connection:
        record(connection, sent[0].id, "lookup", "l-1", 1, Absent(), datetime.now(UTC))
        version = ledger.get(operation).version + 1
        operate(connection, operation, Act.CONFIRM, version=version, actor="ann", reason="seen there", result_id="R-9")
    story = ledger.history(operation)
    assert [(entry.kind, entry.what, entry.by, entry.actor) for entry in story] == [
        ("transition", "staged", "host", "t1"),
        ("transition", "dispatched", "worker", None),
        ("attempt", "ambiguous", "worker", None),
        ("transition", "settled", "worker", None),
        ("transition", "evidence", "evidence", "lookup"),
        ("evidence", "absent", "evidence", "lookup"),
        ("transition", "confirm", "operator", "ann"),
        ("evidence", "found", "operator", "ann"),
    ]
    moves = [(entry.from_state, entry.to_state) for entry in story if entry.kind == "transition"]
    assert moves == [
        (None, State.PREPARED),
        (State.PREPARED, State.DISPATCHING),
        (State.DISPATCHING, State.UNKNOWN),
        (State.UNKNOWN, State.UNKNOWN),
        (State.UNKNOWN, State.CONFIRMED),
    ]
    assert [entry.why for entry in story if entry.what in ("settled", "confirm")] == [AMBIGUOUS.reason, "seen there"]
    attempt = story[2]
    assert (attempt.attempt, attempt.detail["contract_version"], attempt.detail["deadline_seconds"]) == (1, "test-1", 5.0)
    assert attempt.detail["provider_key"] == operation
    versions = [entry.version for entry in story]
    assert versions == sorted(versions)
    assert ledger.get(operation).why == "A person confirmed it as R-9 at the provider: seen there."


# Finding


def test_operations_are_found_by_what_they_are(engine: Engine, ledger: Ledger, tenant: str) -> None:
    operations = [stage(engine, tenant, f"t{n}") for n in range(3)]
    with engine.begin() as connection:
        closed = Outbox(tenant=tenant).stage(connection, CloseCase(case="case-1"), workflow="x").operation_id
        stage(engine, f"{tenant}-b")
    drive(engine, operations[0], State.UNKNOWN)
    drive(engine, operations[1], State.REJECTED)

    def found(**filters: Any) -> set[str]:
        return {record.operation_id for record in ledger.find(**filters).operations}

    assert found() == {*operations, closed}
    assert found(state=State.UNKNOWN) == {operations[0]}
    assert found(state=[State.UNKNOWN, State.REJECTED]) == set(operations[:2])
    assert found(state=[]) == set()
    assert found(provider="crm") == found(workflow="x") == {closed}
    assert found(held=True) == set()
    assert found(held=False, state=State.PREPARED, provider="email") == {operations[2]}
    assert {r.tenant for r in Ledger(engine).find(tenant=f"{tenant}-b").operations} == {f"{tenant}-b"}
    with pytest.raises(InvalidField, match="tenant"):
        ledger.find(tenant=f"{tenant}-b")
    for limit in (0, 501):
        with pytest.raises(InvalidField, match="limit"):
            ledger.find(limit=limit)


def test_pages_follow_each_other_newest_first_without_gap_or_double(engine: Engine, ledger: Ledger, tenant: str) -> None:
    staged = {stage(engine, tenant, f"t{n}") for n in range(5)}
    seen: list[str] = []
    before = None
    for size in (2, 2, 1):
        page = ledger.find(limit=2, before=before)
        assert len(page.operations) == size
        seen += [record.operation_id for record in page.operations]
        before = page.before
    assert before is None
    assert seen == sorted(staged, reverse=True)


# Cancelling


def test_what_is_prepared_is_cancelled_in_the_caller_s_transaction(engine: Engine, ledger: Ledger, tenant: str) -> None:
    operation = stage(engine, tenant)
    with engine.connect() as connection:
        assert ledger.cancel(connection, operation, by="ann", reason="no need").cancelled
        connection.rollback()
    assert status_of(engine, operation) is State.PREPARED
    with engine.begin() as connection:
        cancelled = ledger.cancel(connection, operation, by="ann", reason="no need")
    assert (cancelled.cancelled, cancelled.state, cancelled.in_the_air) == (True, State.REJECTED, False)
    found = ledger.get(operation)
    assert (found.outcome_code, found.why) == ("cancelled", "It was cancelled before it was sent: no need.")
    assert ledger.history(operation)[-1].actor == "ann"
    with engine.begin() as connection:
        again = ledger.cancel(connection, operation, by="ann", reason="no need")
    assert (again.cancelled, again.state) == (False, State.REJECTED)


@pytest.mark.parametrize("state", [State.DISPATCHING, State.UNKNOWN, State.CONFIRMED])
def test_what_was_sent_is_not_cancelled_and_the_answer_says_so(engine: Engine, ledger: Ledger, tenant: str, state: State) -> None:
    operation = stage(engine, tenant)
    drive(engine, operation, state)
    with engine.begin() as connection:
        answer = ledger.cancel(connection, operation, by="ann", reason="no need")
    assert (answer.cancelled, answer.state) == (False, state)
    assert answer.in_the_air is (state is not State.CONFIRMED)
    assert status_of(engine, operation) is state


def test_an_operation_of_another_tenant_is_not_cancelled(engine: Engine, ledger: Ledger, tenant: str) -> None:
    foreign = stage(engine, f"{tenant}-b")
    with engine.begin() as connection:
        with pytest.raises(NotFound):
            ledger.cancel(connection, foreign, by="ann", reason="no need")
        with pytest.raises(InvalidField, match="tenant"):
            ledger.cancel(connection, foreign, by="ann", reason="no need", tenant=f"{tenant}-b")
        assert connection.execute(text("select 1")).scalar_one() == 1
    assert status_of(engine, foreign) is State.PREPARED


@pytest.mark.invariant(8)
def test_a_cancelled_workflow_sends_nothing_more_and_names_what_is_in_the_air(
    engine: Engine, ledger: Ledger, tenant: str
) -> None:
    sent, waiting = stage(engine, tenant, "t1"), stage(engine, tenant, "t2")
    drive(engine, sent, State.UNKNOWN)
    with engine.begin() as connection:
        assert ledger.cancel_workflow(connection, "w", by="ann", reason="customer left") == (sent,)
    late = stage(engine, tenant, "t3", distinct=True)
    for operation in (waiting, late):
        assert try_dispatch(engine, take(engine, operation)).gate == "workflow_cancelled"
        assert ledger.get(operation).why == "It was cancelled before it was sent: the workflow was cancelled."


@pytest.mark.invariant(8)
def test_a_withdrawn_flow_version_sends_nothing_more(engine: Engine, ledger: Ledger, tenant: str) -> None:
    old, new = stage(engine, tenant, "t1", flow_version="1"), stage(engine, tenant, "t2", flow_version="2")
    with engine.begin() as connection:
        assert ledger.withdraw_flow_version(connection, "1", by="ann", reason="a bug") == ()
    assert try_dispatch(engine, take(engine, old)).gate == "flow_withdrawn"
    assert try_dispatch(engine, take(engine, new)).open
