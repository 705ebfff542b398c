"""Canonical bytes (RFC 8785) of JSON values, behind intake checks.

Two writers of the same intent must arrive at the same bytes, in any language: `1.0` and `1`, `1e20` and `100000000000000000000.0`
are the same number, the order of keys means nothing, but `"é"` composed and decomposed are two texts (RFC 8785 does not
normalise). What PostgreSQL or another language could not hold or would read differently is refused here, at once and with its
path, rather than lost later.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, Union

import rfc8785

from acuse.errors import InvalidPayload
from acuse.intent.limits import MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH

__all__ = ["JSON", "PlainJSON", "canonical", "canonical_object", "parse", "plain", "render_path"]

JSON: TypeAlias = Union[bool, int, float, str, Sequence["JSON"], Mapping[str, "JSON"], None]  # noqa: UP007 - recursive
"""What may be said. At run time only `list`, `tuple` and mappings with `str` keys; other sequences are refused."""

PlainJSON: TypeAlias = Union[bool, int, float, str, list["PlainJSON"], dict[str, "PlainJSON"], None]  # noqa: UP007
"""What comes back: exact builtin types."""

_MAX_SAFE_INTEGER: Final = 2**53 - 1  # beyond it a double, and so JavaScript, skips integers (RFC 7493, 2.2)
_MAX_PATH: Final = 400  # characters; a path is for people and logs
_MAX_KEY_IN_PATH: Final = 60
_SIMPLE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def canonical(value: JSON) -> bytes:
    """RFC 8785 bytes of `value`.

    Raises `InvalidPayload` with the path of the first bad place (keys in order) for NaN, ±Infinity, U+0000, lone surrogates,
    integers beyond ±(2^53 - 1), keys that are no strings, types that are not JSON's, more than 64 levels; with the path `$` for a
    result over 256 KiB.
    """
    data = rfc8785.dumps(plain(value))
    if len(data) > MAX_PAYLOAD_BYTES:
        raise InvalidPayload(
            path="$",
            reason=f"has {len(data)} bytes, at most {MAX_PAYLOAD_BYTES} are allowed; "
            "put large content into a store of yours and a reference to it here",
        )
    return data


def canonical_object(value: Mapping[str, JSON]) -> bytes:
    """`canonical`, for a payload, which must be an object."""
    if not isinstance(value, Mapping):
        raise InvalidPayload(path="$", reason=f"a payload must be an object (dict), not {type(value).__name__}")
    return canonical(value)


def parse(data: bytes) -> PlainJSON:
    """Read canonical bytes back, so that `canonical(parse(data)) == data`.

    The double 1e20 is written as `100000000000000000000`; read as an integer it could not be written again. So whole numbers
    beyond ±(2^53 - 1) come back as the floats that they were.
    """
    parsed: PlainJSON = json.loads(data, parse_int=_whole_number)
    return parsed


def _whole_number(digits: str) -> int | float:
    # 16 digits are the longest that an exact integer can have; a longer run of digits never becomes an int at all.
    if len(digits.lstrip("-")) > 16 or abs(int(digits)) > _MAX_SAFE_INTEGER:
        return float(digits)
    return int(digits)


def plain(value: JSON) -> PlainJSON:
    """A checked copy in exact builtin types (enumerations that are strings or numbers become what they hold)."""
    return _Intake().take(value)


class _Intake:
    """One walk through a value, which knows where it is."""

    def __init__(self) -> None:
        self._path: list[str | int] = []

    def take(self, value: JSON) -> PlainJSON:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return self._integer(value)
        if isinstance(value, float):
            return self._number(value)
        if isinstance(value, Mapping):
            return self._object(value)
        if isinstance(value, list | tuple):
            return self._array(value)
        raise self._refusal(
            f"{type(value).__name__} is no JSON type; convert it to text or a number first, "
            "or use a typed Action, whose model converts dates, UUIDs and decimals itself"
        )

    def _text(self, value: str) -> str:
        if "\x00" in value:
            raise self._refusal("the text holds U+0000, which PostgreSQL cannot store; remove or replace it before staging")
        if _SURROGATE.search(value):
            raise self._refusal(
                "the text holds half of a surrogate pair, which is no character; "
                "decode its source again, or replace it before staging"
            )
        return str.__str__(value)

    def _integer(self, value: int) -> int:
        if abs(value) > _MAX_SAFE_INTEGER:
            raise self._refusal("the integer is beyond ±(2^53 - 1), where other languages round; send it as text")
        return int(value)

    def _number(self, value: float) -> float:
        if not math.isfinite(value):
            raise self._refusal("NaN and Infinity are no JSON numbers; use null or leave the field out")
        return float(value)

    def _object(self, value: Mapping[str, JSON]) -> dict[str, PlainJSON]:
        self._go_no_deeper()
        for key in value:
            if not isinstance(key, str):
                raise self._refusal(f"a key is of type {type(key).__name__}; the keys of an object must be strings, convert them")
        copy: dict[str, PlainJSON] = {}
        for key in sorted(value):
            self._path.append(key)
            copy[self._text(key)] = self.take(value[key])
            self._path.pop()
        return copy

    def _array(self, value: Sequence[JSON]) -> list[PlainJSON]:
        self._go_no_deeper()
        copy: list[PlainJSON] = []
        for at, item in enumerate(value):
            self._path.append(at)
            copy.append(self.take(item))
            self._path.pop()
        return copy

    def _go_no_deeper(self) -> None:
        if len(self._path) >= MAX_PAYLOAD_DEPTH:
            raise self._refusal(f"nested deeper than {MAX_PAYLOAD_DEPTH} levels (or in a circle); flatten it")

    def _refusal(self, reason: str) -> InvalidPayload:
        return InvalidPayload(path=render_path(self._path), reason=reason)


def render_path(path: Sequence[str | int]) -> str:
    """`$.items[2].price`; a key that is no plain word is quoted and escaped to ASCII, so that the path can be stored anywhere."""
    text = "$" + "".join(_step(step) for step in path)
    return text if len(text) <= _MAX_PATH else text[:_MAX_PATH] + "…"


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _SIMPLE_KEY.fullmatch(step):
        return f".{step}"
    shown = step if len(step) <= _MAX_KEY_IN_PATH else step[:_MAX_KEY_IN_PATH] + "..."
    return f"[{json.dumps(shown)}]"
