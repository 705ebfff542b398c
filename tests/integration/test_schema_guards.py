"""What the database refuses by itself, whoever asks."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import pytest
from host import CloseCase, SendEmail
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from stepper import AMBIGUOUS, end, send

from acuse import Approvals, ConfigurationError, Ledger, Outbox, State
from acuse.identifier import uuid_of
from acuse.protocol import ARROWS, arrow
from acuse.store.failure import constraint_of, sqlstate_of

# What the checks of one row want of each state, so that only the arrow can be wrong.
SHAPES: dict[State, str] = {
    State.PREPARED: "doubts = 0, first_sent_at = null, handed_at = now(), claim_until = null, settled_at = null",
    State.DISPATCHING: "doubts = 1, first_sent_at = now(), claim_until = now(), fence = 1, handed_at = null, settled_at = null",
    State.UNKNOWN: "doubts = 1, first_sent_at = now(), due_at = now(), claim_until = null, handed_at = null, settled_at = null",
    State.CONFIRMED: "doubts = 0, result_id = 'R', evidence_at = now(), settled_at = now(), handed_at = null, "
    "claim_until = null, due_at = null",
    State.REJECTED: "doubts = 0, settled_at = now(), handed_at = null, claim_until = null, due_at = null",
}


def stage(connection: Connection, tenant: str) -> UUID:
    staged = Outbox(tenant=tenant).stage(connection, SendEmail(case="case-1"), workflow="w", call="t")
    return uuid_of(staged.operation_id, prefix="op", field="id")


def move(connection: Connection, operation: UUID, state: State) -> None:
    asked = f"update acuse.operation set status = '{state}', version = version + 1, {SHAPES[state]} where id = :id"
    connection.execute(text(asked), {"id": operation})


@pytest.mark.invariant(3)
@pytest.mark.parametrize(("source", "target"), list(product(State, State)))
def test_the_database_knows_the_same_arrows_as_the_protocol(engine: Engine, tenant: str, source: State, target: State) -> None:
    with engine.connect() as connection:
        operation = stage(connection, tenant)
        # Given an operation in the state, by any legal way
        for step in _way_to(source):
            move(connection, operation, step)
        # When somebody writes the other state, with everything else as that state wants it
        moved, refusal = True, None
        try:
            move(connection, operation, target)
        except IntegrityError as error:
            moved, refusal = False, constraint_of(error)
    # Then it is written exactly if there is an arrow; staying is no transition, and has none
    assert moved is (source is target or arrow(source, target) is not None)
    assert refusal == (None if moved else "arrows")


def _way_to(state: State) -> list[State]:
    return [] if state is State.PREPARED else [state] if arrow(State.PREPARED, state) else [State.DISPATCHING, state]


def test_no_state_has_an_arrow_to_itself() -> None:
    assert not [found for found in ARROWS if found.source is found.target]


@pytest.mark.parametrize("state", sorted(set(State) - {State.PREPARED}))
def test_an_operation_is_born_prepared(engine: Engine, tenant: str, state: State) -> None:
    with engine.connect() as connection:
        template = stage(connection, tenant)
        shape = dict(part.split(" = ") for part in SHAPES[state].split(", "))
        columns = [
            *("id", "tenant", "effect_key", "action", "provider", "account", "target", "digest", "created_at", "updated_at"),
            *shape,
        ]
        said = ["acuse.uuid7()", "tenant", "'other'", "action", "provider", "account", "'other'", "digest", "now()", "now()"]
        asked = (
            f"insert into acuse.operation (status, {', '.join(columns)}) "
            f"select '{state}', {', '.join([*said, *shape.values()])} from acuse.operation where id = :id"
        )
        with pytest.raises(IntegrityError, match="born prepared"):
            connection.execute(text(asked), {"id": template})


@pytest.mark.invariant(3)
@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("fence = fence - 1, version = version + 1", "fence_rises"),
        ("reason = 'x'", "version_rises"),
        ("target = 'case-2', version = version + 1", "identity_fixed"),
        ("account = 'other', version = version + 1", "identity_fixed"),
        ("digest = sha256('x'), version = version + 1", "identity_fixed"),
        ("effect_key = 'other', version = version + 1", "identity_fixed"),
        ("doubts = 0, version = version + 1", "in_doubt_while_in_the_air"),
        ("claim_until = null, due_at = now(), version = version + 1", "dispatching_needs_a_claim"),
        ("handed_at = null, claim_until = null, version = version + 1", "dispatching_needs_a_claim"),
    ],
)
def test_numbers_only_rise_and_what_an_operation_is_never_changes(
    engine: Engine, tenant: str, change: str, constraint: str
) -> None:
    with engine.begin() as connection:
        operation = stage(connection, tenant)
    send(engine, f"op_{operation.hex}")
    with engine.connect() as connection, pytest.raises(IntegrityError) as refused:
        connection.execute(text(f"update acuse.operation set {change} where id = :id"), {"id": operation})
    assert constraint_of(refused.value) == constraint


# Append-only


@pytest.fixture
def written(engine: Engine, tenant: str) -> UUID:
    """An operation with ledger entries and evidence."""
    with engine.begin() as connection:
        operation = stage(connection, tenant)
    end(engine, send(engine, f"op_{operation.hex}"), AMBIGUOUS)
    with engine.begin() as connection:
        recorded = text("select acuse.record_evidence(:id, 'lookup', 'l-1', 1, 'absent', '{}', now())")
        connection.execute(recorded, {"id": operation})
    return operation


def partition_of(connection: Connection, table: str, operation: UUID) -> str:
    asked = text(f"select tableoid::regclass::text from acuse.{table} where operation_id = :id limit 1")
    return str(connection.execute(asked, {"id": operation}).scalar_one())


@pytest.mark.parametrize("table", ["ledger", "evidence"])
@pytest.mark.parametrize("where", ["whole", "partition"])
@pytest.mark.parametrize(
    "statement", ["update {} set version = version where operation_id = :id", "delete from {} where operation_id = :id"]
)
def test_history_is_never_rewritten(engine: Engine, written: UUID, table: str, where: str, statement: str) -> None:
    with engine.connect() as connection:
        name = f"acuse.{table}" if where == "whole" else partition_of(connection, table, written)
        with pytest.raises(IntegrityError, match="append-only"):
            connection.execute(text(statement.format(name)), {"id": written})


@pytest.mark.parametrize("table", ["ledger", "evidence"])
@pytest.mark.parametrize("where", ["whole", "partition"])
def test_history_is_never_truncated(engine: Engine, written: UUID, table: str, where: str) -> None:
    with engine.connect() as connection:
        name = f"acuse.{table}" if where == "whole" else partition_of(connection, table, written)
        with pytest.raises(IntegrityError, match="append-only"):
            connection.execute(text(f"truncate {name}"))


def test_history_may_go_with_its_operation(engine: Engine, written: UUID) -> None:
    with engine.connect() as connection:
        connection.execute(text("delete from acuse.operation where id = :id"), {"id": written})
        gone = connection.execute(text("delete from acuse.ledger where operation_id = :id"), {"id": written})
        assert gone.rowcount > 0


# The host's role


@pytest.fixture
def role(engine: Engine) -> Iterator[str]:
    """A role that may use the schema, and nothing else."""
    name = f"host_{uuid4().hex[:12]}"
    with engine.begin() as connection:
        connection.execute(text(f"create role {name}"))
        connection.execute(text(f"grant usage on schema acuse to {name}"))
    yield name
    with engine.begin() as connection:
        connection.execute(text(f"drop owned by {name}"))
        connection.execute(text(f"drop role {name}"))


class _Message:
    queue_name, actor_name, message_id = "host", "remember", "m-1"
    args: Any = ()
    kwargs: dict[str, Any] = {}  # noqa: RUF012 - shaped like a message
    options: dict[str, Any] = {}  # noqa: RUF012 - shaped like a message


def test_a_role_with_usage_and_execute_can_do_all_that_a_host_does(engine: Engine, role: str, tenant: str) -> None:
    outbox, approvals, ledger = Outbox(tenant=tenant), Approvals(tenant=tenant), Ledger(engine, tenant=tenant)
    with engine.connect() as connection:
        connection.execute(text(f"set local role {role}"))
        approval = approvals.grant(connection, CloseCase(case="case-1"), by="ann", expires_in=timedelta(hours=1))
        first = outbox.stage(connection, CloseCase(case="case-1"), workflow="w", approval=approval)
        outbox.stage(connection, SendEmail(case="case-1"), workflow="w", call="t", after=first)
        outbox.send(connection, _Message())
        assert approvals.revoke(connection, approval, by="ann", reason="changed my mind") == ()
        assert ledger.cancel(connection, first.operation_id, by="ann", reason="no need").cancelled
        assert ledger.cancel_workflow(connection, "w", by="ann", reason="no need") == ()
        assert ledger.withdraw_flow_version(connection, "1", by="ann", reason="wrong") == ()


def test_that_role_reads_and_writes_no_table(engine: Engine, role: str) -> None:
    with engine.connect() as connection:
        tables = connection.execute(text("select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
                                         "where n.nspname = 'acuse' and c.relkind in ('r', 'p')")).scalars().all()  # fmt: skip
        assert len(tables) > 20
        connection.execute(text(f"set local role {role}"))
        for name, statement in product(
            tables, ("select 1 from acuse.{}", "insert into acuse.{} default values", "delete from acuse.{}")
        ):
            nested = connection.begin_nested()
            with pytest.raises(ProgrammingError) as refused:
                connection.execute(text(statement.format(name)))
            assert sqlstate_of(refused.value) == "42501"
            nested.rollback()


@pytest.mark.parametrize(
    "act", ["operate(null, 1, 'confirm', 'x', 'x', 'x')", "pause_account('crm', 'x', null, 'x', 'x')", "claim(null, null)"]
)
def test_that_role_cannot_do_what_workers_and_operators_do(engine: Engine, role: str, act: str) -> None:
    with engine.connect() as connection:
        connection.execute(text(f"set local role {role}"))
        with pytest.raises(DBAPIError) as refused:
            connection.execute(text(f"select acuse.{act}"))
        assert sqlstate_of(refused.value) == "42501"


def test_a_role_without_usage_is_told_what_to_grant(engine: Engine, tenant: str) -> None:
    name = f"stranger_{uuid4().hex[:12]}"
    with engine.connect() as connection:
        connection.execute(text(f"create role {name}"))
        connection.execute(text(f"set local role {name}"))
        with pytest.raises(ConfigurationError, match="grant it usage on schema acuse"):
            Outbox(tenant=tenant).stage(connection, CloseCase(case="case-1"), workflow="w")
