"""What cannot be stored or would be read differently elsewhere is refused at once, with its path and never with its value."""

import dataclasses
import enum
import json
import types
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acuse.errors import InvalidField, InvalidPayload
from acuse.intent import (
    MAX_PAYLOAD_BYTES,
    MAX_PAYLOAD_DEPTH,
    MAX_TARGET,
    Effect,
    body,
    canonical,
    check_moment,
    check_target,
    check_text,
    check_value,
)


def refusal(value: Any) -> InvalidPayload:
    with pytest.raises(InvalidPayload) as caught:
        canonical(value)
    return caught.value


@pytest.mark.case("R055")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_refused_with_its_path_three_levels_down(number: float) -> None:
    effect = Effect("email.send.v1", "case-318", {"items": [{"price": 1}, {"tax": {"rate": number}}]})
    with pytest.raises(InvalidPayload) as caught:
        effect.body()
    assert caught.value.path == "$.items[1].tax.rate"
    assert "use null or leave the field out" in str(caught.value)


@pytest.mark.case("R056")
def test_u0000_is_refused_in_texts_and_keys() -> None:
    assert refusal({"mail": {"text": "secret\x00"}}).path == "$.mail.text"
    assert refusal({"mail": {"te\x00xt": 1}}).path == '$.mail["te\\u0000xt"]'


@pytest.mark.case("R056")
@pytest.mark.parametrize("half", [chr(0xD83D), chr(0xDE00)], ids=["first half", "second half"])
def test_half_of_a_surrogate_pair_is_refused_in_texts_and_keys(half: str) -> None:
    assert refusal({"text": f"secret {half}"}).path == "$.text"
    assert refusal({half: 1}).path == f'$["\\u{ord(half):04x}"]'


@pytest.mark.case("R056")
def test_six_visible_characters_and_emoji_pass_unchanged() -> None:
    data = canonical({"visible": r"\u0000", "emoji": "😀", "joined": json.loads('"\\ud83d\\ude00"')})
    assert json.loads(data) == {"visible": "\\" + "u0000", "emoji": "\U0001f600", "joined": "\U0001f600"}


@pytest.mark.case("R056")
@given(st.text(st.characters(), max_size=8), st.sampled_from(["\x00", "\ud800", "\udfff"]))
def test_the_text_of_a_refusal_can_itself_be_stored_and_holds_no_value(key: str, bad: str) -> None:
    error = refusal({key: {"k" + bad: "the-value"}, "z": "the-value" + bad})
    for text in (str(error), error.path, error.reason):
        text.encode("utf-8")
        assert "\x00" not in text
        assert "the-value" not in text


@pytest.mark.parametrize("integer", [2**53, -(2**53), 10**400])
def test_integers_that_other_languages_would_round_are_refused(integer: int) -> None:
    assert refusal({"ids": [1, integer]}).path == "$.ids[1]"


def test_the_largest_safe_integers_pass() -> None:
    assert canonical([2**53 - 1, -(2**53) + 1]) == b"[9007199254740991,-9007199254740991]"


@pytest.mark.case("R029")
@pytest.mark.parametrize(
    "value",
    [uuid.uuid4(), datetime(2026, 11, 30, tzinfo=UTC), date(2026, 11, 30), Decimal("10.00"), b"x", {1, 2}, object(), range(2)],
    ids=lambda value: type(value).__name__,
)
def test_a_type_that_json_does_not_have_is_refused_by_its_name(value: object) -> None:
    error = refusal({"items": [{"x": value}]})
    assert error.path == "$.items[0].x"
    assert type(value).__name__ in error.reason
    assert "Action" in error.reason


def test_a_key_that_is_no_string_is_refused_at_its_object() -> None:
    error = refusal({"by_id": {7: "x"}})
    assert error.path == "$.by_id"
    assert "int" in error.reason


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_nesting_is_bounded_and_a_circle_ends() -> None:
    canonical(nested(MAX_PAYLOAD_DEPTH))
    assert "deeper" in refusal(nested(MAX_PAYLOAD_DEPTH + 1)).reason
    circle: dict[str, Any] = {}
    circle["again"] = circle
    assert "circle" in refusal(circle).reason
    with pytest.raises(InvalidPayload, match="circle"):
        Effect("crm.close_case.v1", "case-318", circle).body()


