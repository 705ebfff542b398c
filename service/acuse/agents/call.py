"""A tool call, as the model made it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acuse.errors import InvalidField

__all__ = ["ToolCall"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """id: the model's own, for tracing. name: of the tool. arguments: a JSON object, as text exactly as the model wrote it.

    A mapping of arguments is taken too and becomes text at once.
    """

    id: str
    name: str
    arguments: str

    def __init__(self, id: str, name: str, arguments: str | Mapping[str, Any] = "{}") -> None:  # noqa: A002 - the model's own word
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "arguments", arguments if isinstance(arguments, str) else _text(arguments))

    def parsed(self) -> dict[str, Any]:
        """The arguments as an object; no text at all is an empty one. Raises `InvalidField` if they are no JSON object."""
        try:
            found = json.loads(self.arguments or "{}")
        except ValueError:
            raise InvalidField(field="arguments", reason="are no JSON; write a JSON object") from None
        if not isinstance(found, dict):
            raise InvalidField(field="arguments", reason=f"must be a JSON object, not {type(found).__name__}")
        return found

    def asks_the_same(self, other: "ToolCall") -> bool:
        """Whether another call names the same tool with equal arguments, whatever its id and however they were written."""
        return self.name == other.name and (self.arguments == other.arguments or _value(self) == _value(other))


def _text(arguments: Mapping[str, Any]) -> str:
    try:
        written = json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False)
        # Half of a surrogate pair can be stored as an escape only, and a model does write some.
        return written if _is_text(written) else json.dumps(dict(arguments), allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidField(field="arguments", reason="cannot be written as JSON; use JSON types only") from None


def _is_text(written: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in written)


def _value(call: ToolCall) -> object:
    try:
        return json.dumps(call.parsed(), sort_keys=True)
    except InvalidField:
        return call.arguments
