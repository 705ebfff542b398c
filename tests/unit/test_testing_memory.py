"""The outbox in memory: what a test sees, what is refused, what a rollback takes back. No server, no driver, milliseconds."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from acuse import (
    Action,
    ActionCatalog,
    ApprovalError,
    Approvals,
    ConfigurationError,
    EffectConflict,
    Event,
    IdentityMissing,
    InDoubt,
    InvalidField,
    Ledger,
    Outbox,
    Plan,
    Routes,
    State,
    UnknownAction,
    Wish,
)
from acuse.testing import AsyncFakeSession, FakeSession, MemoryOutbox, accepted, lost_reply, refused
from acuse.testing.opening import open_outbox


class CloseCase(Action, name="crm.close_case.v1", target="case", identity=("case",), overwrites=True):
    case: str
    resolution: str = "onboarded"


class SendEmail(Action, name="email.send.v1", target="case"):
    case: str
    subject: str = "Closed"


class CaseClosed(Event, name="onboarding.case_closed.v1", identity=("case",)):
    case: str


routes = Routes()


@routes.on(CaseClosed)
def close_and_tell(event: CaseClosed, plan: Plan) -> None:
    closed = plan.effect(CloseCase(case=event.case), on_settled="host/settled")
    plan.effect(SendEmail(case=event.case), after=closed)


ANY: Any = object()


@contextmanager
def failing(block: AbstractContextManager[Any]) -> Iterator[None]:
    """A block that does its work and then fails."""
    with pytest.raises(RuntimeError, match="at the end"), block:  # noqa: PT012 - the end of a block is what it is about
        yield
        raise RuntimeError("at the end")


@pytest.fixture
def outbox() -> MemoryOutbox:
    return MemoryOutbox(routes)


def test_what_a_route_makes_is_staged_as_in_production(outbox: MemoryOutbox) -> None:
    said = outbox.publish(ANY, CaseClosed(case="case-318"), workflow="w")

    [closed] = outbox.assert_staged("crm.close_case.v1", target="case-318", payload={"resolution": "onboarded"}, workflow="w")
    [email] = outbox.assert_staged(SendEmail, state="prepared")
    assert said.created
    assert [it.operation_id for it in said.operations] == [closed.operation_id, email.operation_id]
    assert email.waits_for == (closed.operation_id,)
    assert outbox.published(CaseClosed) == ({"case": "case-318"},)
    assert outbox.publish(ANY, CaseClosed(case="case-318"), workflow="w").created is False
    outbox.assert_staged(CloseCase)


def test_the_same_intake_refuses_and_merges(outbox: MemoryOutbox) -> None:
    first = outbox.stage(ANY, SendEmail(case="c"), workflow="w", call="t1")

    assert outbox.stage(ANY, SendEmail(case="c"), workflow="w", call="t1").created is False
    assert outbox.stage(ANY, SendEmail(case="c"), workflow="w", call="t2").in_doubt is True
    with pytest.raises(EffectConflict, match=r"\$\.payload\.subject"):
        outbox.stage(ANY, SendEmail(case="c", subject="Other"), workflow="w", call="t1")
    with pytest.raises(InDoubt):
        outbox.stage(ANY, SendEmail(case="c"), workflow="w", call="t3", raise_in_doubt=True)
    with pytest.raises(IdentityMissing):
        outbox.stage(ANY, SendEmail(case="c"))
    with pytest.raises(InvalidField, match="succeeds"):
        outbox.stage(ANY, SendEmail(case="c"), succeeds=first)
    with pytest.raises(InvalidField, match="after"):
        outbox.stage(ANY, SendEmail(case="d"), effect_key="d", after="op_01a22b29f50f7366becd753e29cc3883")
    with pytest.raises(ApprovalError):
        outbox.stage(ANY, SendEmail(case="d"), effect_key="d", approval="apr_01a22b29f50f7366becd753e29cc3883")
    with pytest.raises(UnknownAction):
        MemoryOutbox(catalog=ActionCatalog([CloseCase])).stage(ANY, SendEmail(case="c"), effect_key="k")
    outbox.assert_staged(SendEmail)


def test_a_refused_list_leaves_nothing(outbox: MemoryOutbox) -> None:
    outbox.stage(ANY, SendEmail(case="c"), effect_key="k")

    with pytest.raises(EffectConflict):
        outbox.stage_many(ANY, [Wish(SendEmail(case="d"), effect_key="a"), Wish(SendEmail(case="e"), effect_key="k")])

    outbox.assert_nothing_staged(SendEmail, target="d")
    outbox.run_effects()
    outbox.assert_staged(SendEmail, state=State.CONFIRMED)


def test_a_fake_session_takes_back_what_was_rolled_back(outbox: MemoryOutbox) -> None:
    session = outbox.session()
    with session.begin():
        outbox.stage(session, SendEmail(case="kept"), effect_key="1")
        with failing(session.begin_nested()):
            outbox.stage(session, SendEmail(case="gone"), effect_key="2")
    with failing(session.begin()):
        outbox.publish(session, CaseClosed(case="gone"), workflow="w")
        Ledger("postgresql://nobody@127.0.0.1:1/none").cancel_workflow(session, "w", by="ada", reason="no")
    outbox.stage(session, SendEmail(case="closed"), effect_key="3")
    session.close()

    assert [it.target for it in outbox.staged()] == ["kept"]
    assert outbox.published() == ()
    assert not session.in_transaction()


def test_the_hosts_own_outbox_and_the_other_faces_take_a_fake_session(outbox: MemoryOutbox) -> None:
    production, session = Outbox(routes), outbox.session()
    approval = Approvals().grant(session, SendEmail(case="c"), by="ada", expires_in=timedelta(minutes=5))
    staged = production.stage(session, SendEmail(case="c"), effect_key="k", approval=approval)
    production.send(session, SimpleNamespace(queue_name="q", actor_name="a", args=(1,), kwargs={}, options={}, message_id="m"))
    session.commit()

    assert Approvals().get(session, approval).stands
    Approvals().revoke(session, approval, by="ada", reason="no")
    session.commit()
    outbox.run_effects({SendEmail: accepted})

    assert outbox.only(SendEmail).outcome_code == "approval_gone"
    assert [(it.address, it.args) for it in outbox.sent] == [("q/a", (1,))]
    assert (
        Ledger("postgresql://nobody@127.0.0.1:1/none").cancel(session, staged.operation_id, by="a", reason="b").cancelled is False
    )


def test_what_is_not_committed_is_not_carried_out(outbox: MemoryOutbox) -> None:
    session = outbox.session()
    outbox.stage(session, SendEmail(case="c"), effect_key="k")

    outbox.assert_staged(SendEmail)
    with pytest.raises(AssertionError, match="1 of the staged operations are not committed"):
        outbox.run_effects()
    session.commit()
    outbox.run_effects()
    outbox.assert_staged(SendEmail, state="confirmed")


@pytest.mark.parametrize("scoped", [False, True])
def test_a_session_of_another_database_has_its_rollbacks_honoured(outbox: MemoryOutbox, scoped: bool) -> None:
    engine = create_engine("sqlite://")
    session: Any = scoped_session(sessionmaker(engine)) if scoped else Session(engine)
    outbox.stage(session, SendEmail(case="1"), effect_key="1")
    with failing(session.begin_nested()):
        outbox.stage(session, SendEmail(case="2"), effect_key="2")
    with session.begin_nested():
        outbox.stage(session, SendEmail(case="3"), effect_key="3")
    session.commit()
    outbox.stage(session, SendEmail(case="4"), effect_key="4")
    session.rollback()
    with session.begin_nested():
        outbox.stage(session, SendEmail(case="5"), effect_key="5")
    session.rollback()
    outbox.stage(session, SendEmail(case="6"), effect_key="6")
    session.close()

    assert [it.target for it in outbox.staged()] == ["1", "3"]
    outbox.run_effects()
    engine.dispose()


async def test_asynchronous_code_stages_in_the_same_ledger(outbox: MemoryOutbox) -> None:
    async_outbox, told = outbox.asynchronous(), []
    async with async_outbox.session() as session:
        async with session.begin():
            await async_outbox.publish(session, CaseClosed(case="c"), workflow="w")
        await async_outbox.stage(session, SendEmail(case="gone"), effect_key="k")
    assert isinstance(session, AsyncFakeSession)

    async def settled(**said: Any) -> None:
        told.append(said["state"])

    await async_outbox.run_effects({CloseCase: accepted}, actors={"host/settled": settled})

    assert told == ["confirmed"]
    assert [it.state for it in outbox.staged()] == ["confirmed", "confirmed"]


def test_errors_list_what_was_staged(outbox: MemoryOutbox) -> None:
    with pytest.raises(AssertionError, match="staged 0 times; nothing was staged"):
        outbox.only(SendEmail)
    outbox.publish(ANY, CaseClosed(case="case-318"), workflow="w")
    outbox.run_effects({CloseCase: lost_reply})

    with pytest.raises(AssertionError) as caught:
        outbox.assert_staged("email.send.v1", target="case-1", payload={"subject": "Hello"}, times=2)
    first, *listed = str(caught.value).splitlines()
    expected = 'expected email.send.v1 on case-1 with {"subject": "Hello"} to be staged 2 times, but it was staged 0 times;'
    assert first == f"{expected} what was staged:"
    assert listed == [
        '  1. crm.close_case.v1 on case-318 in w: unknown {"case": "case-318", "resolution": "onboarded"}',
        '  2. email.send.v1 on case-318 in w: prepared, waits (dependency) {"case": "case-318", "subject": "Closed"}',
    ]
    with pytest.raises(AssertionError, match="expected nothing to be staged, but 2 times something was"):
        outbox.assert_nothing_staged()
    with pytest.raises(AssertionError, match=r"nothing was staged for email\.sent\.v1, which outcomes names"):
        outbox.run_effects({"email.sent.v1": refused})
    with pytest.raises(AssertionError, match="op_1 is not staged"):
        outbox.payload("op_1")


def test_what_only_a_database_can_do_says_so(outbox: MemoryOutbox) -> None:
    from acuse.store.statement import Statement

    with pytest.raises(ConfigurationError, match="needs a database"):
        outbox.session().answer(Statement("select 1"), {})
    with pytest.raises(TypeError, match="takes the session of your test's transaction"):
        open_outbox(object())  # type: ignore[call-overload]
    assert isinstance(open_outbox(), MemoryOutbox)
    assert isinstance(outbox.session(), FakeSession)


def test_neither_pytest_nor_a_driver_of_asyncio_is_loaded_by_it() -> None:
    code = (
        "import sys; import acuse.testing as t; outbox = t.MemoryOutbox(); "
        "wrong = {'pytest', 'greenlet', 'hypothesis', 'acuse_adapters', 'dramatiq', 'redis'} & set(sys.modules); "
        "assert not wrong, wrong"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_plugin_alone_loads_nothing_of_the_ledger() -> None:
    code = (
        "import sys; import acuse.testing.plugin; "
        "wrong = {'sqlalchemy', 'psycopg', 'pydantic', 'acuse.outbox', 'acuse.protocol'} & set(sys.modules); "
        "assert not wrong, wrong"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_every_name_of_the_package_is_there() -> None:
    import acuse.testing

    assert all(getattr(acuse.testing, name) is not None for name in acuse.testing.__all__)
    assert set(acuse.testing.__all__) <= set(dir(acuse.testing))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        acuse.testing.nothing  # type: ignore[attr-defined]  # noqa: B018
