"""A listening socket whose connections end with it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable

__all__ = ["LINE_LIMIT", "Listener", "Session", "reset"]

Session = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

LINE_LIMIT = 1 << 20
"""Bytes in one line of SMTP or IMAP: generous, so that no client meets it by accident."""


class Listener:
    """Runs a session per connection; a client that goes away in the middle is no error."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen (port 0: any free port) and return the port."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=LINE_LIMIT)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # Cancelled only by close(); asyncio would report it as an error of the connection.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._session(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection with a TCP reset instead of a close."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
