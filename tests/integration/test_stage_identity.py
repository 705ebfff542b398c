"""One operation per intent: the same comes back, another is a conflict that names the paths, and a doubt is never doubled."""

import pytest
from host import CaseClosed, CaseSeen, CloseCase, Counts, SendEmail, counts, routes
from sqlalchemy import Engine
from stepper import drive

from acuse import (
    ActionCatalog,
    Effect,
    EffectConflict,
    IdentityMissing,
    InDoubt,
    InvalidField,
    NotFound,
    Outbox,
    State,
    UnknownAction,
    Wish,
)
from acuse.protocol import FINAL
from acuse.store.read import get


@pytest.fixture
def outbox(tenant: str) -> Outbox:
    return Outbox(routes=routes, tenant=tenant)


def email(subject: str = "Hello", case: str = "case-1") -> SendEmail:
    return SendEmail(case=case, subject=subject)


@pytest.mark.case("R058")
@pytest.mark.invariant(2)
def test_the_same_key_with_another_body_is_a_conflict_that_names_the_paths_and_writes_nothing(
    engine: Engine, outbox: Outbox, tenant: str
) -> None:
    plain = {"amount": 10.0, "note": "x"}
    with engine.begin() as connection:
        first = outbox.stage(connection, Effect("crm.refund.v1", "order-1", plain), effect_key="refund-1")
    with engine.begin() as connection:
        # When a field is added, the caller's transaction goes on and nothing was written
        stamped = Effect("crm.refund.v1", "order-1", plain | {"at": "2026-11-30T06:00:00Z", "amount": 11})
        with pytest.raises(EffectConflict) as conflict:
            outbox.stage(connection, stamped, effect_key="refund-1")
        assert conflict.value.operation_id == first.operation_id
        assert conflict.value.paths == ("$.payload.amount", "$.payload.at")
        assert "2026-11-30T06" not in str(conflict.value)
        assert counts(connection, tenant) == Counts.of(1)
        # When it differs in bytes only, the stored operation comes back
        same = outbox.stage(connection, Effect("crm.refund.v1", "order-1", {"note": "x", "amount": 10}), effect_key="refund-1")
        assert (same.operation_id, same.created, same.in_doubt) == (first.operation_id, False, False)


@pytest.mark.invariant(2)
@pytest.mark.parametrize(
    ("effect", "account", "paths"),
    [
        (Effect("crm.refund.v1", "order-1", {"a": 1}), "second", ("$.account",)),
        (Effect("crm.refund.v1", "order-2", {"a": 1}), None, ("$.target",)),
        (Effect("crm.refund.v2", "order-1", {"a": 1}), None, ("$.action",)),
        (Effect("crm.refund.v1", "order-1", {"a": True}), "second", ("$.payload.a", "$.account")),
    ],
)
def test_account_target_action_and_payload_belong_to_an_intent(
    engine: Engine, outbox: Outbox, effect: Effect, account: str | None, paths: tuple[str, ...]
) -> None:
    with engine.connect() as connection:
        outbox.stage(connection, Effect("crm.refund.v1", "order-1", {"a": 1}), effect_key="k")
        with pytest.raises(EffectConflict) as conflict:
            outbox.stage(connection, effect, effect_key="k", account=account)
        assert conflict.value.paths == paths


@pytest.mark.invariant(2)
def test_a_request_of_several_is_refused_as_a_whole(engine: Engine, outbox: Outbox, tenant: str) -> None:
    with engine.begin() as connection:
        outbox.stage(connection, email("Hello"), workflow="w", call="t2")
    with engine.begin() as connection:
        wishes = [Wish(email("One"), call="t1"), Wish(email("Other"), call="t2"), Wish(email("Three"), call="t3")]
        with pytest.raises(EffectConflict) as conflict:
            outbox.stage_many(connection, wishes, workflow="w")
        assert conflict.value.paths == ("$.payload.subject",)
        # Then the transaction of the caller lives, and can do without
        assert outbox.stage(connection, email("Four"), workflow="w", call="t4").created
    assert counts(engine, tenant) == Counts.of(2)


def test_several_come_back_in_the_order_in_which_they_were_said(engine: Engine, outbox: Outbox) -> None:
    calls = ["t9", "t1", "t5", "t0"]
    with engine.connect() as connection:
        one_by_one = {
            call: outbox.stage(connection, email(call), workflow="w", call=call).operation_id for call in reversed(calls)
        }
        together = outbox.stage_many(connection, [Wish(email(call), call=call) for call in calls], workflow="w")
        assert [staged.operation_id for staged in together] == [one_by_one[call] for call in calls]
        assert outbox.stage_many(connection, []) == ()


