"""Texts of providers, made fit to be stored and shown: bounded, printable, without addresses."""

import re
import unicodedata
from typing import Final

__all__ = ["LONGEST_REASON", "is_storable", "storable"]

LONGEST_REASON: Final = 300
"""Characters of a reason: enough for a sentence, too few for a page or a payload that is echoed whole."""

_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
_BLANKS: Final = re.compile(r"\s+")
_ADDRESS: Final = re.compile(r"<?[^\s<>@\"'(),:;]+@[^\s<>@\"'(),:;]+>?")


def storable(text: str, limit: int = LONGEST_REASON) -> str:
    """Return a provider's text on one line, at most `limit` characters long, in a form that every store and log takes.

    U+0000, halves of surrogate pairs and other unprintable characters become `?`. Addresses become `<address>`: mail servers
    like to repeat the recipient in their refusals, and a reason is read by more people than a payload.
    """
    window = _BLANKS.sub(" ", text[: 8 * limit]).strip()
    clean = "".join("?" if unicodedata.category(character) in _UNPRINTABLE else character for character in window)
    masked = _ADDRESS.sub("<address>", clean)
    return masked if len(masked) <= limit else masked[: limit - 1] + "…"


def is_storable(text: str, limit: int) -> bool:
    """Whether an id can be kept exactly as it is. One that cannot must not be kept in another form."""
    return 0 < len(text) <= limit and not any(unicodedata.category(character) in _UNPRINTABLE for character in text)
