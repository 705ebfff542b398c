"""The commands for people, on a real database: what they print, what they change, and how they end."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from host import CloseCase, SendEmail
from sqlalchemy import Engine, make_url, text
from stepper import drive, status_of

from acuse import Ledger, Outbox, State
from acuse.command.main import main
from acuse.embedded import EmbeddedValkey
from acuse.identifier import uuid_of
from acuse.store.evidence import open_incident
from acuse.store.review import Act, possible
from acuse_migrations import HEAD

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def acuse(database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process. Returns its exit code and what it wrote to both streams."""
    monkeypatch.setenv("ACUSE_DATABASE_URL", database_url)
    monkeypatch.setenv("ACUSE_REDIS_URL", redis_url)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def operation(engine: Engine, tenant: str) -> str:
    with engine.begin() as connection:
        return Outbox(tenant=tenant).stage(connection, SendEmail(case="case-1"), workflow="w", call="t").operation_id


def version(engine: Engine, operation: str) -> int:
    return Ledger(engine).get(operation).version


# --- list, show, explain


def test_list_shows_a_tenants_operations_newest_first_and_pages(acuse: Run, engine: Engine, tenant: str) -> None:
    with engine.begin() as connection:
        outbox = Outbox(tenant=tenant)
        staged = [
            outbox.stage(connection, SendEmail(case=f"case-{n}"), workflow="w", call=f"c{n}").operation_id for n in range(3)
        ]
    drive(engine, staged[0], State.UNKNOWN)

    code, out, more = acuse("operations", "list", "--tenant", tenant, "--limit", "2")
    rest = acuse("operations", "list", "--tenant", tenant, "--limit", "2", "--before", staged[1])
    unknown = acuse("operations", "list", "--tenant", tenant, "--state", "unknown")
    nothing = acuse("operations", "list", "--tenant", tenant, "--provider", "crm")

    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["operation", staged[2], staged[1]]
    assert more == f"more: acuse operations list --before {staged[1]}\n"
    assert [line.split()[:2] for line in rest[1].splitlines()[1:]] == [[staged[0], "unknown"]]
    assert rest[2] == ""
    assert [line.split()[0] for line in unknown[1].splitlines()[1:]] == [staged[0]]
    assert len(nothing[1].splitlines()) == 1


def test_what_waits_for_a_person_is_listed_with_the_reason(acuse: Run, engine: Engine, operation: str, tenant: str) -> None:
    drive(engine, operation, State.UNKNOWN)
    with engine.begin() as connection:
        connection.execute(
            text("update acuse.operation set held = 'nobody can tell', due_at = null, version = version + 1 where id = :id"),
            {"id": uuid_of(operation, prefix="op", field="id")},
        )
    _, out, _ = acuse("operations", "list", "--tenant", tenant, "--held")
    assert out.splitlines()[1].endswith("nobody can tell")
    assert operation in out


def test_list_and_show_as_json_are_for_machines(acuse: Run, engine: Engine, operation: str, tenant: str) -> None:
    drive(engine, operation, State.CONFIRMED)
    [listed] = json.loads(acuse("operations", "list", "--tenant", tenant, "--json")[1])
    shown: dict[str, Any] = json.loads(acuse("operations", "show", operation, "--json")[1])

    assert (listed["operation_id"], listed["state"], listed["result_id"]) == (operation, "confirmed", "R-1")
    assert shown["why"].startswith("It happened: R-1")
    assert [entry["what"] for entry in shown["history"] if entry["kind"] == "transition"] == ["staged", "dispatched", "settled"]
    assert shown["created_at"].endswith("+00:00")


def test_show_prints_every_fact_and_the_whole_history(acuse: Run, engine: Engine, operation: str) -> None:
    drive(engine, operation, State.UNKNOWN)
    code, out, _ = acuse("operations", "show", operation)
    assert code == 0
    facts, history = out.split("\nhistory\n")
    assert re.search(rf"^version +{version(engine, operation)}$", facts, re.MULTILINE)
    assert "owner@example.org" not in out, "a payload"
    assert re.search(r"staged +· -> prepared +host", history)
    assert re.search(r"ambiguous +attempt +worker +the connection closed after the request", history)
    assert re.search(r"settled +dispatching -> unknown +worker", history)


