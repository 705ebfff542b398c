"""Which intent this is: by declaration, by the host's key, by the plan of an event, or by the call."""

import re

import pytest

from acuse.errors import IdentityMissing, InvalidField
from acuse.intent import Action, Effect, Event, effect_key, event_key, planned_key


class CloseCase(Action, name="crm.close_case.v1", target="case", identity=("case", "reopening")):
    case: str
    reopening: int = 0
    wording: str = ""


class Refund(Action, name="bank.refund.v1", target="order", identity=("order",), once_per_tenant=True):
    order: str
    amount: int = 0


class SendEmail(Action, name="email.send.v1", target="to_user"):
    to_user: str


CLOSE = CloseCase(case="case-318").effect()
EMAIL = SendEmail(to_user="user-7").effect()


@pytest.mark.invariant(2)
def test_a_declared_identity_ignores_wording_and_call_ids() -> None:
    reworded = CloseCase(case="case-318", wording="please").effect()
    key = effect_key(CLOSE, workflow="w", call="toolu_1")
    assert re.fullmatch("i:[0-9a-f]{64}", key)
    assert key == effect_key(reworded, workflow="w", call="toolu_2") == effect_key(CLOSE, workflow="w")


@pytest.mark.invariant(2)
def test_a_declared_identity_tells_subjects_occurrences_workflows_and_actions_apart() -> None:
    class CloseCaseToo(Action, name="crm.close_case.v2", target="case", identity=("case", "reopening")):
        case: str
        reopening: int = 0

    keys = {
        effect_key(CLOSE, workflow="w"),
        effect_key(CLOSE, workflow="w2"),
        effect_key(CloseCase(case="case-319").effect(), workflow="w"),
        effect_key(CloseCase(case="case-318", reopening=1).effect(), workflow="w"),
        effect_key(CloseCaseToo(case="case-318").effect(), workflow="w"),
    }
    assert len(keys) == 5


def test_an_identity_within_a_workflow_needs_the_workflow() -> None:
    with pytest.raises(InvalidField, match="holds within one workflow") as caught:
        effect_key(CLOSE, call="toolu_1")
    assert caught.value.field == "workflow"


def test_an_identity_once_per_tenant_needs_none_and_ignores_it() -> None:
    refund = Refund(order="order-1", amount=5).effect()
    assert effect_key(refund) == effect_key(refund, workflow="w")


def test_an_identity_that_is_empty_would_swallow_other_wishes_and_is_refused() -> None:
    with pytest.raises(InvalidField, match="must not be empty") as caught:
        effect_key(Effect("bank.refund.v1", "order-1", {"amount": 5}, declared=Refund.declared))
    assert caught.value.field == "order"


def test_a_key_beside_a_declared_identity_is_refused() -> None:
    with pytest.raises(InvalidField, match=r"declares its identity \(case, reopening\)") as caught:
        effect_key(CLOSE, workflow="w", given="mine")
    assert caught.value.field == "effect_key"


def test_the_hosts_own_key_stays_as_it_is_and_comes_before_plan_and_call() -> None:
    assert effect_key(EMAIL, workflow="w", call="c", given="mine-1", planned="e:x") == "mine-1"


@pytest.mark.parametrize("given", ["", " x", "a\x00b", "a\nb", "\ud800", "x" * 201], ids=ascii)
def test_a_key_of_the_host_must_be_printable(given: str) -> None:
    with pytest.raises(InvalidField) as caught:
        effect_key(EMAIL, given=given)
    assert caught.value.field == "effect_key"


def test_workflow_and_call_are_the_default_and_are_hashed() -> None:
    key = effect_key(EMAIL, workflow="w", call="toolu_1")
    assert re.fullmatch("c:[0-9a-f]{64}", key)
    keys = {key, effect_key(EMAIL, workflow="w", call="toolu_2"), effect_key(EMAIL, workflow="wt", call="oolu_1")}
    assert len(keys) == 3
    assert effect_key(SendEmail(to_user="user-8").effect(), workflow="w", call="toolu_1") == key


@pytest.mark.parametrize("known", [{}, {"workflow": "w"}, {"call": "toolu_1"}], ids=str)
def test_without_any_identity_the_error_says_what_to_give(known: dict[str, str]) -> None:
    with pytest.raises(IdentityMissing, match=r"workflow and call .* or effect_key, or declare identity"):
        effect_key(EMAIL, **known)


def test_ids_are_checked_even_where_they_play_no_part() -> None:
    for ids in ({"workflow": "w\x00"}, {"call": ""}):
        with pytest.raises(InvalidField):
            effect_key(EMAIL, given="mine", **ids)


def test_a_planned_effect_has_a_key_of_its_event_action_and_place() -> None:
    key = planned_key("evt", "email.send.v1", 0)
    assert re.fullmatch("e:[0-9a-f]{64}", key)
    assert effect_key(EMAIL, workflow="w", call="c", planned=key) == key
    others = {
        planned_key("evt2", "email.send.v1", 0),
        planned_key("evt", "email.send.v2", 0),
        planned_key("evt", "email.send.v1", 1),
        planned_key("evt", "email.send.v1", "0"),
    }
    assert len(others | {key}) == 5
    assert effect_key(CLOSE, workflow="w", planned=key).startswith("i:")


def test_keys_do_not_change_between_releases() -> None:
    # Stored keys outlive the code that made them; a change here doubles effects at every user.
    assert effect_key(CLOSE, workflow="w") == "i:486e28fef066a504a76ce86720fffe3799ae90ab272512f42ce0332f9c43bb20"
    assert effect_key(EMAIL, workflow="w", call="toolu_1") == "c:1b0c75a343d45b2c06595446167efcfcfa93ae170d53e464ccc3e30cfe067696"
    assert planned_key("evt", "email.send.v1", 0) == "e:27bb5041f0e6cb96118b097199d9baf5bccb49214eab06dbc033e610802c86d4"


class CaseClosed(Event, name="onboarding.case_closed.v1", identity=("case",)):
    case: str
    owner: str = ""


class StepDone(Event, name="onboarding.step_done.v1", identity=("step",), per_workflow=True):
    step: int


class Noticed(Event, name="onboarding.noticed.v1"):
    case: str


def test_an_event_is_known_by_the_hosts_key_or_its_identity_or_not_at_all() -> None:
    assert event_key(CaseClosed(case="case-318"), "w", "mine") == "mine"
    assert event_key(CaseClosed(case="case-318"), "w") == event_key(CaseClosed(case="case-318", owner="user-7"), None)
    assert event_key(CaseClosed(case="case-318")) != event_key(CaseClosed(case="case-319"))
    assert event_key(Noticed(case="case-318"), "w") is None


def test_an_event_may_be_known_within_its_workflow_only() -> None:
    assert event_key(StepDone(step=1), "w") != event_key(StepDone(step=1), "w2")
    with pytest.raises(InvalidField, match="holds within one workflow"):
        event_key(StepDone(step=1))


def test_an_event_key_must_be_printable() -> None:
    with pytest.raises(InvalidField) as caught:
        event_key(Noticed(case="case-318"), None, "a\x00")
    assert caught.value.field == "key"
