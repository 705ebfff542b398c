"""Routes turn an event into a plan, in order."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from acuse.errors import ConfigurationError, InvalidField, InvalidPayload
from acuse.intent import Action, Effect, Event, Plan, Routes


class CaseClosed(Event, name="onboarding.case_closed.v1", identity=("case",)):
    case: str
    owner: str = "user-7"


class CloseCase(Action, name="crm.close_case.v1", target="case", overwrites=True):
    case: str


class SendEmail(Action, name="email.send.v1", target="to_user"):
    to_user: str


def test_an_event_without_a_route_leads_to_nothing() -> None:
    assert Routes().plan(CaseClosed(case="case-318")) == ()


def test_a_route_plans_effects_that_wait_for_each_other() -> None:
    routes = Routes()

    @routes.on(CaseClosed)
    def close_and_tell(event: CaseClosed, plan: Plan) -> None:
        closed = plan.effect(CloseCase(case=event.case))
        plan.effect(SendEmail(to_user=event.owner), after=closed)

    closed, told = routes.plan(CaseClosed(case="case-318"))
    assert (closed.ordinal, closed.effect, closed.after) == (0, CloseCase(case="case-318").effect(), ())
    assert (told.ordinal, told.effect.target, told.after) == (1, "user-7", (0,))
    assert (closed.ordering_key, told.ordering_key) == ("case-318", None)


def test_several_routes_of_an_event_are_applied_in_the_order_of_their_registration() -> None:
    routes = Routes()

    def planner(target: str) -> Callable[[CaseClosed, Plan], None]:
        def handler(event: CaseClosed, plan: Plan) -> None:
            plan.effect(Effect("crm.close_case.v1", target, {}))

        return handler

    for target in ("b", "a", "c"):
        routes.on(CaseClosed)(planner(target))
    planned = routes.plan(CaseClosed(case="case-318"))
    assert [(effect.ordinal, effect.effect.target) for effect in planned] == [(0, "b"), (1, "a"), (2, "c")]


def test_each_plan_is_a_new_one() -> None:
    routes = Routes()

    @routes.on(CaseClosed)
    def close(event: CaseClosed, plan: Plan) -> None:
        plan.effect(CloseCase(case=event.case))

    event = CaseClosed(case="case-318")
    assert routes.plan(event) == routes.plan(event)


def test_everything_that_can_be_said_about_an_effect_is_kept() -> None:
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    plan = Plan()
    first, second = plan.effect(CloseCase(case="a")), plan.effect(CloseCase(case="b"))
    planned = plan.effect(
        SendEmail(to_user="user-7"),
        after=[second, first, second],
        account="eu",
        approval="apr_1",
        ordering_key="user-7",
        not_after=moment,
        on_settled=SimpleNamespace(queue_name="default", actor_name="remember_ticket_number"),
        name="tell",
        value=12.5,
        distinct=True,
    )
    assert (planned.after, planned.effect.account, planned.approval, planned.ordering_key) == ((0, 1), "eu", "apr_1", "user-7")
    assert (planned.not_after, planned.on_settled) == (moment, "default/remember_ticket_number")
    assert (planned.name, planned.value, planned.distinct) == ("tell", Decimal("12.5"), True)
    assert (planned.which, first.which) == ("tell", 0)
    assert list(plan) == [first, second, planned]
    assert len(plan) == 3


def test_an_untyped_effect_keeps_its_account_unless_another_is_given() -> None:
    effect = Effect("crm.close_case.v1", "case-318", {}, "eu")
    plan = Plan()
    assert plan.effect(effect).effect is effect
    assert plan.effect(effect, account="us").effect == Effect("crm.close_case.v1", "case-318", {}, "us")


def test_an_effect_can_only_wait_for_one_of_the_same_plan() -> None:
    handle = Plan().effect(CloseCase(case="a"))
    plan = Plan()
    plan.effect(CloseCase(case="a"))
    with pytest.raises(ConfigurationError, match="same event"):
        plan.effect(CloseCase(case="b"), after=handle)


def test_a_name_stands_for_one_effect() -> None:
    plan = Plan()
    plan.effect(CloseCase(case="a"), name="close")
    with pytest.raises(ConfigurationError, match="own name"):
        plan.effect(CloseCase(case="b"), name="close")


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"approval": ""}, "approval"),
        ({"ordering_key": "a\x00"}, "ordering_key"),
        ({"not_after": datetime(2026, 11, 30)}, "not_after"),  # noqa: DTZ001 - the mistake under test
        ({"on_settled": "no-slash"}, "on_settled"),
        ({"on_settled": "queue/"}, "on_settled"),
        ({"on_settled": "queue/act\nor"}, "on_settled"),
        ({"on_settled": object()}, "on_settled"),
        ({"name": " "}, "name"),
        ({"value": float("nan")}, "value"),
        ({"account": "e\tu"}, "account"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_field(said: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        Plan().effect(CloseCase(case="a"), **said)
    assert caught.value.field == field


def test_an_actor_is_given_as_text_too() -> None:
    assert Plan().effect(CloseCase(case="a"), on_settled="low-prio/remember").on_settled == "low-prio/remember"


def test_a_plan_takes_nothing_but_actions_and_effects() -> None:
    with pytest.raises(ConfigurationError, match="not CaseClosed"):
        Plan().effect(CaseClosed(case="a"))  # type: ignore[arg-type]


def test_a_route_must_be_a_plain_function_of_a_named_event_and_registered_once() -> None:
    class Base(Event):
        pass

    async def later(event: CaseClosed, plan: Plan) -> None: ...

    def once(event: CaseClosed, plan: Plan) -> None: ...

    routes = Routes()
    with pytest.raises(ConfigurationError, match="plain function"):
        routes.on(CaseClosed)(later)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="base class"):
        routes.on(Base)
    with pytest.raises(ConfigurationError, match="takes an Event class"):
        routes.on(CloseCase)  # type: ignore[type-var]
    routes.on(CaseClosed)(once)
    with pytest.raises(ConfigurationError, match="registered twice"):
        routes.on(CaseClosed)(once)


def test_what_a_route_raises_comes_through() -> None:
    routes = Routes()

    @routes.on(CaseClosed)
    def broken(event: CaseClosed, plan: Plan) -> None:
        plan.effect(Effect("crm.close_case.v1", "case-318", {"x": float("nan")})).effect.body()

    with pytest.raises(InvalidPayload):
        routes.plan(CaseClosed(case="case-318"))