def test_explain_says_what_happened_what_waits_and_what_comes_next(acuse: Run, engine: Engine, tenant: str) -> None:
    outbox = Outbox(tenant=tenant)
    with engine.begin() as connection:
        first = outbox.stage(connection, SendEmail(case="case-1"), workflow="w", call="1").operation_id
        outbox.stage(connection, CloseCase(case="case-1"), workflow="w", call="2", after=[first])
    drive(engine, first, State.UNKNOWN)

    code, out, _ = acuse("operations", "explain", first)
    said = json.loads(acuse("operations", "explain", first, "--json")[1])

    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith(f"{first} · email.send.v1 · case-1 · email/default · unknown for ")
    assert re.fullmatch(r"Sent once at [\d:]{8} UTC; the connection closed after the request\.", lines[1])
    assert "1 operation waits behind it: crm.close_case.v1 (case-1)." in lines
    assert "the recipient gets the same email twice" in out
    assert (said["operation"], said["version"], len(said["lines"])) == (first, version(engine, first), len(lines))


@pytest.mark.parametrize("act", ["show", "explain"])
def test_an_operation_that_does_not_exist_is_said_not_to(acuse: Run, act: str) -> None:
    missing = f"op_{uuid4().hex}"
    code, out, error = acuse("operations", act, missing)
    assert (code, out) == (2, "")
    assert error.startswith(f"acuse operations: no operation '{missing}'")


def test_what_is_no_id_is_said_to_be_none(acuse: Run) -> None:
    code, _, error = acuse("operations", "show", "case-318")
    assert code == 2
    assert "operation_id" in error


