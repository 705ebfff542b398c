"""What a list of objects that carry our marker says."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from acuse.protocol import Absent, Found

__all__ = ["found_among"]

_MOST_IDS: Final = 20
"""Ids of copies that a finding keeps; the count is always whole."""


def found_among(
    objects: Sequence[Mapping[str, Any]],
    *,
    id: str,  # noqa: A002 - the field's name, as in the provider's own objects
    matches: Callable[[Mapping[str, Any]], bool],
    version: str | None = None,
) -> Found | Absent:
    """Return what objects that carry **our** marker say: nothing, the effect, or several of them.

    id, version: the fields with an object's id and version. `matches` says whether target and payload are ours; one copy that
    differs makes the whole finding differ, since a person must see it. Raises `KeyError` for an object without that field.
    """
    if not objects:
        return Absent()
    ids = tuple(str(it[id]) for it in objects)
    return Found(
        result_id=ids[0],
        content_matches=all(matches(it) for it in objects),
        copies=len(objects),
        result_version=None if version is None else str(objects[0][version]),
        all_ids=ids[:_MOST_IDS],
    )
