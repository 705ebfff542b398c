"""A reference of the host that also becomes a part of a provider's address."""

from typing import Annotated, Final
from urllib.parse import quote

from pydantic import AfterValidator, Field

from acuse.intent import MAX_TARGET

__all__ = ["Reference", "segment"]

_DOTS: Final = frozenset({".", ".."})


def _no_dots(value: str) -> str:
    if value in _DOTS:
        raise ValueError("'.' and '..' would lead to another place of the provider's address; use a name")
    return value


Reference = Annotated[str, Field(min_length=1, max_length=MAX_TARGET), AfterValidator(_no_dots)]
"""A text that names one thing. Whatever is in it, it cannot lead to another path."""


def segment(value: str) -> str:
    """Return `value` as one segment of a URL's path. Raises `ValueError` for what a server would resolve away."""
    if not value:
        raise ValueError("an empty text is no segment of a path")
    return quote(_no_dots(value), safe="")
