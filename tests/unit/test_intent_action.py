"""Actions and events: what a class declares, how it becomes JSON, and how JSON finds its class."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pydantic
import pytest

from acuse.errors import ConfigurationError, InvalidField, InvalidPayload, UnknownAction
from acuse.intent import Action, ActionCatalog, Effect, Event, digest, payload_of


class CloseCase(Action, name="crm.close_case.v1", target="case", identity=("case",), overwrites=True):
    case: str
    resolution: str = "onboarded"


class Refund(Action, name="bank.refund.v1", target="order", ordering="account"):
    order: uuid.UUID
    account: int
    amount: Decimal
    due: datetime
    note: str | None = None


class AddNote(Action, name="crm.log_note.v2", target="case"):
    case: str
    tags: set[str] = pydantic.Field(default_factory=set)
    anything: object = None


ACTIONS: list[type[Action]] = [CloseCase, Refund]

ORDER = uuid.UUID("00000000-0000-4000-8000-000000000318")
REFUND = Refund(order=ORDER, account=7, amount=Decimal("10.00"), due=datetime(2026, 11, 30, 9, tzinfo=UTC))


def test_an_action_becomes_its_untyped_effect() -> None:
    effect = CloseCase(case="case-318").effect()
    assert effect == Effect("crm.close_case.v1", "case-318", {"case": "case-318", "resolution": "onboarded"}, "default")
    assert effect.provider == CloseCase.declared.provider == "crm"
    assert CloseCase(case="case-318").effect(account="eu").account == "eu"


def test_an_action_that_overwrites_is_ordered_by_its_target_and_others_are_not() -> None:
    assert CloseCase(case="case-318").effect().ordering_key == "case-318"
    assert REFUND.effect().ordering_key == "7"
    assert Anything(case="case-318").effect().ordering_key is None
    assert Effect("crm.close_case.v1", "case-318", {}).ordering_key is None


@pytest.mark.case("R029")
def test_uuid_datetime_and_decimal_become_text_and_keep_their_zeros() -> None:
    effect = REFUND.effect()
    assert effect.target == str(ORDER)
    assert effect.payload == {
        "order": str(ORDER),
        "account": 7,
        "amount": "10.00",
        "due": "2026-11-30T09:00:00Z",
        "note": None,
    }
    effect.body()


@pytest.mark.case("R029")
def test_the_typed_and_the_untyped_form_have_the_same_bytes() -> None:
    # Given the same wish as JSON, without the field that has a default
    said = Effect("bank.refund.v1", str(ORDER), {k: v for k, v in REFUND.effect().payload.items() if k != "note"})
    # When the catalog validates it
    validated = ActionCatalog(ACTIONS).validate(said)
    # Then nothing tells them apart
    assert validated == REFUND.effect()
    assert digest(validated.body()) == digest(REFUND.effect().body())
    assert validated.declared is Refund.declared


def test_a_set_is_refused_because_its_order_is_another_in_each_process() -> None:
    with pytest.raises(InvalidPayload, match="no order") as caught:
        AddNote(case="case-318", tags={"a", "b"}).effect()
    assert caught.value.path == "$.tags"
    with pytest.raises(InvalidPayload) as deep:
        AddNote(case="case-318", tags=set(), anything=[{"x": frozenset({1})}]).effect()
    assert deep.value.path in {"$.anything[0].x", "$.tags"}


class Anything(Action, name="crm.anything.v1", target="case"):
    case: str
    anything: Any = None
    number: float = 0


def test_nan_never_turns_into_null_on_the_way() -> None:
    with pytest.raises(InvalidPayload) as caught:
        Anything(case="case-318", anything={"x": float("nan")}).effect()
    assert caught.value.path == "$.anything.x"
    with pytest.raises(pydantic.ValidationError):
        Anything(case="case-318", number=float("nan"))


def test_what_pydantic_cannot_write_is_refused_without_its_value() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "the-value"

    with pytest.raises(InvalidPayload, match="serializer") as caught:
        Anything(case="case-318", anything=Secret()).effect()
    assert "the-value" not in str(caught.value)


def test_a_model_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    action = Anything(case="case-318", anything=circle)
    circle.append(action.anything)
    with pytest.raises(InvalidPayload):
        action.effect()


def test_bytes_are_written_as_base64_and_read_back() -> None:
    class Attach(Action, name="email.attach.v1", target="case"):
        case: str
        content: bytes

    effect = Attach(case="case-318", content=b"\xff\x00").effect()
    assert ActionCatalog([Attach]).validate(effect) == effect


def test_a_large_double_survives_validation() -> None:
    effect = Anything(case="case-318", anything=1e20, number=1e20).effect()
    assert ActionCatalog([Anything]).validate(effect).body() == effect.body()


def test_a_strict_model_still_takes_json() -> None:
    class Strict(Action, name="crm.strict.v1", target="case"):
        model_config = pydantic.ConfigDict(strict=True)
        case: uuid.UUID
        at: datetime

    effect = Strict(case=ORDER, at=datetime(2026, 11, 30, tzinfo=UTC)).effect()
    assert ActionCatalog([Strict]).validate(effect) == effect


def test_an_action_is_frozen_and_takes_nothing_extra_and_its_errors_hide_values() -> None:
    closed = CloseCase(case="case-318")
    with pytest.raises(pydantic.ValidationError):
        closed.case = "case-9"  # type: ignore[misc]
    with pytest.raises(pydantic.ValidationError) as caught:
        CloseCase.model_validate({"case": "case-318", "more": "the-value"})
    assert "the-value" not in str(caught.value)


@pytest.mark.parametrize("value", ["", " ", True, None, 1.5, ["case-318"], "ann@example.org"], ids=repr)
def test_a_target_must_be_a_reference(value: Any) -> None:
    class Loose(Action, name="crm.loose.v1", target="case"):
        case: Any

    with pytest.raises(InvalidField):
        Loose(case=value).effect()


def test_a_model_built_past_its_validation_is_refused_without_its_value() -> None:
    wrong: dict[str, Any] = {"case": "case-318", "resolution": 12345.5}
    with pytest.raises(InvalidPayload, match="does not fit") as caught:
        CloseCase.model_construct(None, **wrong).effect()
    assert "12345" not in str(caught.value)


def _wrong_name() -> None:
    class Wrong(Action, name="close_case", target="case"):
        case: str


def _no_name() -> None:
    class Wrong(Action, target="case"):
        case: str


def _no_target() -> None:
    class Wrong(Action, name="crm.close_case.v1"):
        case: str


def _wrong_target() -> None:
    class Wrong(Action, name="crm.close_case.v1", target="nobody"):
        case: str


def _wrong_identity() -> None:
    class Wrong(Action, name="crm.close_case.v1", target="case", identity=("case", "nobody")):
        case: str


def _text_for_identity() -> None:
    class Wrong(Action, name="crm.close_case.v1", target="case", identity="case"):
        case: str


def _wrong_ordering() -> None:
    class Wrong(Action, name="crm.close_case.v1", target="case", ordering="nobody"):
        case: str


def _once_without_identity() -> None:
    class Wrong(Action, name="crm.close_case.v1", target="case", once_per_tenant=True):
        case: str


def _nameless_child() -> None:
    class Wrong(CloseCase):
        pass


def _hidden_method() -> None:
    class Wrong(Action, name="crm.close_case.v1", target="effect"):
        effect: str  # type: ignore[assignment]


@pytest.mark.filterwarnings("ignore:Field name")
@pytest.mark.parametrize(
    ("define", "says"),
    [
        (_wrong_name, r"provider\.verb_noun\.v1"),
        (_no_name, "name= is missing"),
        (_no_target, "target= is missing"),
        (_wrong_target, "target names 'nobody'.*its fields: case"),
        (_wrong_identity, "identity names 'nobody'"),
        (_text_for_identity, "must be a tuple"),
        (_wrong_ordering, "ordering names 'nobody'"),
        (_once_without_identity, "once_per_tenant=True needs identity"),
        (_nameless_child, "its own name="),
        (_hidden_method, "cannot be called 'effect'"),
    ],
)
def test_a_mistake_in_a_declaration_is_told_where_the_class_is_defined(define: Callable[[], None], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        define()


def test_a_base_without_a_name_can_be_shared_but_not_staged() -> None:
    class OnCase(Action):
        case: str

    class Reopen(OnCase, name="crm.reopen_case.v1", target="case", ordering="target"):
        pass

    assert Reopen(case="case-318").effect().ordering_key == "case-318"
    with pytest.raises(ConfigurationError, match="base class"):
        OnCase(case="case-318").effect()
    with pytest.raises(ConfigurationError, match="base class"):
        ActionCatalog([OnCase])


def test_an_event_declares_its_name_and_identity() -> None:
    class CaseClosed(Event, name="onboarding.case_closed.v1", identity=("case",)):
        case: str
        at: datetime

    event = CaseClosed(case="case-318", at=datetime(2026, 11, 30, tzinfo=UTC))
    assert CaseClosed.declared.name == "onboarding.case_closed.v1"
    assert payload_of(event) == {"case": "case-318", "at": "2026-11-30T00:00:00Z"}
    with pytest.raises(ConfigurationError, match=r"area\.noun_verbed\.v1"):

        class Nameless(Event, name="closed"):
            pass

    with pytest.raises(ConfigurationError, match="identity names 'case'"):

        class Identityless(Event, name="onboarding.case_closed.v1", identity=("case",)):
            pass

    with pytest.raises(ConfigurationError, match="its own name="):

        class Child(CaseClosed):
            pass


def test_an_unknown_action_lists_the_nearest_names() -> None:
    with pytest.raises(UnknownAction) as caught:
        ActionCatalog(ACTIONS).validate(Effect("crm.close_cases.v1", "case-318", {}))
    assert caught.value.nearest == ("crm.close_case.v1",)
    assert "did you mean crm.close_case.v1?" in str(caught.value)
    with pytest.raises(UnknownAction, match="no registered name"):
        ActionCatalog().get("crm.close_case.v1")


@pytest.mark.parametrize(
    ("payload", "path", "says"),
    [
        ({}, "$.case", "missing"),
        ({"case": "case-318", "more": "the-value"}, "$.more", "no such field"),
        ({"case": ["the-value"]}, "$.case", "string_type"),
        ({"resolution": ["the-value"], "case": 1}, "$.case", "string_type"),
        ({"case": "the-value", "resolution": float("nan")}, "$.resolution", "NaN"),
        ({"case": "the-value", "\x00": 1}, '$["\\u0000"]', "U\\+0000"),
    ],
)
def test_an_invalid_payload_is_refused_with_its_path_and_without_its_value(payload: Any, path: str, says: str) -> None:
    with pytest.raises(InvalidPayload, match=says) as caught:
        ActionCatalog(ACTIONS).validate(Effect("crm.close_case.v1", "case-318", payload))
    assert caught.value.path == path
    assert "the-value" not in str(caught.value)


def test_a_target_beside_another_one_in_the_payload_is_refused() -> None:
    with pytest.raises(InvalidField, match="differs from the payload's 'case'") as caught:
        ActionCatalog(ACTIONS).validate(Effect("crm.close_case.v1", "case-319", {"case": "case-318"}))
    assert caught.value.field == "target"


def test_a_name_belongs_to_one_class() -> None:
    class Impostor(Action, name="crm.close_case.v1", target="case"):
        case: str

    catalog = ActionCatalog(ACTIONS)
    assert catalog.register(CloseCase) is CloseCase
    with pytest.raises(ConfigurationError, match="registered twice"):
        catalog.register(Impostor)
    assert "crm.close_case.v1" in catalog
    assert len(catalog) == 2
    assert list(catalog) == ACTIONS


def _entries(*values: str) -> EntryPoints:
    return EntryPoints(EntryPoint(f"ep{at}", value, "acuse.actions") for at, value in enumerate(values))


def test_entry_points_offer_a_class_or_several(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = _entries(f"{__name__}:AddNote", f"{__name__}:ACTIONS")
    monkeypatch.setattr("acuse.intent.catalog.entry_points", lambda group: entries.select(group=group))
    catalog = ActionCatalog.from_entry_points()
    expected: list[type[Action]] = [AddNote, *ACTIONS]
    assert [catalog.get(kind.declared.name) for kind in expected] == expected


NOT_AN_ACTION = 7


@pytest.mark.parametrize(
    "value", ["acuse.no_such_module:X", f"{__name__}:NOBODY", f"{__name__}:NOT_AN_ACTION", "decimal:Decimal"]
)
def test_a_broken_entry_point_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acuse.intent.catalog.entry_points", lambda group: _entries(value))
    with pytest.raises(ConfigurationError) as caught:
        ActionCatalog.from_entry_points()
    assert f"entry point 'ep0 = {value}' in group 'acuse.actions'" in str(caught.value)
