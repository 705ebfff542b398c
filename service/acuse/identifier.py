"""Ids as people and providers see them: a prefix that says what it is, and the 32 hex digits of a UUIDv7."""

from uuid import UUID

from acuse.errors import InvalidField

__all__ = ["approval_id", "event_id", "operation_id", "uuid_of"]


def operation_id(value: UUID) -> str:
    """Return `op_…`, the id that is also the provider's key and marker."""
    return f"op_{value.hex}"


def event_id(value: UUID) -> str:
    """Return `evt_…`."""
    return f"evt_{value.hex}"


def approval_id(value: UUID) -> str:
    """Return `apr_…`."""
    return f"apr_{value.hex}"


def uuid_of(text: str | UUID, *, prefix: str, field: str) -> UUID:
    """Return the UUID inside a prefixed id.

    Raises `InvalidField` naming `field` when the text is no such id.
    """
    if isinstance(text, UUID):
        return text
    body = text.removeprefix(f"{prefix}_")
    try:
        return UUID(hex=body)
    except (ValueError, AttributeError):
        raise InvalidField(field=field, reason=f"expected an id like {prefix}_0193…, 32 hex digits after the prefix") from None
