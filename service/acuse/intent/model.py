"""The pydantic side that actions and events share: frozen, nothing extra, and dumped the same on every machine."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from acuse.errors import InvalidPayload
from acuse.intent.canonical import PlainJSON, plain, render_path
from acuse.intent.limits import MAX_PAYLOAD_DEPTH

__all__ = ["Intent", "payload_of"]


class Intent(BaseModel):
    """Base of `Action` and `Event`; not for use on its own."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,  # payloads carry field names, whatever aliases the host's model has for other uses
        allow_inf_nan=False,
        hide_input_in_errors=True,  # an error of the host's own call is logged too
        ser_json_inf_nan="constants",  # pydantic's default turns NaN into null silently; kept, so that intake refuses it
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )


def payload_of(intent: Intent) -> dict[str, PlainJSON]:
    """The model in JSON mode, by field name, checked: dates, UUIDs and decimals are text, `Decimal("10.00")` keeps its zeros.

    Raises `InvalidPayload` for what no JSON can hold, and for sets: their order differs from process to process, and so would
    the digest.
    """
    try:
        _refuse_sets(_dump(intent, "python"), ())
        dumped = _dump(intent, "json")
    except ValueError:
        # A PydanticSerializationError, whose text holds the value, or a plain ValueError for a circle.
        raise InvalidPayload(
            path="$",
            reason=f"{type(intent).__name__} holds something that does not fit its field or that pydantic cannot write as JSON; "
            "correct it, or give the field a serializer",
        ) from None
    return cast("dict[str, PlainJSON]", plain(dumped))


def _dump(intent: Intent, mode: str) -> dict[str, Any]:
    # round_trip: only what can be read in again, so no computed fields. A misfit would else be a warning that shows the value.
    return intent.model_dump(mode=mode, by_alias=False, round_trip=True, warnings="error")


def _refuse_sets(value: object, path: tuple[str | int, ...]) -> None:
    if isinstance(value, set | frozenset):
        raise InvalidPayload(
            path=render_path(path),
            reason="a set has no order, so that its bytes differ from run to run; use a list, or a serializer that sorts",
        )
    if len(path) > MAX_PAYLOAD_DEPTH:
        return  # a circle, or too deep: refused by what comes next
    if isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_sets(item, (*path, str(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        for at, item in enumerate(value):
            _refuse_sets(item, (*path, at))