def test_what_depends_may_stand_in_the_same_list(engine: Engine, outbox: Outbox) -> None:
    first = Wish(CloseCase(case="case-1"))
    second = Wish(email(), call="t1", after=first)
    with engine.connect() as connection:
        outbox.stage_many(connection, [first, second], workflow="w")
        with pytest.raises(InvalidField, match="after: names a wish that does not stand earlier"):
            outbox.stage_many(connection, [second, first], workflow="w")


@pytest.mark.invariant(9)
def test_a_dependency_must_exist_in_the_same_tenant(engine: Engine, outbox: Outbox, tenant: str) -> None:
    with engine.connect() as connection:
        foreign = Outbox(tenant=f"{tenant}-b").stage(connection, email(), workflow="w", call="t")
        for field in ("after", "compensates"):
            with pytest.raises(InvalidField, match=f"{field}: must name"):
                outbox.stage(connection, email(), workflow="w", call="t", **{field: foreign.operation_id})
        own = outbox.stage(connection, email(), workflow="w", call="t")
        assert outbox.stage(connection, email("2"), workflow="w", call="u", after=own, compensates=own).created


@pytest.mark.case("R062")
@pytest.mark.invariant(2)
@pytest.mark.parametrize("key", ["1", "inbox:1:1"])
def test_tenants_never_meet(engine: Engine, tenant: str, key: str) -> None:
    with engine.connect() as connection:
        one = Outbox(tenant=tenant).stage(connection, email("Hello"), effect_key=key, workflow="w")
        two = Outbox(tenant=f"{tenant}-b").stage(connection, email("Other"), effect_key=key, workflow="w")
        assert (one.created, two.created) == (True, True)
        assert one.operation_id != two.operation_id
        for operation, stranger in ((one, f"{tenant}-b"), (two, tenant)):
            with pytest.raises(NotFound):
                get(connection, operation.operation_id, stranger)
        with pytest.raises(InvalidField, match="names no operation of this tenant"):
            Outbox(tenant=tenant).stage(connection, email("Other"), succeeds=two)


def test_an_effect_needs_something_that_says_which_intent_it_is(engine: Engine, outbox: Outbox) -> None:
    with engine.connect() as connection, pytest.raises(IdentityMissing):
        outbox.stage(connection, email(), workflow="w")


def test_an_untyped_effect_becomes_what_its_class_would_have_said(engine: Engine, tenant: str) -> None:
    outbox = Outbox(catalog=ActionCatalog([CloseCase]), tenant=tenant)
    with engine.connect() as connection:
        typed = outbox.stage(connection, CloseCase(case="case-1", resolution="done"), workflow="w")
        untyped = Effect("crm.close_case.v1", "case-1", {"case": "case-1", "resolution": "done"})
        assert outbox.stage(connection, untyped, workflow="w", call="t").operation_id == typed.operation_id
        with pytest.raises(UnknownAction):
            outbox.stage(connection, Effect("crm.close_cases.v1", "case-1", {}), workflow="w", call="t")


# Doubts


@pytest.mark.parametrize("state", sorted(set(State) - FINAL))
def test_the_same_wish_under_a_new_call_id_is_the_operation_that_is_on_its_way(
    engine: Engine, outbox: Outbox, state: State
) -> None:
    with engine.begin() as connection:
        first = outbox.stage(connection, email(), workflow="w", call="t1")
    drive(engine, first.operation_id, state)
    with engine.begin() as connection:
        again = outbox.stage(connection, email(), workflow="w", call="t2")
        assert (again.operation_id, again.created, again.in_doubt, again.state) == (first.operation_id, False, True, state)
        with pytest.raises(InDoubt) as doubt:
            outbox.stage(connection, email(), workflow="w", call="t2", raise_in_doubt=True)
        assert doubt.value.operation_id == first.operation_id
        # A repetition on purpose, and the same in another workflow, are other intents
        assert outbox.stage(connection, email(), workflow="w", call="t2", distinct=True).created
        assert outbox.stage(connection, email(), workflow="x", call="t2").created


@pytest.mark.case("R079")
@pytest.mark.parametrize("state", [State.CONFIRMED, State.REJECTED])
def test_what_is_settled_is_in_nobodys_way(engine: Engine, outbox: Outbox, state: State) -> None:
    with engine.begin() as connection:
        first = outbox.stage(connection, email(), workflow="w", call="t1")
    drive(engine, first.operation_id, state)
    with engine.connect() as connection:
        same = outbox.stage(connection, email(), workflow="w", call="t1")
        assert (same.state, same.result_id) == (state, "R-1" if state is State.CONFIRMED else None)
        assert outbox.stage(connection, email(), workflow="w", call="t2").created


def test_other_words_for_something_in_doubt_are_the_same_wish(engine: Engine, outbox: Outbox) -> None:
    with engine.begin() as connection:
        first = outbox.stage(connection, email("Hello"), workflow="w", call="t1")
        # While nothing was sent, other words are another wish
        assert outbox.stage(connection, email("Good day"), workflow="w", call="t2").created
    drive(engine, first.operation_id, State.UNKNOWN)
    with engine.connect() as connection:
        reworded = outbox.stage(connection, email("Hi there"), workflow="w", call="t3")
        assert (reworded.operation_id, reworded.in_doubt, reworded.state) == (first.operation_id, True, State.UNKNOWN)
        assert outbox.stage(connection, email("Hi there", case="case-2"), workflow="w", call="t4").created


