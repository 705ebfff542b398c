"""The IMAP half of the mail server: as much of RFC 3501 as a look-up by Message-ID needs, read-only.

LOGIN (any), CAPABILITY, NOOP, LIST, STATUS, SELECT, EXAMINE, SEARCH, FETCH, UID SEARCH, UID FETCH, CLOSE, LOGOUT.
Mailboxes: `Journal`, and an empty `INBOX`. Python's imaplib talks to it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping

from acuse_adapters.simulators.imap_query import Refusal, criteria, expanded, in_set, item, tokens
from acuse_adapters.simulators.listener import Session
from acuse_adapters.simulators.mail import Mail, Message
from acuse_adapters.simulators.simulation import Simulation

__all__ = ["imap_session"]

JOURNAL = "Journal"
UID_VALIDITY = 1
CAPABILITY = "CAPABILITY IMAP4rev1"

_ACCESS = {"SELECT": "[READ-WRITE] ", "EXAMINE": "[READ-ONLY] "}
"""Clients such as imaplib insist on the first; there is still nothing that they could change."""

_LITERAL = re.compile(rb"\{(\d+)\+?\}\r?\n$")


def imap_session(simulation: Simulation, mail: Mail) -> Session:
    """A session that shows the mailbox."""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _Imap(simulation, mail, reader, writer).run()

    return session


class _Imap:
    def __init__(self, simulation: Simulation, mail: Mail, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._simulation = simulation
        self._mail = mail
        self._reader = reader
        self._writer = writer
        self._authenticated = False
        self._selected: str | None = None
        self._shown: list[Message] = []
        self._ended = False
        self._commands: Mapping[str, Callable[[list[str]], Awaitable[None]]] = {
            "CAPABILITY": self._capability,
            "NOOP": self._nothing,
            "CHECK": self._nothing,
            "LOGOUT": self._logout,
            "LOGIN": self._login,
            "LIST": self._list,
            "STATUS": self._status,
            "SELECT": self._select,
            "EXAMINE": self._select,
            "CLOSE": self._close,
            "SEARCH": self._search,
            "FETCH": self._fetch,
            "UID": self._uid,
        }

    async def run(self) -> None:
        self._say(f"* OK [{CAPABILITY}] simulator ready")
        while not self._ended:
            await self._writer.drain()
            line = await self._command_line()
            if line is None:
                return
            tag, _, rest = line.partition(" ")
            self._say(f"{tag} {await self._result(tokens(rest))}")
        await self._writer.drain()

    async def _result(self, tokens: list[str]) -> str:
        name = tokens[0].upper() if tokens else ""
        command = self._commands.get(name)
        if command is None:
            return "BAD unknown command"
        if not self._authenticated and name not in {"CAPABILITY", "NOOP", "LOGOUT", "LOGIN"}:
            return "NO log in first"
        try:
            if name in {"NOOP", "CHECK", "SEARCH", "UID"}:
                self._refresh()
            await command(tokens[1:])
        except Refusal as refusal:
            return str(refusal)
        return f"OK {_ACCESS.get(name, '')}{name} done"

    async def _command_line(self) -> str | None:
        """One command, with its literals put in as quoted strings; None at the end of the connection."""
        whole = b""
        while True:
            line = await self._reader.readline()
            if not line.endswith(b"\n"):
                return None
            literal = _LITERAL.search(line)
            if literal is None:
                return (whole + line).decode("utf-8", "replace").rstrip("\r\n")
            if not literal[0].startswith(b"{" + literal[1] + b"+"):
                self._say("+ go on")
                await self._writer.drain()
            text = await self._reader.readexactly(int(literal[1]))
            escaped = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
            whole += line[: literal.start()] + b'"' + escaped + b'"'

    def _say(self, line: str) -> None:
        self._writer.write(line.encode("utf-8") + b"\r\n")

    def _refresh(self) -> None:
        """Show what became visible, and say so."""
        if self._selected == JOURNAL:
            before, self._shown = len(self._shown), self._mail.journal()
            if len(self._shown) != before:
                self._say(f"* {len(self._shown)} EXISTS")

    async def _capability(self, _: list[str]) -> None:
        self._say(f"* {CAPABILITY}")

    async def _nothing(self, _: list[str]) -> None:
        return None

    async def _logout(self, _: list[str]) -> None:
        self._say("* BYE see you")
        self._ended = True

    async def _login(self, arguments: list[str]) -> None:
        if len(arguments) != 2:
            raise Refusal("BAD use LOGIN user password")
        if self._simulation.plan.lookup_down or self._simulation.is_suspended(arguments[0]):
            raise Refusal("NO [UNAVAILABLE] not now")
        self._authenticated = True

    async def _list(self, _: list[str]) -> None:
        for name in ("INBOX", JOURNAL):
            self._say(f'* LIST (\\HasNoChildren) "/" {name}')

    async def _status(self, arguments: list[str]) -> None:
        count = len(self._messages_of(arguments))
        self._say(f"* STATUS {arguments[0]} (MESSAGES {count} UIDNEXT {count + 1} UIDVALIDITY {UID_VALIDITY})")

    async def _select(self, arguments: list[str]) -> None:
        self._shown = self._messages_of(arguments)
        self._selected = JOURNAL if arguments[0].upper() != "INBOX" else "INBOX"
        self._say(f"* {len(self._shown)} EXISTS")
        self._say("* 0 RECENT")
        self._say("* FLAGS (\\Seen)")
        self._say(f"* OK [UIDVALIDITY {UID_VALIDITY}] ids are stable")
        self._say(f"* OK [UIDNEXT {self._shown[-1].uid + 1 if self._shown else 1}] next")

    def _messages_of(self, arguments: list[str]) -> list[Message]:
        name = arguments[0] if arguments else ""
        if name.upper() == "INBOX":
            return []
        if name.upper() != JOURNAL.upper():
            self._selected = None
            raise Refusal("NO [NONEXISTENT] no such mailbox")
        return self._mail.journal()

    async def _close(self, _: list[str]) -> None:
        self._selected, self._shown = None, []

    async def _uid(self, arguments: list[str]) -> None:
        match [arguments[0].upper() if arguments else "", *arguments[1:]]:
            case ["SEARCH", *rest]:
                self._report_search(rest, by_uid=True)
            case ["FETCH", *rest]:
                self._report_fetch(rest, by_uid=True)
            case _:
                raise Refusal("BAD use UID SEARCH or UID FETCH")

    async def _search(self, arguments: list[str]) -> None:
        self._report_search(arguments, by_uid=False)

    async def _fetch(self, arguments: list[str]) -> None:
        self._report_fetch(arguments, by_uid=False)

    def _report_search(self, arguments: list[str], *, by_uid: bool) -> None:
        self._must_be_selected()
        wanted = criteria(arguments, self._shown)
        found = [
            str(message.uid if by_uid else sequence)
            for sequence, message in enumerate(self._shown, start=1)
            if all(accepts(sequence, message) for accepts in wanted)
        ]
        self._say(" ".join(["* SEARCH", *found]))

    def _report_fetch(self, arguments: list[str], *, by_uid: bool) -> None:
        self._must_be_selected()
        if len(arguments) < 2:
            raise Refusal("BAD use FETCH set items")
        items = [name for token in arguments[1:] if token not in {"(", ")"} for name in expanded(token)]
        if by_uid and "UID" not in items:
            items.insert(0, "UID")
        chosen = in_set(arguments[0], self._shown, by_uid=by_uid)
        for sequence, message in enumerate(self._shown, start=1):
            if chosen(sequence, message):
                parts = b" ".join(item(name, message) for name in items)
                self._writer.write(b"* %d FETCH (%s)\r\n" % (sequence, parts))

    def _must_be_selected(self) -> None:
        if self._selected is None:
            raise Refusal("BAD select a mailbox first")
