"""The SMTP half of the mail server: RFC 5321 as far as clients use it, with every reply in our hands.

The marker of a message is in its Message-ID, which comes late. A client that wants the faults of MAIL and RCPT to be
drawn for its own marker passes it as the envelope id (`MAIL FROM:<…> ENVID=op_…`, RFC 3461) or in the sender's address;
otherwise those faults answer at the final dot, with the same codes.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from acuse_adapters.simulators.choice import Choice
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.listener import Session, reset
from acuse_adapters.simulators.mail import Envelope, Mail, marker_of
from acuse_adapters.simulators.simulation import Simulation
from acuse_adapters.simulators.smtp_reply import AT_MAIL, AT_RCPT, NOT_STORED, PATH, REPLIES, decoded, early_marker

__all__ = ["smtp_session"]

MESSAGE_LIMIT = 20 << 20
"""Bytes of one message, announced as SIZE."""


class _Over(Exception):  # noqa: N818  (a signal, not an error)
    """The connection ends here."""


@dataclass
class _Transaction:
    sender: str
    marker: str | None
    recipients: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return " ".join((self.sender, *self.recipients))


def smtp_session(simulation: Simulation, mail: Mail) -> Session:
    """A session that takes messages into the mailbox."""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _Smtp(simulation, mail, reader, writer).run()
        except _Over:
            return

    return session


class _Smtp:
    def __init__(self, simulation: Simulation, mail: Mail, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._simulation = simulation
        self._mail = mail
        self._reader = reader
        self._writer = writer
        self._account = ""
        self._transaction: _Transaction | None = None
        self._resets_next = False
        self._verbs: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "EHLO": self._ehlo,
            "HELO": self._helo,
            "AUTH": self._auth,
            "MAIL": self._mail_from,
            "RCPT": self._rcpt_to,
            "DATA": self._data,
            "RSET": self._rset,
            "NOOP": self._noop,
            "VRFY": self._vrfy,
            "QUIT": self._quit,
        }

    async def run(self) -> None:
        await self._say("220 simulator ESMTP")
        while True:
            verb, _, rest = (await self._line()).partition(" ")
            if self._resets_next:
                self._break()
            command = self._verbs.get(verb.upper())
            if command is None:
                await self._say("500 5.5.2 command not recognised")
            else:
                await command(rest.strip())

    async def _line(self) -> str:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise _Over
        return line.decode("utf-8", "surrogateescape").rstrip("\r\n")

    async def _say(self, *lines: str) -> None:
        self._writer.write("".join(f"{line}\r\n" for line in lines).encode())
        await self._writer.drain()

    def _break(self) -> None:
        reset(self._writer)
        raise _Over

    async def _ehlo(self, _: str) -> None:
        self._transaction = None
        await self._say(
            "250-simulator",
            f"250-SIZE {MESSAGE_LIMIT}",
            "250-8BITMIME",
            "250-SMTPUTF8",
            "250-ENHANCEDSTATUSCODES",
            "250-DSN",
            "250 AUTH PLAIN LOGIN",
        )

    async def _helo(self, _: str) -> None:
        self._transaction = None
        await self._say("250 simulator")

    async def _auth(self, rest: str) -> None:
        mechanism, _, initial = rest.partition(" ")
        match mechanism.upper():
            case "PLAIN":
                token = initial or await self._ask("")
                account = decoded(token).split("\0")[1:2]
            case "LOGIN":
                account = [decoded(initial or await self._ask("Username:"))]
                await self._ask("Password:")
            case _:
                await self._say("504 5.5.4 use PLAIN or LOGIN")
                return
        if not account or self._simulation.is_suspended(account[0]):
            await self._say("535 5.7.8 authentication credentials invalid")
            return
        self._account = account[0]
        await self._say("235 2.7.0 accepted")

    async def _ask(self, prompt: str) -> str:
        await self._say(f"334 {base64.b64encode(prompt.encode()).decode()}")
        return await self._line()

    async def _mail_from(self, rest: str) -> None:
        found = PATH.fullmatch(rest)
        if found is None or self._transaction is not None:
            await self._say("503 5.5.1 nested MAIL" if found else "501 5.5.4 use MAIL FROM:<address>")
            return
        if self._simulation.is_suspended(self._account):
            await self._say(REPLIES[Fault.UNAUTHORIZED])
            return
        self._transaction = _Transaction(found[1], early_marker(found[1], found[2]))
        if not await self._fails_early(self._transaction, AT_MAIL):
            await self._say("250 2.1.0 sender ok")

    async def _rcpt_to(self, rest: str) -> None:
        found, transaction = PATH.fullmatch(rest), self._transaction
        if found is None or transaction is None:
            await self._say("501 5.5.4 use RCPT TO:<address>" if transaction else "503 5.5.1 MAIL first")
            return
        transaction.recipients += (found[1],)
        if not await self._fails_early(transaction, AT_RCPT):
            await self._say("250 2.1.5 recipient ok")

    async def _fails_early(self, transaction: _Transaction, here: frozenset[Fault]) -> bool:
        """Whether the transaction ends at this command, by a fault that belongs here."""
        choice = self._peek(transaction)
        if choice.fault not in here:
            return False
        self._begin(transaction, transaction.marker, choice)
        self._transaction = None
        await self._refuse(choice.fault)
        return True

    def _peek(self, transaction: _Transaction) -> Choice:
        if transaction.marker is None:
            return self._simulation.chooser.peek_unmarked(transaction.text)
        return self._simulation.chooser.peek(transaction.marker, transaction.text)

    def _begin(self, transaction: _Transaction, marker: str | None, choice: Choice) -> int:
        path = ",".join(transaction.recipients) or transaction.sender
        return self._simulation.begin(marker=marker, method="SMTP", path=path, choice=choice)

    async def _refuse(self, fault: Fault | None) -> None:
        """Say that nothing was done; a service that is not available also hangs up."""
        if fault is Fault.UNAUTHORIZED:
            self._simulation.suspend(self._account)
        await self._say(REPLIES[fault])
        if fault is Fault.UNAVAILABLE:
            raise _Over

    async def _data(self, _: str) -> None:
        transaction = self._transaction
        if transaction is None or not transaction.recipients:
            await self._say("503 5.5.1 MAIL and RCPT first")
            return
        self._transaction = None
        await self._say("354 end with <CRLF>.<CRLF>")
        head, ended = await self._read_data(b"", until=b"\r\n")
        marker = marker_of(head)
        choice = self._choose(transaction, marker, head)
        if choice.fault is Fault.DROP_BEFORE:
            self._begin(transaction, marker, choice)
            self._break()
        raw = head if ended else (await self._read_data(head, until=None))[0]
        if len(raw) > MESSAGE_LIMIT:
            await self._say("552 5.3.4 message too big")
            return
        choice = self._choose(transaction, marker, raw)
        repeated = self._simulation.truth.is_applied(marker)
        await self._take(transaction, raw, marker, choice, repeated=repeated)

    def _choose(self, transaction: _Transaction, marker: str | None, raw: bytes) -> Choice:
        text = f"{transaction.text} {raw.decode('utf-8', 'replace')}"
        return self._simulation.settle_repeat(marker, self._simulation.chooser.peek(marker, text))

    async def _read_data(self, start: bytes, *, until: bytes | None) -> tuple[bytes, bool]:
        """Lines up to this one, or up to the final dot; and whether that was the final dot."""
        data = bytearray(start)
        while True:
            line = await self._reader.readline()
            if not line.endswith(b"\n"):
                raise _Over
            if line == b".\r\n":
                return bytes(data), True
            data += line[1:] if line.startswith(b".") else line
            if line == until:
                return bytes(data), False

    async def _take(self, transaction: _Transaction, raw: bytes, marker: str | None, choice: Choice, *, repeated: bool) -> None:
        """At the final dot, with the whole message in hand."""
        number, fault = self._begin(transaction, marker, choice), choice.fault
        if fault in NOT_STORED or (fault is Fault.REFUSE_REPEAT and repeated):
            await self._refuse(fault)
            return
        if fault is Fault.DROP_BEFORE:
            self._break()
        if fault is Fault.STALL:
            await self._silence()
        await self._stop_at_gate(transaction, marker, number, applied=False)
        envelope = Envelope(self._account, transaction.sender, transaction.recipients)
        if fault is Fault.APPLY_LATE:
            await self._store_late(number, envelope, raw)
        self._mail.store(number, envelope, raw)
        await self._stop_at_gate(transaction, marker, number, applied=True)
        await self._answer_dot(fault, number)

    async def _answer_dot(self, fault: Fault | None, number: int) -> None:
        """The reply to a message that is stored."""
        match fault:
            case Fault.DROP_REPLY | Fault.REFUSE_REPEAT:
                raise _Over
            case Fault.STALL_APPLIED:
                await self._silence()
            case Fault.ERROR_AFTER_APPLY:
                await self._say(REPLIES[fault])
            case Fault.HALF_ANSWER:
                self._writer.write(b"25")
                await self._writer.drain()
                raise _Over
            case _:
                self._resets_next = fault is Fault.RESET_AT_QUIT
                await self._say(f"250 2.0.0 queued as {number}")

    async def _silence(self) -> None:
        """Say nothing until the client leaves or `stall_seconds` are over, then hang up."""
        try:
            async with asyncio.timeout(self._simulation.plan.stall_seconds):
                await self._reader.read(1)
        except TimeoutError:
            pass
        raise _Over

    async def _store_late(self, number: int, envelope: Envelope, raw: bytes) -> None:
        async def store() -> None:
            self._mail.store(number, envelope, raw)

        self._simulation.later(store)
        if self._simulation.plan.late_silent:
            await self._silence()
        raise _Over

    async def _stop_at_gate(self, transaction: _Transaction, marker: str | None, number: int, *, applied: bool) -> None:
        await self._simulation.stop_at(
            "after_apply" if applied else "before_apply",
            marker=marker,
            kind="email",
            path=",".join(transaction.recipients),
            request=number,
        )

    async def _rset(self, _: str) -> None:
        self._transaction = None
        await self._say("250 2.0.0 reset")

    async def _noop(self, _: str) -> None:
        await self._say("250 2.0.0 ok")

    async def _vrfy(self, _: str) -> None:
        await self._say("252 2.5.2 send it and see")

    async def _quit(self, _: str) -> None:
        await self._say("221 2.0.0 bye")
        raise _Over
