"""How long and how deep what the host says may be, and the checks that hold it."""

import unicodedata
from datetime import datetime
from decimal import Decimal
from typing import Final

from acuse.errors import InvalidField

__all__ = [
    "MAX_ACCOUNT",
    "MAX_ACTION",
    "MAX_CALL",
    "MAX_EFFECT_KEY",
    "MAX_FLOW_VERSION",
    "MAX_ORDERING_KEY",
    "MAX_PAYLOAD_BYTES",
    "MAX_PAYLOAD_DEPTH",
    "MAX_TARGET",
    "MAX_TENANT",
    "MAX_WORKFLOW",
    "check_moment",
    "check_target",
    "check_text",
    "check_value",
]

# Lengths are in characters, as PostgreSQL's char_length counts them.
MAX_TENANT: Final = 100  # leads every index; a UUID or a slug fits three times
MAX_ACTION: Final = 100  # `provider.verb_noun.vN`; also a metric label, so it stays short
MAX_ACCOUNT: Final = 100  # a configured name, also a metric label
MAX_WORKFLOW: Final = 200  # workflow engines hand out compound ids well over 100 characters
MAX_CALL: Final = 200  # tool-use ids of today are 24 to 64 characters; room for a prefix
MAX_FLOW_VERSION: Final = 200  # a git hash, an image digest or a release name
MAX_EFFECT_KEY: Final = 200  # indexed for as long as the operation and beyond; four bytes each stay far under a B-tree's 2,704
MAX_TARGET: Final = 200  # the host's reference (`case-318`), indexed
MAX_ORDERING_KEY: Final = 200  # a target by default, hence as long as one
MAX_PAYLOAD_BYTES: Final = 256 * 1024  # canonical bytes; wishes are small, files belong into a store with a reference here
MAX_PAYLOAD_DEPTH: Final = 64  # arrays and objects inside each other; far over any API's, far under Python's recursion limit

# Control, format (invisible, direction marks), surrogate, line and paragraph separator: two ids must not differ invisibly.
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def check_text(field: str, value: str, limit: int) -> str:
    """Return `value` unchanged, or raise `InvalidField` that names `field` (and never shows the value)."""
    if not isinstance(value, str):
        raise InvalidField(field=field, reason=f"must be a string, not {type(value).__name__}; convert it first")
    if not value:
        raise InvalidField(field=field, reason="must not be empty; give a value or leave it out")
    if len(value) > limit:
        raise InvalidField(field=field, reason=f"has {len(value)} characters, at most {limit} are allowed; shorten or hash it")
    if value != value.strip():
        raise InvalidField(field=field, reason="must not begin or end with a blank; strip it")
    for at, character in enumerate(value):
        if unicodedata.category(character) in _REFUSED_CATEGORIES:
            raise InvalidField(
                field=field,
                reason=f"character {at + 1} is U+{ord(character):04X}, which is not printable; remove or replace it",
            )
    return value


def check_target(value: str) -> str:
    """A target is the host's own reference and never an address: it stands in logs, queues and metrics."""
    check_text("target", value, MAX_TARGET)
    if "@" in value:
        raise InvalidField(
            field="target",
            reason="looks like an address; target is your own reference (case-318), put the address into the payload",
        )
    return value


def check_moment(field: str, value: datetime) -> datetime:
    """A point in time needs its offset: a naive one means another moment on another machine."""
    if not isinstance(value, datetime):
        raise InvalidField(field=field, reason=f"must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidField(field=field, reason="has no time zone; use datetime.now(UTC) + timedelta(…) or the like")
    return value


def check_value(value: Decimal | float) -> Decimal:
    """What an operation is worth to the host (an amount in the host's own unit), as an exact finite number."""
    if isinstance(value, bool) or not isinstance(value, Decimal | int | float):
        raise InvalidField(field="value", reason=f"must be a number, not {type(value).__name__}")
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise InvalidField(field="value", reason="must be a finite number; leave it out if the worth is not known")
    return number
