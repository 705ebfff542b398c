"""What can be wanted of the mail server."""

import re
import unicodedata
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from acuse.intent import MAX_TARGET, Action

__all__ = ["ACTIONS", "SendEmail"]

_ADDRESS: Final = re.compile(r"[!#-'*+/-9=?A-Z^-~-]+(\.[!#-'*+/-9=?A-Z^-~-]+)*@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
"""A dot-atom and a domain in ASCII (RFC 5321, 4.1.2): nothing that could be a second recipient or a command."""


def _one_address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError("must be one plain address in ASCII, name@example.org; write an international domain as xn--…")
    return value


def _one_line(value: str) -> str:
    if any(unicodedata.category(character) in {"Cc", "Zl", "Zp"} for character in value):
        raise ValueError("must be one line: a line break in a header would start another header")
    return value


class SendEmail(Action, name="email.send.v1", target="reference"):
    """Send a text by email to one recipient.

    reference: the host's own name for what it is about (`case-318`), never an address. body: plain text, already rendered.
    template: the name of the host's template that it was made from, for those who ask later; it is sent as a header.
    """

    reference: Annotated[str, Field(min_length=1, max_length=MAX_TARGET)]
    to: Annotated[str, Field(max_length=254), AfterValidator(_one_address)]
    subject: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_one_line)]
    body: Annotated[str, Field(max_length=100_000)]
    template: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._/-]+$")] | None = None


ACTIONS: Final[tuple[type[Action], ...]] = (SendEmail,)
