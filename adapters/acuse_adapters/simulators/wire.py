"""HTTP/1.1 on bare streams, with the freedom to answer by half, late, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from acuse_adapters.simulators.listener import Session, reset

__all__ = ["Answer", "BadRequest", "Cut", "Half", "Handler", "Reply", "Request", "Silence", "http_session"]

BODY_LIMIT = 4 << 20
"""Bytes of a request body; more is answered 413."""


class BadRequest(Exception):  # noqa: N818  (it is an answer, 400, not a failure of ours)
    """The request cannot be read; the message is sent to the client."""


@dataclass(frozen=True)
class Request:
    """One request, read whole."""

    method: str
    path: str
    segments: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object (an empty body is an empty one). Raises BadRequest."""
        try:
            value = json.loads(self.body or b"{}")
        except ValueError as error:
            raise BadRequest(f"body: not JSON ({error})") from error
        if not isinstance(value, dict):
            raise BadRequest("body: must be a JSON object")
        return value


@dataclass(frozen=True)
class Answer:
    """A whole answer, with a JSON body. `then_close` breaks the connection after it, unannounced."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    then_close: bool = False


@dataclass(frozen=True)
class Half:
    """The head of an answer and half of its body, then the end of the connection."""

    answer: Answer


@dataclass(frozen=True)
class Silence:
    """No answer until the client leaves or this time is over."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """No answer; the connection closes, or is reset."""

    reset: bool = False


Reply = Answer | Half | Silence | Cut
Handler = Callable[[Request], Awaitable[Reply]]


def http_session(handle: Handler) -> Session:
    """A session that reads requests, one after the other, and lets `handle` answer them."""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            try:
                request = await _read(connection, reader, writer)
            except h11.RemoteProtocolError as error:
                await _send_error(connection, writer, error)
                return
            if request is None:
                return
            if not await _deliver(connection, reader, writer, await _answer(handle, request)):
                return
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    return session


async def _answer(handle: Handler, request: Request) -> Reply:
    try:
        return await handle(request)
    except BadRequest as error:
        return Answer(400, {"error": "bad_request", "reason": str(error)})


async def _read(connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            connection.receive_data(await reader.read(1 << 16))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_LIMIT:
                raise h11.RemoteProtocolError(f"body: over {BODY_LIMIT} bytes", error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            return _request(head, bytes(body))
        else:  # the client closed the connection, or we may read no more from it
            return None


def _request(head: h11.Request, body: bytes) -> Request:
    parts = urlsplit(head.target.decode("ascii"))
    return Request(
        method=head.method.decode("ascii"),
        path=unquote(parts.path),
        segments=tuple(unquote(segment) for segment in parts.path.split("/") if segment),
        query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        headers={name.decode("ascii").lower(): value.decode("latin-1") for name, value in head.headers},
        body=body,
    )


async def _deliver(connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply) -> bool:
    """Send the reply; False when the connection is over."""
    match reply:
        case Answer():
            writer.write(_encode(connection, reply))
            await writer.drain()
            return not reply.then_close
        case Half(answer=answer):
            whole = _encode(connection, answer)
            writer.write(whole[: len(whole) - max(1, len(_body(answer)) // 2)])
            await writer.drain()
        case Silence(seconds=seconds):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await reader.read(1)
        case Cut(reset=True):
            reset(writer)
        case Cut():
            pass
    return False


def _body(answer: Answer) -> bytes:
    return json.dumps(answer.body).encode()


def _encode(connection: h11.Connection, answer: Answer) -> bytes:
    body = _body(answer)
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *answer.headers.items()]
    head = connection.send(h11.Response(status_code=answer.status, headers=headers)) or b""
    data = connection.send(h11.Data(data=body)) or b""
    return head + data + (connection.send(h11.EndOfMessage()) or b"")


async def _send_error(connection: h11.Connection, writer: asyncio.StreamWriter, error: h11.RemoteProtocolError) -> None:
    if connection.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
        writer.write(_encode(connection, Answer(error.error_status_hint, {"error": "bad_request", "reason": str(error)})))
        await writer.drain()