def test_a_payload_over_the_limit_is_refused_with_its_size() -> None:
    error = refusal({"a": "x" * MAX_PAYLOAD_BYTES})
    assert error.path == "$"
    assert str(MAX_PAYLOAD_BYTES) in error.reason


def test_the_first_bad_place_does_not_depend_on_the_order_of_keys() -> None:
    assert refusal({"b": float("nan"), "a": {"y": 2**60, "x": "\x00"}}).path == "$.a.x"
    assert refusal({"a": {"x": "\x00", "y": 2**60}, "b": float("nan")}).path == "$.a.x"


def test_a_path_is_bounded() -> None:
    value: Any = float("nan")
    for _ in range(40):
        value = {"k" * 500: value}
    assert len(refusal(value).path) < 500


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


def test_enumerations_and_read_only_mappings_become_what_they_hold() -> None:
    assert canonical({"c": Colour.RED, "s": Size.LARGE, "m": types.MappingProxyType({"t": (1, 2)})}) == (
        b'{"c":"red","m":{"t":[1,2]},"s":3}'
    )


def test_a_payload_must_be_an_object() -> None:
    with pytest.raises(InvalidPayload, match="must be an object"):
        body("crm.close_case.v1", "case-318", [1])  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload, match="must be an object"):
        Effect("crm.close_case.v1", "case-318", [1])  # type: ignore[arg-type]


def test_an_effect_keeps_its_payload_when_the_caller_changes_his() -> None:
    items = [{"n": 1}]
    effect = Effect("crm.close_case.v1", "case-318", {"items": items})
    before = effect.body()
    items[0]["n"] = 2
    items.append({"n": 3})
    assert effect.body() == before


def test_an_effect_cannot_be_changed() -> None:
    effect = Effect("crm.close_case.v1", "case-318", {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        effect.target = "case-9"  # type: ignore[misc]
    assert effect.provider == "crm"


@pytest.mark.parametrize(
    "value",
    ["", " a", "a ", "\ta", "a\x00b", "a\nb", "a\x7f", "a\ud800", "a\u200bb", "a\u202eb", "a\u2028b", "a" * 201],
    ids=ascii,
)
def test_a_field_refuses_what_cannot_be_seen_or_stored(value: str) -> None:
    with pytest.raises(InvalidField) as caught:
        check_text("workflow", value, 200)
    assert caught.value.field == "workflow"
    str(caught.value).encode("ascii")


def test_a_field_passes_unchanged_up_to_its_limit() -> None:
    for value in ("a", "a" * 200, "onboarding 42", "Fälle/№7", "案件-318", "😀"):
        assert check_text("workflow", value, 200) == value


def test_a_field_of_another_type_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidField, match="not int"):
        check_text("workflow", 42, 200)  # type: ignore[arg-type]


@pytest.mark.invariant(13)
def test_a_target_that_looks_like_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidField) as caught:
        check_target("ann@example.org")
    assert "target is your own reference" in str(caught.value)
    assert "put the address into the payload" in str(caught.value)
    assert "ann" not in str(caught.value)
    assert check_target("x" * MAX_TARGET) == "x" * MAX_TARGET


def test_a_moment_needs_its_offset() -> None:
    moment = datetime(2026, 11, 30, tzinfo=UTC) + timedelta(hours=1)
    assert check_moment("not_after", moment) is moment
    with pytest.raises(InvalidField, match="no time zone"):
        check_moment("not_after", moment.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("given_value", "kept"), [(3, Decimal(3)), (0.1, Decimal("0.1")), (Decimal("10.00"), Decimal("10.00"))], ids=str
)
def test_a_value_becomes_an_exact_number(given_value: Any, kept: Decimal) -> None:
    assert str(check_value(given_value)) == str(kept)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), Decimal("NaN"), True, "3"], ids=repr)
def test_a_value_that_is_no_finite_number_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidField):
        check_value(bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Effect("close_case", "case-318", {}),
        lambda: Effect("crm.close_case", "case-318", {}),
        lambda: Effect("crm.close_case.v0", "case-318", {}),
        lambda: Effect("CRM.close_case.v1", "case-318", {}),
    ],
)
def test_an_action_name_that_has_not_the_form_is_refused(make: Callable[[], Effect]) -> None:
    with pytest.raises(InvalidField, match=r"provider\.verb_noun\.v1"):
        make()
