"""An HTTP gateway in front of a provider that answers some writes with a status of its own, whatever it did with them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

__all__ = ["Answer", "Gateway", "gateway"]


@dataclass(frozen=True)
class Answer:
    """What the gateway says itself. `passes_on`: the provider gets the write all the same, and its answer is lost."""

    status: int
    passes_on: bool


@dataclass
class Gateway:
    """`answers`: a text that a write contains (in its head or body) and what its first arrival is answered with."""

    upstream: str
    answers: dict[bytes, Answer] = field(default_factory=dict)
    writes: list[bytes] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def seen(self, text: str) -> int:
        """How many writes with a text in them have arrived."""
        return sum(text.encode() in write for write in self.writes)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                writer.write(await self._answered(await _message(reader)))
                await writer.drain()
        writer.close()

    async def _answered(self, request: bytes) -> bytes:
        if request.startswith(b"GET "):
            return await self._passed_on(request)
        self.writes.append(request)
        own = next((self.answers.pop(text) for text in list(self.answers) if text in request), None)
        if own is None:
            return await self._passed_on(request)
        if own.passes_on:
            await self._passed_on(request)
        return b"HTTP/1.1 %d Gateway\r\nContent-Length: 0\r\n\r\n" % own.status

    async def _passed_on(self, request: bytes) -> bytes:
        address = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(request)
        answer = await _message(reader)
        writer.close()
        return answer


async def _message(stream: asyncio.StreamReader) -> bytes:
    """One request or answer, whole."""
    head = await stream.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return head + await stream.readexactly(length)


@asynccontextmanager
async def gateway(upstream: str) -> AsyncIterator[Gateway]:
    """A gateway in this event loop."""
    made = Gateway(upstream)
    server = await asyncio.start_server(made.serve, "127.0.0.1")
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
