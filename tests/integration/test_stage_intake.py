"""What happens around the statement: bad values, lost replies, rollbacks, and what may stand in ids, queues and indexes."""

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from drivers import libpq
from host import CaseClosed, CloseCase, Counts, SendEmail, counts, routes
from severed import severed_at_commit
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from acuse import AcuseError, Effect, InvalidField, InvalidPayload, Outbox, Staged, Wish
from acuse.identifier import uuid_of


@pytest.fixture
def outbox(tenant: str) -> Outbox:
    return Outbox(routes=routes, tenant=tenant)


@pytest.mark.case("R055")
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_refused_with_its_path_and_the_transaction_goes_on(
    engine: Engine, outbox: Outbox, tenant: str, bad: float
) -> None:
    with engine.begin() as connection:
        with pytest.raises(InvalidPayload) as refused:
            outbox.stage(connection, Effect("crm.note.v1", "case-1", {"a": {"b": [0, {"c": bad}]}}), effect_key="k")
        assert refused.value.path == "$.a.b[1].c"
        assert outbox.stage(connection, Effect("crm.note.v1", "case-1", {"a": 1}), effect_key="k").created
    assert counts(engine, tenant) == Counts.of(1)


@pytest.mark.case("R056")
@pytest.mark.parametrize("bad", ["a\x00b", "a\ud83d"])
def test_text_that_cannot_be_stored_is_refused_and_the_refusal_can_be(
    engine: Engine, outbox: Outbox, tenant: str, bad: str
) -> None:
    with engine.begin() as connection:
        with pytest.raises(InvalidPayload) as refused:
            outbox.stage(connection, SendEmail(case="case-1", subject=bad), workflow="w", call="t")
        assert refused.value.path == "$.subject"
        assert connection.execute(text("select cast(:e as text)"), {"e": str(refused.value)}).scalar_one() == str(refused.value)
    assert counts(engine, tenant) == Counts.none()


@pytest.mark.case("R056")
@pytest.mark.parametrize("good", ["six characters: \\u0000", "a pair: \U0001f600", 'quotes " and \\ and \u2028'])
@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1"])
def test_text_that_only_looks_bad_arrives_as_it_was(
    database_url: str, engine: Engine, outbox: Outbox, good: str, encoding: str
) -> None:
    host = create_engine(database_url, poolclass=NullPool, connect_args={"client_encoding": encoding})
    with host.begin() as connection:
        staged = outbox.stage(connection, SendEmail(case="case-1", subject=good), workflow="w", call="t")
    assert json.loads(_body(engine, staged))["payload"]["subject"] == good


def _body(engine: Engine, staged: Staged) -> bytes:
    with engine.connect() as connection:
        asked = text(
            "select p.body, o.digest = sha256(p.body) as intact "
            "from acuse.payload p join acuse.operation o using (id) where id = :id"
        )
        row = connection.execute(asked, {"id": uuid_of(staged.operation_id, prefix="op", field="id")}).one()
    assert row.intact
    return bytes(row.body)


@pytest.mark.case("R025")
@pytest.mark.invariant(1)
def test_no_message_is_there_before_the_commit_and_none_after_a_rollback(engine: Engine, outbox: Outbox, tenant: str) -> None:
    with engine.connect() as open_transaction:
        outbox.publish(open_transaction, CaseClosed(case="case-1"), workflow="w")
        assert counts(open_transaction, tenant).messages == 2
        assert counts(engine, tenant) == Counts.none()
        open_transaction.rollback()
    assert counts(engine, tenant) == Counts.none()


