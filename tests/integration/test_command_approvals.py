"""`acuse approvals` on a real database: what it prints, what it changes, and how it ends."""

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from host import CloseCase, SendEmail
from sqlalchemy import Engine, text
from stepper import AMBIGUOUS, end, send

from acuse import Approvals, ApprovalState, Outbox
from acuse.command.main import main

Run = Callable[..., tuple[int, str, str]]
WHO = ("--by", "ann", "--reason", "checked by phone")


@pytest.fixture
def acuse(database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process. Returns its exit code and what it wrote to both streams."""
    monkeypatch.setenv("ACUSE_DATABASE_URL", database_url)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(("approvals", *words))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def approvals(tenant: str) -> Approvals:
    return Approvals(tenant=tenant)


def ask(engine: Engine, approvals: Approvals, case: str = "case-1", **options: object) -> str:
    with engine.begin() as connection:
        return approvals.request(connection, CloseCase(case=case), workflow="w", **options).approval_id  # type: ignore[arg-type]


def state(engine: Engine, approvals: Approvals, approval: str) -> ApprovalState:
    with engine.connect() as connection:
        return approvals.get(connection, approval).state


def test_list_shows_what_waits_for_a_decision_newest_first_and_pages(
    acuse: Run, engine: Engine, approvals: Approvals, tenant: str
) -> None:
    asked = [ask(engine, approvals, f"case-{n}", reason="the customer wrote", expires_in=timedelta(hours=1)) for n in range(3)]
    with engine.begin() as connection:
        approvals.decide(connection, asked[0], False, by="bob", reason="no")

    code, out, _ = acuse("list", "--tenant", tenant)
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [[asked[2], "pending"], [asked[1], "pending"]]
    assert out.splitlines()[1].endswith("the customer wrote")
    _, out, more = acuse("list", "--tenant", tenant, "--state", "any", "--limit", "2")
    assert len(out.splitlines()) == 3
    assert more == f"more: acuse approvals list --before {asked[1]}\n"
    _, out, more = acuse("list", "--tenant", tenant, "--state", "any", "--before", asked[1])
    assert (out.splitlines()[1].split()[:2], more) == ([asked[0], "denied"], "")
    assert out.splitlines()[1].endswith("bob: no")
    _, out, _ = acuse("list", "--tenant", tenant, "--workflow", "elsewhere", "--json")
    assert json.loads(out) == []


def test_show_hides_nothing_that_a_model_wrote(acuse: Run, engine: Engine, approvals: Approvals) -> None:
    sneaky = "close\x1b[2K\u202ereversed, sí\x9b"
    with engine.begin() as connection:
        said = CloseCase(case="case-1", resolution=sneaky)
        approval = approvals.request(connection, said, workflow="w", by="agent", reason="done").approval_id

    code, out, _ = acuse("show", approval)

    assert code == 0
    assert r'"resolution": "close\u001b[2K\u202ereversed, sí\u009b"' in out
    assert all(one.isprintable() or one == "\n" for one in out)
    assert "requested_by         agent" in out
    assert json.loads(acuse("show", approval, "--json")[1])["payload"]["resolution"] == sneaky


@pytest.mark.parametrize(("act", "ends", "said"), [("approve", "granted", "sent"), ("deny", "denied", "rejected")])
def test_one_answers_and_a_second_one_is_told_who_did(
    acuse: Run, engine: Engine, approvals: Approvals, act: str, ends: str, said: str
) -> None:
    approval = ask(engine, approvals)
    assert acuse(act, approval, *WHO) == (0, f"{approval} is {ends}; what waits for it is {said}\n", "")
    for again in ("approve", "deny"):
        code, out, _ = acuse(again, approval, "--by", "bob", "--reason", "no")
        assert code == 1
        assert out.startswith(f"{approval} was {ends} already, by ann at ")
        assert out.endswith("Z; your answer changed nothing\n")
    assert state(engine, approvals, approval) == ends


def test_an_answer_says_how_long_it_lasts_and_one_that_comes_too_late_is_refused(
    acuse: Run, engine: Engine, approvals: Approvals
) -> None:
    approval, late = ask(engine, approvals), ask(engine, approvals, "case-2", expires_in=timedelta(hours=1))
    acuse("approve", approval, *WHO, "--for", "90m")
    with engine.begin() as connection:
        found = approvals.get(connection, approval)
        assert found.decided_at is not None
        assert found.expires_at == found.decided_at + timedelta(minutes=90)
        connection.execute(
            text("update acuse.approval set expires_at = clock_timestamp() where id = :id"), {"id": late.removeprefix("apr_")}
        )
    code, out, error = acuse("approve", late, *WHO)
    assert (code, out) == (2, "")
    assert "it expired at" in error
    assert state(engine, approvals, late) is ApprovalState.EXPIRED
    assert (
        acuse("approve", approval, *WHO, "--for", "soon")[2]
        == "acuse approvals: for: must be a number with s, m, h or d, like 90m\n"
    )


def test_what_is_taken_back_names_what_may_still_take_effect(
    acuse: Run, engine: Engine, approvals: Approvals, tenant: str
) -> None:
    with engine.begin() as connection:
        approval = approvals.grant(connection, CloseCase(case="case-1"), by="ann")
        one = Outbox(tenant=tenant).stage(connection, CloseCase(case="case-1"), workflow="w", approval=approval).operation_id
    end(engine, send(engine, one), AMBIGUOUS)

    code, out, _ = acuse("revoke", approval, *WHO)

    assert code == 0
    assert out.splitlines() == [
        f"{approval} is revoked; nothing more is sent under it",
        f"{one} is in the air and may still take effect: acuse operations show {one}",
    ]
    denied = ask(engine, approvals, "case-2")
    acuse("deny", denied, *WHO)
    assert acuse("revoke", denied, *WHO)[:2] == (1, f"{denied} is denied already: there is nothing to take back\n")


def test_a_pattern_is_granted_with_its_limits(acuse: Run, engine: Engine, approvals: Approvals, tenant: str) -> None:
    limits = ("--target-prefix", "case-", "--max-uses", "3", "--max-sum", "amount=99.50", "--for", "2h")
    code, out, _ = acuse("grant", SendEmail.declared.name, "--tenant", tenant, *limits, *WHO)
    assert code == 0
    with engine.connect() as connection:
        found = approvals.get(connection, out.strip())
    assert (found.action, found.target_prefix, found.max_uses) == (SendEmail.declared.name, "case-", 3)
    assert (found.sum_field, found.max_sum, found.decided_by) == ("amount", Decimal("99.50"), "ann")
    assert found.expires_at is not None
    assert abs(found.expires_at - found.requested_at - timedelta(hours=2)) < timedelta(minutes=1)
    assert acuse("list", "--tenant", tenant, "--state", "granted")[1].splitlines()[1].split()[3] == "case-*"
    for bad, reason in (
        ((), "a pattern needs a limit"),
        (("--max-sum", "amount"), "amount=500.00"),
        (("--max-sum", "a=-1"), "above zero"),
    ):
        code, _, error = acuse("grant", "email.send.v1", "--tenant", tenant, *bad, *WHO)
        assert code == 2
        assert reason in error


def test_what_does_not_exist_is_said(acuse: Run) -> None:
    nowhere = "apr_01a22b29f50f7366becd753e29cc3883"
    for words in (("show", nowhere), ("approve", nowhere, *WHO), ("revoke", nowhere, *WHO)):
        code, _, error = acuse(*words)
        assert (code, "no approval" in error) == (2, True)