# Taking up again what was rejected


@pytest.mark.case("R061")
def test_only_a_rejected_operation_is_taken_up_again_and_by_a_new_one(engine: Engine, outbox: Outbox) -> None:
    with engine.begin() as connection:
        first = outbox.stage(connection, email(), workflow="w", call="t1")
    drive(engine, first.operation_id, State.REJECTED)
    with engine.begin() as connection:
        second = outbox.stage(connection, email("Corrected"), workflow="w", succeeds=first.operation_id)
        assert second.created
        assert second.operation_id != first.operation_id
        again = outbox.stage(connection, email("Corrected"), workflow="w", succeeds=first)
        assert (again.operation_id, again.created) == (second.operation_id, False)
        with pytest.raises(EffectConflict):
            outbox.stage(connection, email("Corrected twice"), workflow="w", succeeds=first)
        with pytest.raises(InvalidField, match="another action or target"):
            outbox.stage(connection, email(case="case-2"), workflow="w", succeeds=first)
        with pytest.raises(InvalidField, match="leave it out beside succeeds"):
            outbox.stage(connection, email(), workflow="w", succeeds=first, effect_key="k")
        rows = connection.exec_driver_sql(
            "select effect_key, generation from acuse.operation where tenant = %s order by generation", (outbox._tenant,)
        ).all()
        assert [row.generation for row in rows] == [0, 1]
        assert rows[0].effect_key == rows[1].effect_key


@pytest.mark.case("R061")
@pytest.mark.parametrize("state", [State.DISPATCHING, State.UNKNOWN])
def test_what_may_still_take_effect_is_never_taken_up_under_a_new_key(engine: Engine, outbox: Outbox, state: State) -> None:
    with engine.begin() as connection:
        first = outbox.stage(connection, email(), workflow="w", call="t1")
    drive(engine, first.operation_id, state)
    with engine.connect() as connection, pytest.raises(InDoubt) as doubt:
        outbox.stage(connection, email("Other"), workflow="w", succeeds=first)
    assert doubt.value.operation_id == first.operation_id


@pytest.mark.parametrize("state", [State.PREPARED, State.CONFIRMED])
def test_what_will_happen_or_has_happened_is_not_taken_up_again(engine: Engine, outbox: Outbox, state: State) -> None:
    with engine.begin() as connection:
        first = outbox.stage(connection, email(), workflow="w", call="t1")
    drive(engine, first.operation_id, state)
    with engine.connect() as connection, pytest.raises(InvalidField, match=f"is {state}; only a rejected one"):
        outbox.stage(connection, email("Other"), workflow="w", succeeds=first)


# Events


@pytest.mark.invariant(2)
def test_the_same_event_said_twice_is_one_event(engine: Engine, outbox: Outbox, tenant: str) -> None:
    with engine.begin() as connection:
        first = outbox.publish(connection, CaseClosed(case="case-1"), workflow="w")
    with engine.begin() as connection:
        second = outbox.publish(connection, CaseClosed(case="case-1"), workflow="w")
        assert (first.created, second.created, second.event_id) == (True, False, first.event_id)
        assert [s.operation_id for s in second.operations] == [s.operation_id for s in first.operations]
        assert {s.created for s in second.operations} == {False}
        with pytest.raises(EffectConflict) as conflict:
            outbox.publish(connection, CaseClosed(case="case-1", owner="user-8"), workflow="w")
        assert (conflict.value.operation_id, conflict.value.paths) == (first.event_id, ("$.owner",))
    assert counts(engine, tenant) == Counts(events=1, operations=2, payloads=2, entries=2, messages=2)


def test_an_event_without_identity_is_as_many_events_as_it_is_published_unless_the_host_names_it(
    engine: Engine, outbox: Outbox
) -> None:
    with engine.connect() as connection:
        published = [outbox.publish(connection, CaseSeen(case="case-1")) for _ in range(2)]
        assert [p.created for p in published] == [True, True]
        assert len({p.operations[0].operation_id for p in published}) == 2
        named = [outbox.publish(connection, CaseSeen(case="case-1"), key="seen-1") for _ in range(2)]
        assert [p.created for p in named] == [True, False]
        assert named[0].operations[0].operation_id == named[1].operations[0].operation_id


def test_an_event_without_routes_is_an_event(engine: Engine, tenant: str) -> None:
    with engine.connect() as connection:
        published = Outbox(tenant=tenant).publish(connection, CaseSeen(case="case-1"))
        assert (published.created, published.operations) == (True, ())
        assert counts(connection, tenant).events == 1