def test_a_reader_that_has_seen_enough_causes_no_traceback() -> None:
    command = [sys.executable, "-m", "acuse", "migrate", "--sql"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 0


# --- acts

FROM = {Act.SUSPECT: State.PREPARED, Act.RESUME: State.PREPARED}


def words(act: Act, operation: str, seen: int, *more: str) -> tuple[str, ...]:
    result = ("--result-id", "T-81") if act is Act.CONFIRM else ()
    name = act.value.replace("_", "-")
    return ("operations", name, operation, "--version", str(seen), "--reason", "looked at it", *result, *more)


@pytest.mark.parametrize("act", list(Act))
def test_an_act_on_the_version_that_was_seen_is_done_and_on_record(acuse: Run, engine: Engine, operation: str, act: Act) -> None:
    drive(engine, operation, FROM.get(act, State.UNKNOWN))
    seen = version(engine, operation)

    code, out, error = acuse(*words(act, operation, seen, "--by", "ana"))

    state = status_of(engine, operation)
    assert (code, out, error) == (0, f"{operation} is {state}, version {version(engine, operation)}\n", "")
    acts = [entry for entry in Ledger(engine).history(operation) if entry.kind == "transition" and entry.by == "operator"]
    assert [(entry.what, entry.actor, entry.why) for entry in acts] == [(act.value, "ana", "looked at it")]


@pytest.mark.parametrize("act", list(Act))
def test_an_act_on_an_older_version_changes_nothing_and_names_the_current_one(
    acuse: Run, engine: Engine, operation: str, act: Act
) -> None:
    drive(engine, operation, FROM.get(act, State.UNKNOWN))
    before = Ledger(engine).get(operation)

    code, out, error = acuse(*words(act, operation, before.version - 1, "--by", "ana"))

    assert (code, out) == (2, "")
    assert f"after version {before.version - 1} was read, it is at {before.version}; read it again" in error
    after = Ledger(engine).get(operation)
    assert (after.state, after.version) == (before.state, before.version)


def test_an_act_that_the_state_does_not_allow_names_those_that_it_does(acuse: Run, engine: Engine, operation: str) -> None:
    code, _, error = acuse(*words(Act.CONFIRM, operation, version(engine, operation), "--by", "ana"))
    assert code == 2
    assert f"possible now: {', '.join(possible(State.PREPARED))}" in error


def test_an_account_without_a_name_has_to_give_one(
    acuse: Run, engine: Engine, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: (_ for _ in ()).throw(KeyError("uid 10001")))
    code, _, error = acuse(*words(Act.REJECT, operation, version(engine, operation)))
    assert (code, error) == (2, "acuse operations: say who you are, for the record: --by NAME\n")
    assert status_of(engine, operation) is State.PREPARED


# --- accounts and incidents


def test_an_account_is_paused_listed_and_resumed(acuse: Run) -> None:
    account = uuid4().hex[:12]
    paused = acuse("accounts", "pause", "ticket", account, "--by", "ana", "--reason", "they asked us to stop")
    listed = acuse("accounts", "list")
    as_json = json.loads(acuse("accounts", "list", "--json")[1])
    resumed, again = acuse("accounts", "resume", "ticket", account), acuse("accounts", "resume", "ticket", account)

    assert paused[:2] == (0, f"ticket/{account} is paused until it is resumed; what is in the air ends by itself\n")
    [row] = [line for line in listed[1].splitlines() if account in line]
    assert re.split(r" {2,}", row) == ["ticket", account, "paused", "it is resumed", "ana", "they asked us to stop"]
    [one] = [one for one in as_json if one["account"] == account]
    assert (one["paused"], one["paused_until"], one["paused_by"]) == (True, None, "ana")
    assert resumed[0] == 0
    assert again[:2] == (1, f"ticket/{account} was not paused: see acuse accounts list\n")


def test_an_account_gets_limits_that_are_listed_and_lifted(acuse: Run) -> None:
    account = uuid4().hex[:12]
    words = ("accounts", "limit", "ticket", account, "--by", "ana", "--reason", "their terms")
    limited = acuse(*words, "--concurrent", "4", "--per-second", "2.5")
    [row] = [line for line in acuse("accounts", "list")[1].splitlines() if account in line]
    [one] = [one for one in json.loads(acuse("accounts", "list", "--json")[1]) if one["account"] == account]
    lifted = acuse(*words, "--none")
    [after] = [one for one in json.loads(acuse("accounts", "list", "--json")[1]) if one["account"] == account]

    assert limited[:2] == (0, f"ticket/{account}: at most 4 calls at once and at most 2.5 calls a second\n")
    assert re.split(r" {2,}", row) == ["ticket", account, "ok", "4 at once, 2.5/s", "their terms"]
    assert (one["max_concurrent"], one["max_per_second"], one["limited_by"]) == (4, 2.5, "ana")
    assert lifted[:2] == (0, f"ticket/{account}: no limits any more\n")
    assert (after["max_concurrent"], after["max_per_second"]) == (None, None)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "limit: give --concurrent N, --per-second R or both"),
        (("--none", "--concurrent", "4"), "limit: give --concurrent N"),
        (("--concurrent", "0"), "concurrent: must be 1 to"),
        (("--per-second", "-1"), "per_second: must be"),
        (("--per-second", "nan"), "per_second: must be"),
    ],
)
def test_a_limit_that_is_none_limits_nothing(acuse: Run, more: tuple[str, ...], said: str) -> None:
    account = uuid4().hex[:12]
    code, _, error = acuse("accounts", "limit", "ticket", account, "--by", "ana", "--reason", "r", *more)
    assert (code, said in error) == (2, True)
    assert account not in acuse("accounts", "list")[1]


def test_an_open_breaker_is_listed_and_resume_lets_its_probe_through(acuse: Run, engine: Engine) -> None:
    account = uuid4().hex[:12]
    with engine.begin() as connection:
        connection.execute(
            text(
                """insert into acuse.account (provider, account, failures, opened_at, openings, open_until, updated_at) values
                   ('ticket', :account, 7, '2026-11-30 08:00Z', 3, clock_timestamp() + interval '5 min', clock_timestamp())"""
            ),
            {"account": account},
        )

    [row] = [line for line in acuse("accounts", "list")[1].splitlines() if account in line]
    resumed, again = acuse("accounts", "resume", "ticket", account), acuse("accounts", "resume", "ticket", account)

    assert re.split(r" {2,}", row)[:3] == ["ticket", account, "breaker"]
    assert row.endswith("breaker: no answer since 2026-11-30 08:00:00Z, 7 failures in a row")
    assert (resumed[0], again[0]) == (0, 1)
    with engine.connect() as connection:
        still = connection.execute(
            text("select opened_at is not null and open_until <= clock_timestamp() from acuse.account where account = :account"),
            {"account": account},
        ).scalar_one()
    assert still


