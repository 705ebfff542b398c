"""Looking for a message in a journal mailbox, over IMAP (RFC 3501), by its Message-ID. Reads only."""

import asyncio
import contextlib
import imaplib
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

from acuse.protocol import NotSent
from acuse_adapters.port import Ended, storable

__all__ = ["Journal", "JournalServer"]

_MOST_COPIES: Final = 10
"""Messages that are read for one Message-ID. More than one is a double already."""

_CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class JournalServer:
    """A mailbox that gets a copy of everything that is sent."""

    host: str
    port: int
    username: str
    mailbox: str = "Journal"
    tls: bool = True
    password: str = field(default="", repr=False)


class Journal:
    """One search, in a thread of its own: the standard library's IMAP client knows no event loop."""

    def __init__(self, server: JournalServer, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._client: imaplib.IMAP4 | None = None

    async def messages(self, message_id: str) -> list[bytes]:
        """Return the messages that the mailbox finds for a Message-ID, whole. Its search is by substring: check them.

        Raises `Ended` when the mailbox cannot be asked, which says nothing about the message.
        """
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.to_thread(self._search, message_id)
        except (imaplib.IMAP4.error, OSError) as error:
            name = "the deadline passed" if type(error) is TimeoutError else type(error).__name__
            raise Ended(NotSent(f"the journal mailbox cannot be asked: {name} {storable(str(error), 120)}".rstrip())) from error
        finally:
            self._hang_up()

    def _search(self, message_id: str) -> list[bytes]:
        client = self._client = self._connected()
        try:
            client.login(self._server.username, self._server.password)
            _checked(client.select(_quoted(self._server.mailbox), readonly=True))
            found = _checked(client.uid("SEARCH", "HEADER", "Message-ID", _quoted(message_id)))
            uids = found[0].split() if found and isinstance(found[0], bytes) else []
            return [raw for uid in uids[:_MOST_COPIES] if (raw := _fetched(client, uid.decode("ascii"))) is not None]
        finally:
            with contextlib.suppress(imaplib.IMAP4.error, OSError):
                client.logout()
            with contextlib.suppress(OSError):
                client.shutdown()  # logout leaves the socket open if its answer does not come

    def _connected(self) -> imaplib.IMAP4:
        server, seconds = self._server, min(self._seconds, _CONNECT_SECONDS)
        if server.tls:
            return imaplib.IMAP4_SSL(server.host, server.port, ssl_context=ssl.create_default_context(), timeout=seconds)
        return imaplib.IMAP4(server.host, server.port, timeout=seconds)

    def _hang_up(self) -> None:
        # A thread cannot be cancelled, but it ends with its connection. After a search that came to its end this does nothing.
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.sock.shutdown(socket.SHUT_RDWR)


def _fetched(client: imaplib.IMAP4, uid: str) -> bytes | None:
    for part in _checked(client.uid("FETCH", uid, "(BODY.PEEK[])")):
        if isinstance(part, tuple):
            return bytes(part[1])
    return None


def _checked(answer: tuple[str, list[Any]]) -> list[Any]:
    status, data = answer
    if status != "OK":
        said = data[0].decode("utf-8", "replace") if data and isinstance(data[0], bytes) else ""
        raise imaplib.IMAP4.error(f"{status} {said}")
    return data


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
