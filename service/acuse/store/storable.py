"""Texts of others, made fit for a column: what PostgreSQL cannot store, or a limit, must not cost us an outcome or a finding."""

from typing import Any, overload

__all__ = ["storable", "storable_json"]


@overload
def storable(value: str, limit: int) -> str: ...


@overload
def storable(value: str | None, limit: int) -> str | None: ...


def storable(value: str | None, limit: int) -> str | None:
    """Return a text without U+0000 and halves of surrogate pairs, at most `limit` characters long."""
    return None if value is None else _clean(value)[:limit]


def storable_json(value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return JSON whose texts `jsonb` takes."""
    match value:
        case str():
            return _clean(value)
        case dict():
            return {storable_json(key): storable_json(item) for key, item in value.items()}
        case list() | tuple():
            return [storable_json(item) for item in value]
    return value


def _clean(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
