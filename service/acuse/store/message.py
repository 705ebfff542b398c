"""Any Dramatiq message of the host through the same outbox."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final, Protocol

from acuse.errors import InvalidField
from acuse.intent import check_text
from acuse.intent.actor import check_own_queue
from acuse.store.statement import Statement

__all__ = ["SEND", "MessageLike", "message_values"]

SEND: Final = Statement(
    "select acuse.send(:queue, cast(cast(:message as text) as jsonb), "
    "clock_timestamp() + make_interval(secs => cast(:delay as double precision)), :tenant)"
)

_MAX_NAME: Final = 100  # of a queue, an actor or a message id
_LONGEST_DELAY: Final = timedelta(days=366)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class MessageLike(Protocol):
    """What a Dramatiq message has; the broker's library is not imported here."""

    @property
    def queue_name(self) -> str: ...

    @property
    def actor_name(self) -> str: ...

    @property
    def args(self) -> Any: ...  # noqa: ANN401 - the host's own

    @property
    def kwargs(self) -> dict[str, Any]: ...

    @property
    def options(self) -> dict[str, Any]: ...

    @property
    def message_id(self) -> str: ...


def message_values(message: MessageLike, delay: timedelta | int | None, tenant: str) -> dict[str, Any]:
    """The values for `SEND`. delay: a timedelta, or milliseconds as in Dramatiq. Raises `InvalidField`."""
    try:
        parts = {"args": list(message.args), "kwargs": message.kwargs, "options": message.options}
        queue, actor, identity = message.queue_name, message.actor_name, message.message_id
    except (AttributeError, TypeError):
        reason = f"must be a Dramatiq message, actor.message(…), not {type(message).__name__}"
        raise InvalidField(field="message", reason=reason) from None
    whole = {"id": check_text("message_id", identity, _MAX_NAME), "actor": check_text("actor_name", actor, _MAX_NAME)}
    for name, part in parts.items():
        _check_json(f"message.{name}", part)
    return {
        "queue": check_own_queue("queue_name", check_text("queue_name", queue, _MAX_NAME)),
        "message": json.dumps(whole | parts),
        "delay": _seconds(delay),
        "tenant": tenant,
    }


def _check_json(field: str, part: object) -> None:
    try:
        json.dumps(part, allow_nan=False)
    except (TypeError, ValueError):  # its own text may show a value
        reason = "is not JSON (no dates, UUIDs, decimals, bytes, NaN); convert it to text or numbers first"
        raise InvalidField(field=field, reason=reason) from None
    for text in _texts(part):
        if "\x00" in text or _SURROGATE.search(text):
            reason = "holds U+0000 or half of a surrogate pair, which PostgreSQL cannot store; remove or replace it"
            raise InvalidField(field=field, reason=reason)


def _texts(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for key, value in part.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _texts(item)


def _seconds(delay: timedelta | int | None) -> float:
    wait = delay if isinstance(delay, timedelta) else timedelta(milliseconds=delay or 0)
    if not timedelta(0) <= wait <= _LONGEST_DELAY:
        reason = f"must be from 0 to {_LONGEST_DELAY.days} days; give a timedelta or milliseconds"
        raise InvalidField(field="delay", reason=reason)
    return wait.total_seconds()
