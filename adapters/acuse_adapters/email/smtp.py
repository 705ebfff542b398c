"""Carrying one letter to a mail server: one connection, one message, and the final dot as the only point of no return."""

import asyncio
import contextlib
import re
import socket
import struct
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import aiosmtplib
import structlog

from acuse.protocol import NotSent, Outcome, RetryContract
from acuse_adapters.email import classify
from acuse_adapters.email.classify import Step
from acuse_adapters.email.message import Letter
from acuse_adapters.port import storable

__all__ = ["Smtp", "SmtpServer"]

_GOODBYE_SECONDS: Final = 1.0
"""How long the answer to QUIT may take. The outcome is known by then; nothing depends on it."""

_DRAIN_PAUSE_SECONDS: Final = 0.005
_HEAD_START: Final = 0.05
"""Seconds (at most this, and a tenth of the whole) by which this deadline ends before the engine's own, which knows no steps."""

_LINE_ENDS: Final = re.compile(rb"\r\n|\r|\n")
_LEADING_DOT: Final = re.compile(rb"(?m)^\.")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """Where letters are handed in. `helo` is our name there."""

    host: str
    port: int
    helo: str
    starttls: bool = True
    username: str | None = None
    password: str = field(default="", repr=False)

    def client(self) -> aiosmtplib.SMTP:
        """Return a client, not connected yet. It has no timeouts of its own: there is one deadline for everything."""
        return aiosmtplib.SMTP(
            hostname=self.host,
            port=self.port,
            local_hostname=self.helo,
            start_tls=self.starttls,
            username=self.username,
            password=self.password if self.username is not None else None,
            timeout=None,
        )


class Smtp:
    """SMTP for one attempt. Leaving it says goodbye if the server is still there, and drops the connection in any case.

    After a timeout the connection is dropped at once: a late reply must never be read as the answer to something else, and
    what still waits in our buffer must not leave after we have given up.
    """

    def __init__(self, server: SmtpServer, contract: RetryContract, seconds: float) -> None:
        self._client = server.client()
        self._contract = contract
        self._ends = asyncio.get_running_loop().time() + seconds - min(_HEAD_START, seconds / 10)
        self._step = Step.CONNECT
        self._transport: asyncio.BaseTransport | None = None
        self._sent = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None and self._client.is_connected:
                await asyncio.wait_for(self._client.quit(), _GOODBYE_SECONDS)
        except (aiosmtplib.SMTPException, OSError) as goodbye:
            # The message is with the server, or it is not: how the connection ends changes nothing about that.
            _log.info("smtp_goodbye_failed", error=type(goodbye).__name__)
        finally:
            self._drop()

    async def deliver(self, letter: Letter, *, envelope_id: str) -> Outcome:
        """Hand the letter in, once, and return what became of it.

        envelope_id: is told to servers that take one (RFC 3461), so that their reports name the operation.
        """
        if self._sent:
            raise RuntimeError("a second letter in one send: what one attempt does is one letter")
        self._sent = True
        try:
            async with asyncio.timeout_at(self._ends):
                return await self._deliver(letter, envelope_id)
        except aiosmtplib.SMTPResponseException as refusal:
            if self._step is Step.DOT:
                return classify.at_dot(self._contract, refusal.code, refusal.message, letter.message_id)
            return classify.before_dot(self._contract, self._step, refusal.code, refusal.message)
        except (aiosmtplib.SMTPServerDisconnected, aiosmtplib.SMTPConnectError, aiosmtplib.SMTPTimeoutError, OSError) as error:
            self._drop()
            return classify.lost(self._step, error)
        except aiosmtplib.SMTPException as error:
            # The server has no STARTTLS or no AUTH that we can use: nothing was said about a message yet.
            self._drop()
            if self._step is not Step.CONNECT:
                return classify.lost(self._step, error)
            return NotSent(f"{self._step}: {storable(str(error.message))}", account_fault=True)

    async def _deliver(self, letter: Letter, envelope_id: str) -> Outcome:
        await self._client.connect()
        self._transport = self._client.transport
        if self._client.is_ehlo_or_helo_needed:
            await self._client.ehlo()
        self._step = Step.MAIL
        options = [f"ENVID={envelope_id}"] if self._client.supports_extension("dsn") else []
        await self._client.mail(letter.sender, options=options)
        self._step = Step.RCPT
        await self._client.rcpt(letter.recipient)
        self._step = Step.DATA
        start = await self._client.execute_command(b"DATA")
        if start.code != aiosmtplib.SMTPStatus.start_input:
            return classify.before_dot(self._contract, self._step, start.code, start.message)
        return await self._content(letter)

    async def _content(self, letter: Letter) -> Outcome:
        protocol = self._client.protocol
        if protocol is None:
            raise aiosmtplib.SMTPServerDisconnected("Connection lost")
        protocol.write(_stuffed(letter.content))
        # The dot goes out alone, after everything before it has left our buffer: as long as it has not, nothing was sent.
        await self._drained()
        if not protocol.is_connected:
            raise aiosmtplib.SMTPServerDisconnected("Connection lost")
        self._step = Step.DOT
        protocol.write(b".\r\n")
        reply = await protocol.read_response()
        return classify.at_dot(self._contract, reply.code, reply.message, letter.message_id)

    async def _drained(self) -> None:
        transport = self._transport
        await asyncio.sleep(0)  # a connection that is gone is noticed here, while "not sent" is still certain
        while _has_more(transport):  # noqa: ASYNC110 - only the protocol itself could wait for this without asking
            await asyncio.sleep(_DRAIN_PAUSE_SECONDS)

    def _drop(self) -> None:
        transport, self._transport = self._transport or self._client.transport, None
        if isinstance(transport, asyncio.WriteTransport) and not transport.is_closing():
            _forget_unsent(transport)
            transport.abort()  # close() would go on sending what is in the buffer
        self._client.close()


def _forget_unsent(transport: asyncio.BaseTransport) -> None:
    """Let the end of this connection be a reset: the kernel, too, would go on sending what it has taken from us."""
    raw = transport.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _has_more(transport: asyncio.BaseTransport | None) -> bool:
    if not isinstance(transport, asyncio.WriteTransport) or transport.is_closing():
        return False
    return transport.get_write_buffer_size() > 0


def _stuffed(content: bytes) -> bytes:
    """Lines that begin with a dot get a second one, and the last line is whole (RFC 5321, 4.5.2)."""
    lines = _LEADING_DOT.sub(b"..", _LINE_ENDS.sub(b"\r\n", content))
    return lines if lines.endswith(b"\r\n") else lines + b"\r\n"