def test_a_pause_has_an_end_by_length_or_by_time(acuse: Run, engine: Engine) -> None:
    account = uuid4().hex[:12]
    words = ("accounts", "pause", "ticket", account, "--by", "ana", "--reason", "maintenance")
    assert acuse(*words, "--for", "90m")[0] == 0
    with engine.connect() as connection:
        left = connection.execute(
            text("select paused_until - clock_timestamp() from acuse.account where account = :account"), {"account": account}
        ).scalar_one()
    assert timedelta(minutes=89) < left <= timedelta(minutes=90)
    code, out, _ = acuse(*words, "--until", "2126-11-30T09:00+01:00")
    assert (code, "2126-11-30 08:00:00 UTC" in out) == (0, True)
    assert "2126-11-30 08:00:00Z" in acuse("accounts", "list")[1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--for", "soon"), "for: must be a number with s, m, h or d"),
        (("--until", "9:00"), "until: must be a time like"),
        (("--until", "2126-11-30T09:00"), "until: has no offset"),
        (("--until", "2025-11-30T09:00Z"), "until: is past"),
    ],
)
def test_an_end_that_cannot_be_read_pauses_nothing(acuse: Run, more: tuple[str, str], said: str) -> None:
    account = uuid4().hex[:12]
    code, _, error = acuse("accounts", "pause", "ticket", account, "--by", "ana", "--reason", "r", *more)
    assert code == 2
    assert said in error
    assert account not in acuse("accounts", "list")[1]


def test_an_incident_is_listed_and_closed_once_and_stays_on_record(acuse: Run, engine: Engine, operation: str) -> None:
    with engine.begin() as connection:
        open_incident(connection, uuid_of(operation, prefix="op", field="id"), "duplicate_effect", {"extra": 1})

    [line] = [line for line in acuse("incidents", "list")[1].splitlines() if operation in line]
    [one] = [it for it in json.loads(acuse("incidents", "list", "--json")[1]) if it["operation_id"] == operation]
    closed = acuse("incidents", "close", one["id"], "--by", "ana", "--reason", "merged into T-81")
    again = acuse("incidents", "close", one["id"], "--by", "bo", "--reason", "too late")

    assert line.split()[:3] == [one["id"], "duplicate_effect", operation]
    assert line.endswith("extra=1")
    assert (one["action"], one["target"], one["closed_at"]) == ("email.send.v1", "case-1", None)
    assert closed[:2] == (0, f"{one['id']} is closed\n")
    assert again[0] == 2
    assert "was closed already, by ana" in again[2]
    assert operation not in acuse("incidents", "list")[1]
    [kept] = [it for it in json.loads(acuse("incidents", "list", "--all", "--json")[1]) if it["operation_id"] == operation]
    assert (kept["closed_by"], kept["close_reason"]) == ("ana", "merged into T-81")


@pytest.mark.parametrize(("incident", "said"), [("T-81", "is no id of an incident"), (str(uuid4()), "no incident '")])
def test_an_incident_that_is_none_is_said_to_be_none(acuse: Run, incident: str, said: str) -> None:
    code, _, error = acuse("incidents", "close", incident, "--by", "ana", "--reason", "r")
    assert code == 2
    assert said in error


# --- doctor


