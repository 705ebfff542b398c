"""What operators do: on the version that they saw, with a name and a reason; and pausing an account."""

from datetime import UTC, datetime, timedelta
from itertools import product
from uuid import uuid4

import pytest
from host import SendEmail
from sqlalchemy import Engine
from stepper import drive, status_of, take, try_dispatch

from acuse import InvalidField, Ledger, NotFound, Outbox, State, VersionConflict
from acuse.store.account import accounts, pause, resume
from acuse.store.review import Act, Operated, operate, possible

AFTER = {
    Act.CONFIRM: State.CONFIRMED,
    Act.REJECT: State.REJECTED,
    Act.RECHECK: State.UNKNOWN,
    Act.ACCEPT_RISK: State.UNKNOWN,
    Act.SUSPECT: State.UNKNOWN,
    Act.RESUME: State.PREPARED,
}


@pytest.fixture
def operation(engine: Engine, tenant: str) -> str:
    with engine.begin() as connection:
        return Outbox(tenant=tenant).stage(connection, SendEmail(case="case-1"), workflow="w", call="t").operation_id


def act(engine: Engine, operation: str, what: Act, version: int | None = None, reason: str = "looked at it") -> Operated:
    seen = Ledger(engine).get(operation).version if version is None else version
    result = "R-9" if what is Act.CONFIRM else None
    with engine.begin() as connection:
        return operate(connection, operation, what, version=seen, actor="ann", reason=reason, result_id=result)


@pytest.mark.parametrize(("state", "what"), list(product(State, Act)))
def test_an_act_is_possible_in_the_states_that_say_so_and_in_no_other(
    engine: Engine, operation: str, state: State, what: Act
) -> None:
    drive(engine, operation, state)
    if what not in possible(state):
        with pytest.raises(InvalidField, match=f"{what} is not possible while the operation is {state}"):
            act(engine, operation, what)
        assert status_of(engine, operation) is state
        return
    before = Ledger(engine).get(operation)
    done = act(engine, operation, what)
    assert (done.operation_id, done.state, done.version) == (operation, AFTER[what], before.version + 1)
    last = Ledger(engine).history(operation)[-2]
    assert (last.what, last.by, last.actor, last.why) == (what, "operator", "ann", "looked at it")
    if what is Act.CONFIRM:
        assert Ledger(engine).get(operation).result_id == "R-9"


def test_whoever_judged_an_older_version_is_told_which_is_current_and_who_made_it(engine: Engine, operation: str) -> None:
    drive(engine, operation, State.UNKNOWN)
    seen = Ledger(engine).get(operation).version
    act(engine, operation, Act.RECHECK, seen)
    with pytest.raises(VersionConflict) as conflict:
        act(engine, operation, Act.REJECT, seen)
    error = conflict.value
    assert (error.operation_id, error.expected, error.found, error.by) == (operation, seen, seen + 1, "ann")
    assert error.at is not None
    assert status_of(engine, operation) is State.UNKNOWN


def test_an_act_needs_a_name_a_reason_and_a_result_where_it_claims_one(engine: Engine, operation: str) -> None:
    drive(engine, operation, State.UNKNOWN)
    with engine.connect() as connection:
        for field, options in (
            ("actor", {"actor": "", "reason": "x"}),
            ("reason", {"actor": "ann", "reason": ""}),
            ("result_id", {"actor": "ann", "reason": "x"}),
        ):
            with pytest.raises(InvalidField) as refused:
                operate(connection, operation, Act.CONFIRM, version=1, **options)  # type: ignore[arg-type]
            assert refused.value.field == field
        with pytest.raises(InvalidField, match="belongs to confirm"):
            operate(connection, operation, Act.REJECT, version=1, actor="ann", reason="x", result_id="R")
        with pytest.raises(NotFound):
            operate(connection, "op_01a22b29f50f7366becd753e29cc3883", Act.REJECT, version=1, actor="ann", reason="x")


def test_a_paused_account_starts_nothing_until_it_is_resumed(engine: Engine, tenant: str) -> None:
    account = f"acc-{uuid4().hex[:12]}"
    with engine.begin() as connection:
        staged = Outbox(tenant=tenant).stage(connection, SendEmail(case="case-1"), workflow="w", call="t", account=account)
        pause(connection, "email", account, by="ann", reason="quota")
        [found] = [a for a in accounts(connection) if a.account == account]
    assert (found.paused, found.paused_by, found.pause_reason, found.paused_until) == (True, "ann", "quota", None)
    claimed = take(engine, staged.operation_id)
    assert try_dispatch(engine, claimed).gate == "account_paused"
    with engine.begin() as connection:
        assert resume(connection, "email", account)
        assert not resume(connection, "email", account)
        [found] = [a for a in accounts(connection) if a.account == account]
    assert (found.paused, found.paused_at) == (False, None)


def test_a_pause_may_have_an_end(engine: Engine) -> None:
    account = f"acc-{uuid4().hex[:12]}"
    with engine.connect() as connection:
        end = datetime.now(UTC) + timedelta(hours=1)
        pause(connection, "email", account, by="ann", reason="quota", until=end)
        assert [(a.paused, a.paused_until) for a in accounts(connection) if a.account == account] == [(True, end)]
        with pytest.raises(InvalidField, match="time zone"):
            pause(connection, "email", account, by="ann", reason="quota", until=datetime(2030, 1, 1))  # noqa: DTZ001
