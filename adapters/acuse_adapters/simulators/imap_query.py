"""What an IMAP client asks for, as functions of the messages shown: search keys, sets and items of FETCH. No I/O."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from datetime import datetime

from acuse_adapters.simulators.mail import Message

__all__ = ["Accepts", "Refusal", "criteria", "expanded", "in_set", "item", "tokens"]

_TOKEN = re.compile(r'"((?:\\.|[^"\\])*)"|([^\s()\[\]"]*\[[^\]]*\]|[()]|[^\s()"]+)')
_ALWAYS = frozenset({"ALL", "UNSEEN", "UNDELETED", "UNANSWERED", "UNDRAFT", "UNFLAGGED", "(", ")"})
_HEADER_KEYS = frozenset({"SUBJECT", "FROM", "TO", "CC", "BCC"})
_MACROS = {"ALL": "FLAGS INTERNALDATE RFC822.SIZE", "FAST": "FLAGS INTERNALDATE RFC822.SIZE"}


class Refusal(Exception):  # noqa: N818  (it is an answer to the client, not a failure of ours)
    """The command is answered with this text, `NO …` or `BAD …`."""


Accepts = Callable[[int, Message], bool]


def tokens(text: str) -> list[str]:
    """The atoms, quoted strings (without their quotes) and parentheses of a command."""
    pairs = (found.groups() for found in _TOKEN.finditer(text))
    return [atom if quoted is None else re.sub(r"\\(.)", r"\1", quoted) for quoted, atom in pairs]


def criteria(arguments: list[str], shown: list[Message]) -> list[Accepts]:
    """The keys of a SEARCH, all of which must hold. Raises Refusal for one that is not supported."""
    left, wanted = list(arguments), []
    if left[:1] and left[0].upper() == "CHARSET":
        del left[:2]
    while left:
        key = left.pop(0).upper()
        try:
            wanted.append(_criterion(key, left, shown))
        except IndexError as error:
            raise Refusal(f"BAD {key}: a value is missing") from error
    return wanted


def _criterion(key: str, left: list[str], shown: list[Message]) -> Accepts:
    if key in _ALWAYS:
        return lambda *_: True
    if key == "HEADER":
        return _header_contains(left.pop(0), left.pop(0))
    if key in _HEADER_KEYS:
        return _header_contains(key, left.pop(0))
    if key in {"TEXT", "BODY"}:
        needle = left.pop(0).lower().encode()
        return lambda _, message: needle in message.raw.lower()
    if key == "UID":
        return in_set(left.pop(0), shown, by_uid=True)
    if key[0].isdigit() or key[0] == "*":
        return in_set(key, shown, by_uid=False)
    raise Refusal(f"BAD search key {key} is not supported")


def _header_contains(name: str, text: str) -> Accepts:
    name, text = name.lower(), text.lower()
    return lambda _, message: name in message.searchable and text in message.searchable[name]


def in_set(text: str, shown: list[Message], *, by_uid: bool) -> Accepts:
    """Whether a message is in a set like `1,3:5,7:*`. Raises Refusal when the set cannot be read."""
    last = (shown[-1].uid if by_uid else len(shown)) if shown else 0
    spans = []
    for part in text.split(","):
        start, _, end = part.partition(":")
        with contextlib.suppress(ValueError):
            ends = sorted(last if edge == "*" else int(edge) for edge in (start, end or start))
            spans.append((ends[0], ends[1]))
    if len(spans) != len(text.split(",")):
        raise Refusal(f"BAD {text} is not a set of numbers")

    def accepts(sequence: int, message: Message) -> bool:
        number = message.uid if by_uid else sequence
        return any(first <= number <= final for first, final in spans)

    return accepts


def expanded(name: str) -> list[str]:
    """The items that a macro stands for."""
    return _MACROS.get(name.upper(), name).split() if "[" not in name else [name]


def item(name: str, message: Message) -> bytes:
    """One data item of FETCH, with its name in front. Raises Refusal for one that is not supported."""
    wanted = name.upper().replace(".PEEK", "")
    if "[HEADER.FIELDS (" in wanted:
        return _header_fields(wanted, message)
    if wanted in _LITERALS:
        head, _, text = message.raw.partition(b"\r\n\r\n")
        return _literal(wanted, _LITERALS[wanted](head + b"\r\n\r\n", text))
    match wanted:
        case "UID":
            return b"UID %d" % message.uid
        case "FLAGS":
            return b"FLAGS ()"
        case "RFC822.SIZE":
            return b"RFC822.SIZE %d" % len(message.raw)
        case "INTERNALDATE":
            at = datetime.fromisoformat(message.at)
            return f'INTERNALDATE "{at.strftime("%d-%b-%Y %H:%M:%S %z")}"'.encode()
    raise Refusal(f"BAD item {name} is not supported")


_LITERALS: Mapping[str, Callable[[bytes, bytes], bytes]] = {
    "RFC822": lambda head, text: head + text,
    "RFC822.HEADER": lambda head, _: head,
    "RFC822.TEXT": lambda _, text: text,
    "BODY[]": lambda head, text: head + text,
    "BODY[HEADER]": lambda head, _: head,
    "BODY[TEXT]": lambda _, text: text,
}


def _header_fields(wanted: str, message: Message) -> bytes:
    fields = wanted[wanted.index("(") + 1 : wanted.index(")")].split()
    lines = [f"{key}: {value}\r\n" for key, value in message.parsed.items() if key.upper() in fields]
    return _literal(f"BODY[HEADER.FIELDS ({' '.join(fields)})]", ("".join(lines) + "\r\n").encode())


def _literal(name: str, data: bytes) -> bytes:
    return b"%s {%d}\r\n%s" % (name.encode(), len(data), data)