def lines_of(out: str, subject: str) -> list[tuple[str, str]]:
    """Level and sentence of every line about a subject."""
    found = [re.split(r" +", line, maxsplit=2) for line in out.splitlines()]
    return [(level, sentence) for level, about, sentence in found if about == subject]


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACUSE_CRM_URL", "ACUSE_TICKET_URL", "ACUSE_EMAIL_SMTP_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("unconfigured")
def test_the_doctor_finds_nothing_wrong_with_a_whole_deployment(acuse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACUSE_TICKET_URL", "https://helpdesk.example")
    code, out, error = acuse("doctor")
    assert (code, error) == (0, ""), out
    assert not [line for line in out.splitlines() if line.startswith("wrong")]
    for subject in ("database", "schema", "partitions", "redis", "adapters"):
        assert lines_of(out, subject)[0][0] == "ok", subject
    assert lines_of(out, "adapters") == [("ok", "ticket: ticket.comment.v1, ticket.create.v1")]
    assert re.search(r"(Redis|Valkey) \d+\.\d+\S* answers", out)


@pytest.mark.usefixtures("unconfigured")
def test_the_doctor_tells_another_schema_from_a_database_that_is_away(
    acuse: Run, servers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a database without our schema
    monkeypatch.setenv("ACUSE_DATABASE_URL", servers[0])
    code, out, _ = acuse("doctor")
    assert code == 1
    [(level, sentence)] = lines_of(out, "schema")
    assert level == "wrong"
    assert sentence.endswith("run `acuse migrate`")
    # And one that does not exist
    away = make_url(servers[0]).set(database="not_there").render_as_string(hide_password=False)
    monkeypatch.setenv("ACUSE_DATABASE_URL", away)
    code, out, _ = acuse("doctor")
    assert (code, lines_of(out, "database")[0][0]) == (1, "wrong")
    assert "does not answer" in out


@pytest.mark.usefixtures("unconfigured")
def test_the_doctor_says_that_redis_is_away_and_what_that_means(acuse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACUSE_REDIS_URL", "redis://:geheim@127.0.0.1:1/0")
    code, out, _ = acuse("doctor")
    assert code == 1
    [(level, sentence)] = lines_of(out, "redis")
    assert level == "wrong"
    assert "nothing is lost meanwhile" in sentence
    assert "geheim" not in out


@pytest.mark.usefixtures("unconfigured")
def test_the_doctor_warns_of_a_redis_that_may_drop_queues(acuse: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import redis

    with EmbeddedValkey(tmp_path / "valkey", durable=False) as valkey, redis.Redis.from_url(valkey.redis_url) as client:
        monkeypatch.setenv("ACUSE_REDIS_URL", valkey.redis_url)
        client.config_set("maxmemory", "100mb")
        for policy, level, code in (("allkeys-lru", "wrong", 1), ("volatile-lru", "note", 0), ("noeviction", "ok", 0)):
            client.config_set("maxmemory-policy", policy)
            ended, out, _ = acuse("doctor")
            assert len(out.splitlines()) == len(re.findall(r"^(?:ok|note|wrong) ", out, re.MULTILINE)), (
                "findings and nothing else"
            )
            version, about = lines_of(out, "redis")
            assert version[1].startswith("Valkey ")
            assert (ended, about[0]) == (code, level)
            assert f"maxmemory-policy is {policy}" in about[1] or f"maxmemory-policy {policy}" in about[1]


@pytest.mark.usefixtures("unconfigured")
def test_the_doctor_says_what_a_worker_would_not_start_with(acuse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_of(acuse("doctor")[1], "adapters")[0][0] == "note", "a host that only stages needs none"
    monkeypatch.setenv("ACUSE_TICKET_URL", "https://helpdesk.example")
    monkeypatch.setenv("ACUSE_LEASE_SECONDS", "24")
    code, out, _ = acuse("doctor")
    assert code == 1
    assert (
        "wrong",
        "ticket.create.v1: its deadline of 20 s does not fit a lease of 24 s with 5 s to save the outcome",
    ) in lines_of(out, "adapters")
    monkeypatch.setenv("ACUSE_TICKET_URL", "no address")
    code, out, _ = acuse("doctor")
    assert code == 1
    assert "ACUSE_TICKET_URL" in out
    assert "no address" not in out


@pytest.mark.usefixtures("unconfigured")
def test_a_check_that_fails_takes_no_other_down(acuse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_settings: object) -> None:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr("acuse_adapters.check.check", broken)
    code, out, _ = acuse("doctor")
    assert code == 1
    assert lines_of(out, "adapters") == [("wrong", "its check failed: ZeroDivisionError: by nought")]
    assert lines_of(out, "redis")[0][0] == "ok"


# --- migrate


@pytest.fixture
def empty_url(servers: tuple[str, str], engine: Engine) -> Any:
    """A database without any table of ours."""
    name = f"acuse_test_{uuid4().hex[:12]}"
    admin = engine.execution_options(isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"create database {name}"))
    yield make_url(servers[0]).set(drivername="postgresql+psycopg", database=name).render_as_string(hide_password=False)
    with admin.connect() as connection:
        connection.execute(text(f"drop database {name} with (force)"))


def shape(url: str) -> list[Any]:
    """Every table, column and function of the schema, and its version."""
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        return [
            connection.execute(statement).fetchall()
            for statement in (
                (
                    "select table_name, column_name, data_type from information_schema.columns where table_schema = 'acuse' "
                    "and table_name !~ '_[0-9]{6}$' order by 1, 2"
                ),
                "select proname, md5(prosrc) from pg_proc where pronamespace = 'acuse'::regnamespace order by 1, 2",
                (
                    "select conname, pg_get_constraintdef(oid) from pg_constraint where connamespace = 'acuse'::regnamespace "
                    "and conname !~ '_[0-9]{6}_' order by 1, 2"
                ),
                "select version_num from acuse.alembic_version",
            )
        ]


def test_migrate_brings_an_empty_database_to_the_newest_schema_and_a_second_time_changes_nothing(
    acuse: Run, empty_url: str, database_url: str
) -> None:
    said = f"schema acuse is at {HEAD}\n"
    assert acuse("migrate", "--database-url", empty_url) == (0, "", said)
    assert acuse("migrate", "--database-url", empty_url) == (0, "", said)
    assert shape(empty_url) == shape(database_url)


def test_the_printed_sql_makes_the_same_schema(empty_url: str, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given no database at all, when the SQL is printed
    monkeypatch.delenv("ACUSE_DATABASE_URL", raising=False)
    sql = io.StringIO()
    with redirect_stdout(sql):
        assert main(["migrate", "--sql"]) == 0
    # Then whoever runs it has what `acuse migrate` makes
    with psycopg.connect(empty_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(sql.getvalue().encode())
    assert shape(empty_url) == shape(database_url)
    assert shape(empty_url)[-1] == [(HEAD,)]


def test_migrate_says_who_refuses_it(acuse: Run, engine: Engine, empty_url: str) -> None:
    role = f"reader_{uuid4().hex[:8]}"
    with engine.begin() as connection:
        connection.execute(text(f"create role {role} login password 'geheim'"))
    try:
        url = make_url(empty_url).set(username=role, password="geheim").render_as_string(hide_password=False)
        code, out, error = acuse("migrate", "--database-url", url)
        assert (code, out) == (1, "")
        assert error.startswith("acuse migrate: the database refuses, and nothing was changed: permission denied")
        assert "geheim" not in error
    finally:
        with engine.begin() as connection:
            connection.execute(text(f"drop role {role}"))


def test_migrate_says_that_a_database_is_away(acuse: Run) -> None:
    code, _, error = acuse("migrate", "--database-url", "postgresql://u:geheim@127.0.0.1:1/x")
    assert code == 1
    assert error.startswith("acuse migrate: the database does not answer")
    assert "geheim" not in error


def test_a_command_on_a_database_without_the_schema_says_what_to_do(acuse: Run, empty_url: str) -> None:
    for words in (("operations", "list"), ("accounts", "list"), ("incidents", "list")):
        code, out, error = acuse(words[0], "--database-url", empty_url, words[1])
        assert (code, out) == (2, "")
        assert "run `acuse migrate`" in error
    code, _, error = acuse("operations", "--database-url", "postgresql://u:geheim@127.0.0.1:1/x", "list")
    assert code == 2
    assert "the database does not answer" in error
    assert "geheim" not in error
