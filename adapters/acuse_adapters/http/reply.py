"""An answer, read whole, whose fields are either there or end the call."""

import json
from collections.abc import Mapping
from typing import Any, Final

from acuse_adapters.http.classify import unreadable
from acuse_adapters.port import Ended, Phase, is_storable, storable

__all__ = ["Reply"]

_MOST_ID: Final = 255
"""Characters of an id or version that is kept from an answer."""

_REQUEST_ID_HEADERS: Final = ("x-request-id", "request-id", "x-correlation-id")

_EXPLANATIONS: Final = ("code", "error", "type", "title", "message", "reason", "detail", "description")
"""Where providers say why, in the order in which it reads well."""


class _Object(dict[str, Any]):
    """A JSON object. A field that is missing ends the call instead of raising `KeyError`."""

    __slots__ = ("phase",)
    phase: Phase

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - never returns
        raise Ended(unreadable(self.phase, f"no field {storable(name, 60)!r}"))


class Reply:
    """What the provider answered: `status`, `headers` (names in lower case), `body`, and its JSON.

    `reply["ticket"]["id"]` reads a field; `reply.text("ticket", "id")` reads it as the text of an id. A body that is no JSON
    object, or a field that is not there, raises `Ended`: in `send` the outcome is ambiguous, else the answer says nothing.
    """

    __slots__ = ("_parsed", "_phase", "body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, phase: Phase) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body
        self._phase = phase
        self._parsed: _Object | None = None

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - JSON
        return self.json[name]

    @property
    def json(self) -> dict[str, Any]:
        """The body as a JSON object. Raises `Ended` if it is none."""
        if self._parsed is None:
            self._parsed = self._parse()
        return self._parsed

    def text(self, *path: str) -> str:
        """Return the field at `path` as text: ids and versions may be numbers. Raises `Ended` if it is neither."""
        value: Any = self.json
        for name in path:
            value = value[name] if isinstance(value, dict) else None
        if isinstance(value, bool) or not isinstance(value, str | int) or not is_storable(str(value), _MOST_ID):
            raise Ended(unreadable(self._phase, f"{'.'.join(path)} is no id"))
        return str(value)

    def objects(self, name: str) -> list[dict[str, Any]]:
        """Return the field as a list of objects. Raises `Ended` if it is none."""
        value = self.json[name]
        if not isinstance(value, list) or not all(isinstance(it, dict) for it in value):
            raise Ended(unreadable(self._phase, f"{name} is no list of objects"))
        return value

    def field(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """Return a field, or None: for answers that say no more than a status, as refusals do. Never raises."""
        try:
            return self.json.get(name)
        except Ended:
            return None

    @property
    def request_id(self) -> str | None:
        """The provider's own id of this request, which its support asks for; None if it gives none."""
        found = (self.headers.get(name) for name in _REQUEST_ID_HEADERS)
        return next((storable(value, _MOST_ID) for value in found if value), None)

    @property
    def reason(self) -> str:
        """What the provider said, in one line that can be stored."""
        said = [text for name in _EXPLANATIONS if isinstance(text := self.field(name), str)]
        return storable(" · ".join(said) or self.body[:2000].decode("utf-8", "replace")) or "no reason given"

    def _parse(self) -> _Object:
        try:
            parsed = json.loads(self.body, object_pairs_hook=self._object)
        except (ValueError, RecursionError):
            raise Ended(unreadable(self._phase, f"{self.status} with a body that is no JSON")) from None
        if not isinstance(parsed, _Object):
            raise Ended(unreadable(self._phase, f"{self.status} with a body that is no JSON object"))
        return parsed

    def _object(self, pairs: list[tuple[str, Any]]) -> _Object:
        made = _Object(pairs)
        made.phase = self._phase
        return made