@pytest.mark.case("R026")
@pytest.mark.invariant(11)
def test_no_broker_plays_a_part_in_the_commit(
    engine: Engine, outbox: Outbox, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given that nothing but the database can be reached
    database = engine.url.port or 5432
    _refuse_all_but(database, monkeypatch)
    with engine.begin() as connection:
        outbox.publish(connection, CaseClosed(case="case-1"), workflow="w")
    assert counts(engine, tenant) == Counts(events=1, operations=2, payloads=2, entries=2, messages=2)


def _refuse_all_but(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        assert address[1] == port, f"somebody reaches for {address}"
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.mark.case("R035")
@pytest.mark.parametrize("forwarded", [True, False], ids=["carried out", "never heard"])
def test_a_caller_that_lost_the_reply_to_its_commit_runs_again_and_there_is_one_operation(
    database_url: str, engine: Engine, outbox: Outbox, tenant: str, forwarded: bool
) -> None:
    with severed_at_commit(database_url, forwarded=forwarded) as severed:
        host = create_engine(severed, poolclass=NullPool)
        with host.connect() as connection:
            first = outbox.stage(connection, CloseCase(case="case-1"), workflow="w")
            with pytest.raises(OperationalError):
                connection.commit()
    with engine.begin() as connection:
        again = outbox.stage(connection, CloseCase(case="case-1"), workflow="w")
        assert again.created is not forwarded
        assert (again.operation_id == first.operation_id) is forwarded
    assert counts(engine, tenant) == Counts.of(1)


@pytest.mark.invariant(13)
def test_ids_keys_and_messages_carry_no_payload(engine: Engine, outbox: Outbox, tenant: str) -> None:
    private = "ann.example@mail.example"
    with engine.begin() as connection:
        published = outbox.publish(connection, CaseClosed(case="case-1", owner=private), workflow="w")
        staged = outbox.stage(connection, SendEmail(case="case-2", to=private), workflow="w", call="t")
    ids = [uuid_of(s.operation_id, prefix="op", field="id") for s in (*published.operations, staged)]
    with engine.connect() as connection:
        asked = "select row_to_json(t)::text from acuse.{} t where {} = any(:ids)"
        for table, column in (("operation", "id"), ("outbox_message", "operation_id"), ("ledger", "operation_id")):
            rows = connection.execute(text(asked.format(table, column)), {"ids": ids}).scalars().all()
            assert len(rows) == 3
            assert not any("ann.example" in row or "@" in row for row in rows)
        events = connection.execute(text("select row_to_json(e)::text from acuse.event e where tenant = :t"), {"t": tenant})
        assert "@" not in events.scalar_one()


def test_everything_that_is_said_beside_the_payload_is_on_the_operation(engine: Engine, outbox: Outbox) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    not_after = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    with engine.connect() as connection:
        first = outbox.stage(connection, CloseCase(case="case-1"), workflow="w")
        staged = outbox.stage(
            connection,
            SendEmail(case="case-1"),
            workflow="w",
            flow_version="2026-11",
            call="toolu_1",
            after=first,
            ordering_key="case-1",
            compensates=first,
            not_after=not_after,
            on_settled="host/remember",
            value=Decimal("12.50"),
            account="second",
            trace=trace,
        )
        row = connection.execute(
            text("select * from acuse.operation where id = :id"), {"id": uuid_of(staged.operation_id, prefix="op", field="id")}
        ).one()
    expected = ("w", "2026-11", "toolu_1", "case-1", "host/remember", Decimal("12.5000"), "second", trace)
    said = (row.workflow_id, row.flow_version, row.call_id, row.ordering_key, row.on_settled, row.value, row.account)
    assert (*said, row.trace_context) == expected
    assert row.not_after == not_after
    assert row.compensates == uuid_of(first.operation_id, prefix="op", field="id")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"workflow": ""}, "workflow"),
        ({"flow_version": "x" * 201}, "flow_version"),
        ({"call": "a\x00"}, "call"),
        ({"effect_key": "x" * 8000}, "effect_key"),
        ({"tenant": ""}, "tenant"),
        ({"trace": "my name is Ann"}, "trace"),
        ({"approval": "apr_1"}, "approval"),
        ({"after": "op_1"}, "after"),
        ({"succeeds": "nonsense"}, "succeeds"),
        ({"compensates": "apr_01a22b29f50f7366becd753e29cc3883"}, "compensates"),
        ({"ordering_key": " x"}, "ordering_key"),
        ({"not_after": datetime(2030, 1, 1)}, "not_after"),  # noqa: DTZ001 - that is the point
        ({"on_settled": "nobody"}, "on_settled"),
        ({"value": 10**16}, "value"),
        ({"value": Decimal("0.00001")}, "value"),
        ({"value": float("nan")}, "value"),
        ({"account": ""}, "account"),
    ],
)
def test_a_bad_field_is_refused_before_the_database_hears_of_it(outbox: Outbox, options: dict[str, Any], field: str) -> None:
    class Silent:
        """Nothing that staging takes: it would be a TypeError to reach it."""

    with pytest.raises(InvalidField) as refused:
        outbox.stage(Silent(), SendEmail(case="case-1"), **({"workflow": "w", "call": "t"} | options))  # type: ignore[arg-type]
    assert refused.value.field == field


def test_the_values_that_just_fit_are_stored(engine: Engine, outbox: Outbox) -> None:
    long = "x" * 200
    with engine.connect() as connection:
        assert outbox.stage(
            connection,
            Effect("crm." + "x" * 93 + ".v1", "ü" * 200, {"text": "x" * 262_000}),
            workflow=long,
            flow_version=long,
            call=long,
            effect_key=long,
            ordering_key=long,
            account="x" * 100,
            tenant="ü" * 100,
            value=Decimal("9999999999999999.9999"),
        ).created


def test_something_else_than_an_intent_is_a_mistake_in_code(outbox: Outbox) -> None:
    with pytest.raises(TypeError, match=r"expected an Action or an Effect, got builtins\.dict"):
        outbox.stage(None, {"action": "crm.close_case.v1"})  # type: ignore[arg-type]


# What the database says


def test_a_missing_schema_and_a_missing_right_are_named(servers: tuple[str, str]) -> None:
    with create_engine(servers[0], poolclass=NullPool).connect() as connection, pytest.raises(AcuseError, match="acuse migrate"):
        Outbox().stage(connection, CloseCase(case="case-1"), workflow="w")


def test_a_transaction_that_is_broken_already_says_so_itself(engine: Engine, outbox: Outbox) -> None:
    import psycopg

    with psycopg.connect(libpq(engine.url.render_as_string(hide_password=False))) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1/0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            outbox.stage(connection, CloseCase(case="case-1"), workflow="w")
        connection.rollback()


def test_many_wishes_are_one_statement(engine: Engine, outbox: Outbox) -> None:
    from sqlalchemy import event

    seen: list[str] = []
    with engine.connect() as connection:
        event.listen(connection, "before_cursor_execute", lambda _c, _cur, statement, *_: seen.append(statement))
        outbox.stage_many(connection, [Wish(SendEmail(case=f"case-{n}"), call=f"t{n}") for n in range(5)], workflow="w")
        outbox.publish(connection, CaseClosed(case="case-1"), workflow="w")
    assert len(seen) == 2
