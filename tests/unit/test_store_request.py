"""The request that all drivers send, and the one text in three spellings. Pure."""

import json

import pytest

from acuse import (
    Action,
    ActionCatalog,
    ApprovalError,
    ConfigurationError,
    Effect,
    EffectConflict,
    Event,
    InvalidField,
    Plan,
    RetryTransaction,
    Routes,
    State,
    UnknownAction,
    Wish,
)
from acuse.store.request import Request, Setting, publishing, staging
from acuse.store.stage import published_of, staged_of
from acuse.store.statement import Statement

OP = "01a22b29-f50f-7366-becd-753e29cc3883"
OTHER = "01a22b29-f50f-7366-becd-753e29cc3884"


class CloseCase(Action, name="crm.close_case.v1", target="case", identity=("case",), overwrites=True):
    case: str
    resolution: str = "onboarded"


class CaseClosed(Event, name="onboarding.case_closed.v1", identity=("case",)):
    case: str


def sent(request: Request) -> dict[str, object]:
    return dict(json.loads(request.text))


def test_a_statement_is_written_once_and_marked_as_each_driver_likes() -> None:
    statement = Statement("select cast(:b as text), :a, :b, 'x'::text, 5 % 2")
    assert statement.asyncpg == "select cast($1 as text), $2, $1, 'x'::text, 5 % 2"
    assert statement.psycopg == b"select cast(%(b)s as text), %(a)s, %(b)s, 'x'::text, 5 %% 2"
    assert statement.in_order({"a": 1, "b": 2}) == [2, 1]
    assert sorted(statement.sqlalchemy.compile().params) == ["a", "b"]


def test_only_what_was_said_is_in_the_request() -> None:
    request = staging([Wish(CloseCase(case="case-1"))], Setting("acme", "w"), None)
    [item] = sent(request)["items"]  # type: ignore[misc]
    assert sent(request).keys() == {"tenant", "workflow", "items"}
    assert item.keys() == {"effect_key", "action", "account", "target", "body", "ordering_key", "distinct", "after"}
    assert item["body"] == '{"action":"crm.close_case.v1","payload":{"case":"case-1","resolution":"onboarded"},"target":"case-1"}'
    assert request.text.isascii()


def test_the_same_intent_is_the_same_request_byte_for_byte() -> None:
    one, two = ({"b": 1.0, "a": [1e20, "é"]}, {"a": [10**0 * 1e20, "é"], "b": 1})
    texts = {staging([Wish(Effect("crm.note.v1", "c", p), call="t")], Setting("acme", "w"), None).text for p in (one, two)}
    assert len(texts) == 1


def test_routes_see_the_catalog_and_dependencies_become_places_in_the_list() -> None:
    routes = Routes()

    @routes.on(CaseClosed)
    def close(event: CaseClosed, plan: Plan) -> None:
        closed = plan.effect(Effect("crm.close_case.v1", event.case, {"case": event.case}))
        plan.effect(Effect("crm.close_case.v1", "case-2", {"case": "case-2"}), after=closed)

    request = publishing(CaseClosed(case="case-1"), Setting("acme", "w"), routes, ActionCatalog([CloseCase]), None)
    first, second = sent(request)["items"]  # type: ignore[misc]
    assert first["ordering_key"] == "case-1"
    assert '"resolution":"onboarded"' in first["body"]
    assert second["after"] == [{"ref": 0}]
    typed = staging([Wish(CloseCase(case="case-1"))], Setting("acme", "w"), None)
    assert sent(typed)["items"][0]["effect_key"] == first["effect_key"]  # type: ignore[index]
    with pytest.raises(UnknownAction):
        publishing(CaseClosed(case="case-1"), Setting("acme", "w"), routes, ActionCatalog(), None)


def test_an_event_without_a_key_has_effects_of_its_own_each_time() -> None:
    class Seen(Event, name="onboarding.seen.v1"):
        case: str

    routes = Routes()
    routes.on(Seen)(lambda event, plan: [plan.effect(Effect("crm.note.v1", event.case, {})), None][1])
    keys = {
        sent(publishing(Seen(case="c"), Setting("acme"), routes, None, key))["items"][0]["effect_key"]  # type: ignore[index]
        for key in (None, None, "k", "k")
    }
    assert len(keys) == 3


@pytest.mark.parametrize("trace", ["", "00-abc", "00-" + "A" * 32 + "-" + "b" * 16 + "-01", "x" * 300])
def test_a_trace_is_a_traceparent(trace: str) -> None:
    with pytest.raises(InvalidField, match="trace"):
        Setting("acme", trace=trace)


# What the rows mean


def row(outcome: str, ref: int = 0, **known: object) -> tuple[object, ...]:
    values = {"operation": OP, "event": None, "status": "prepared", "result_id": None, "existing": None, "detail": None} | known
    return (ref, outcome, *values.values())


def request(**options: object) -> Request:
    wishes = [Wish(Effect("crm.note.v1", "c", {"n": n}), call=f"t{n}", **options) for n in range(2)]  # type: ignore[arg-type]
    return staging(wishes, Setting("acme", "w"), None)


def test_results_come_in_the_order_of_the_request_whatever_the_order_of_the_rows() -> None:
    rows = [row("same", 1, status="confirmed", result_id="R"), row("created", 0, operation=OTHER)]
    one, two = staged_of(request(), rows)
    assert (one.created, two.created, two.state, two.result_id) == (True, False, State.CONFIRMED, "R")
    published = published_of(request(), [*rows, row("created", -1, operation=None, event=OP, status=None)])
    assert (published.event_id, published.created, len(published.operations)) == ("evt_01a22b29f50f7366becd753e29cc3883", True, 2)


def test_a_conflict_is_told_by_its_own_item_even_when_the_stored_body_is_gone() -> None:
    with pytest.raises(EffectConflict) as conflict:
        staged_of(request(), [row("conflict", 1, existing=request().bodies[0].hex(), detail="default")])
    assert conflict.value.paths == ("$.payload.n",)
    with pytest.raises(EffectConflict) as forgotten:
        staged_of(request(), [row("conflict", 1, detail="second")])
    assert forgotten.value.paths == ("$.account",)


@pytest.mark.parametrize(
    ("refusal", "error", "text"),
    [
        (row("approval_mismatch", detail="no approval"), ApprovalError, "no approval; ask for one"),
        (row("dependency_missing", detail="after must name"), InvalidField, "after: must name"),
        (row("retry_transaction", -1), RetryTransaction, "40001"),
        (row("not_rejected", status=None), InvalidField, "succeeds: names no operation"),
    ],
)
def test_a_refusal_is_an_error_that_says_what_to_do(refusal: tuple[object, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        staged_of(request(), [refusal])


def test_an_answer_of_another_schema_is_not_taken_for_something_else() -> None:
    with pytest.raises(ConfigurationError, match=r"acuse\.stage answered 'parked'"):
        staged_of(request(), [row("parked")])
