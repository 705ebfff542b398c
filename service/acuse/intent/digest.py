"""What an operation is made of, as bytes: the bytes are stored as they are, and hashed again before every dispatch."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

from acuse.errors import InvalidPayload
from acuse.intent.canonical import JSON, PlainJSON, canonical, canonical_object, parse, render_path

__all__ = ["MAX_DIFFERENCES", "body", "differing_paths", "digest", "read_body"]

MAX_DIFFERENCES: Final = 20  # enough to see what changed; an error is not a diff

_MISSING: Final = object()


def body(action: str, target: str, payload: Mapping[str, JSON]) -> bytes:
    """Canonical bytes of `{"action": …, "payload": …, "target": …}`.

    Raises `InvalidPayload`, with paths that begin at the payload, as the host sees it.
    """
    # The payload is made canonical on its own, so that its paths and its size are the payload's. The three keys are in order.
    return b'{"action":%b,"payload":%b,"target":%b}' % (canonical(action), canonical_object(payload), canonical(target))


def digest(body: bytes) -> bytes:
    """SHA-256 of the canonical bytes, 32 bytes."""
    return hashlib.sha256(body).digest()


def read_body(body: bytes) -> tuple[str, str, dict[str, PlainJSON]]:
    """Action, target and payload out of stored bytes. Raises `InvalidPayload` if these are no bytes of `body`."""
    try:
        content = parse(body)
    except ValueError:
        raise InvalidPayload(path="$", reason="the stored body is no JSON; compare its digest, it may be damaged") from None
    if isinstance(content, dict) and content.keys() == {"action", "payload", "target"}:
        action, target, payload = content["action"], content["target"], content["payload"]
        if isinstance(action, str) and isinstance(target, str) and isinstance(payload, dict):
            return action, target, payload
    raise InvalidPayload(path="$", reason="the stored body is not of the form {action, payload, target}; it may be damaged")


def differing_paths(old: bytes, new: bytes) -> list[str]:
    """Where two bodies differ (`$.target`, `$.payload.items[2].price`), in order, at most 20; never the values."""
    found: list[str] = []
    for path in _differences(parse(old), parse(new), ()):
        found.append(render_path(path))
        if len(found) == MAX_DIFFERENCES:
            break
    return found


def _differences(old: object, new: object, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key, _MISSING), new.get(key, _MISSING), (*path, key))
    elif isinstance(old, list) and isinstance(new, list):
        for at in range(max(len(old), len(new))):
            yield from _differences(_item(old, at), _item(new, at), (*path, at))
    elif not _same(old, new):
        yield path


def _item(items: list[object], at: int) -> object:
    return items[at] if at < len(items) else _MISSING


def _same(old: object, new: object) -> bool:
    # To Python, True equals 1; in JSON they are two things.
    return old == new and isinstance(old, bool) == isinstance(new, bool)
