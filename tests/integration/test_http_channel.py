"""The channel against a bare TCP server that misbehaves: how many requests are on the wire, and what their end means."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pydantic import Field

from acuse.intent import Action
from acuse.protocol import (
    Absent,
    Accepted,
    Ambiguous,
    Concerns,
    Consistency,
    Finding,
    Lookup,
    Marker,
    NotSent,
    Outcome,
    Receipt,
    Refused,
    RetryContract,
    Unavailable,
)
from acuse.protocol.duration import Seconds
from acuse_adapters.crm.contract import VERIFIED_ON
from acuse_adapters.engine import call
from acuse_adapters.http import Http, HttpAdapter
from acuse_adapters.port import Ended, Operation, Phase, Pin, action, segment
from acuse_adapters.ticketing.contract import create_contract

SECONDS = 0.4
"""Deadline of the calls here: long for a loopback, short for a test that waits for it."""


class Make(Action, name="plain.make.v1", target="thing"):
    thing: str
    note: dict[str, Any] = Field(default_factory=dict)


CONTRACT = RetryContract(
    version="1",
    verified_on=VERIFIED_ON,
    source="a test",
    deadline=Seconds(SECONDS),
    again_means="a second thing is made",
    marker=Marker(where="id"),
    lookup=Lookup(by="id", consistency=Consistency.STRONG),
    refused=frozenset({422}),
    not_executed=frozenset({429}),
    account_faults=frozenset({401}),
)


class Plain(HttpAdapter):
    provider = "plain"
    twice = False

    @action(Make, contract=CONTRACT)
    async def make(self, op: Operation[Make], http: Http) -> Outcome:
        body = {"note": op.payload.note, "id": op.id}
        reply = await http.post(f"/things/{segment(op.payload.thing)}", json=body)
        if self.twice:
            await http.post("/things/again", json={})
        return Accepted(Receipt(reply.text("id"), provider_request_id=reply.request_id))

    @make.prepare
    async def see(self, op: Operation[Make], http: Http) -> Pin:
        seen = await http.get(f"/things/{segment(op.payload.thing)}", missing_ok=True)
        return {"there": seen is not None}

    @make.look_up
    async def find(self, op: Operation[Make], http: Http) -> Finding:
        if self.twice:
            await http.post("/things/again", json={})
        return Absent() if await http.get("/things", params={"id": op.id}, missing_ok=True) is None else Unavailable("there")


class RetryingPlain(Plain):
    def make_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, transport=httpx.AsyncHTTPTransport(retries=5), trust_env=False)


class Server:
    """Reads whole requests, keeps their bytes, and lets a test answer them."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = self.silent
        self.heard = asyncio.Event()
        self.gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def silent(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(1)
        self.gone.set()

    def saying(self, raw: bytes, *, close: bool = False) -> None:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(raw)
            await writer.drain()
            if close:
                writer.close()

        self.answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while not writer.is_closing():
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = next(
                        (
                            int(line.partition(b":")[2])
                            for line in head.split(b"\r\n")
                            if line.lower().startswith(b"content-length")
                        ),
                        0,
                    )
                    self.requests.append(head + await reader.readexactly(length))
                    self.heard.set()
                    await self.answer(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def answer(status: str, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


OURS = answer("201 Created", b'{"id": 7}', "X-Request-Id: r-1")


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[Server, str]]:
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    try:
        yield server, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        await server.end()


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, str]]:
    async with listening() as it:
        yield it


@contextlib.asynccontextmanager
async def opened(adapter: HttpAdapter) -> AsyncIterator[HttpAdapter]:
    await adapter.open()
    try:
        yield adapter
    finally:
        await adapter.close()


def operation(thing: str = "a", **note: Any) -> Operation[Make]:
    return Operation(f"op_{7:032x}", "t", "main", thing, Make(thing=thing, note=note), 1, {})


async def sent(url: str, kind: type[Plain] = Plain, seconds: float = SECONDS) -> Outcome:
    async with opened(kind(url)) as adapter:
        return await call.send(adapter, adapter.actions["plain.make.v1"], operation(), seconds)


async def test_an_accepted_request_is_a_receipt(server: tuple[Server, str]) -> None:
    server[0].saying(OURS)
    assert await sent(server[1]) == Accepted(Receipt("7", provider_request_id="r-1"))


@pytest.mark.case("R005")
@pytest.mark.invariant(4)
@pytest.mark.parametrize("kind", [Plain, RetryingPlain])
async def test_a_provider_that_reads_the_whole_request_and_stalls_gets_exactly_one(
    server: tuple[Server, str], kind: type[Plain]
) -> None:
    # Given a server that reads everything and never answers
    provider, url = server
    # When it is sent to, even by a client whose library would retry
    outcome = await sent(url, kind)
    # Then nobody knows what happened, one request was on the wire, and the connection is gone
    assert isinstance(outcome, Ambiguous)
    assert "the deadline passed" in outcome.reason
    await asyncio.wait_for(provider.gone.wait(), 5)
    assert len(provider.requests) == 1
    assert provider.connections == 1
    # And the start-up check would not have let the second one run at all
    assert bool(kind(url).problems()) == (kind is RetryingPlain)


async def test_a_second_request_in_one_send_is_refused_before_it_leaves(server: tuple[Server, str]) -> None:
    class Twice(Plain):
        twice = True

    server[0].saying(OURS)
    outcome = await sent(server[1], Twice)
    assert outcome == Ambiguous("the adapter failed during the call: RuntimeError")
    assert len(server[0].requests) == 1


async def test_a_look_up_changes_nothing(server: tuple[Server, str]) -> None:
    class Twice(Plain):
        twice = True

    async with opened(Twice(server[1])) as adapter:
        finding = await call.look_up(adapter, adapter.actions["plain.make.v1"], operation())
    assert isinstance(finding, Unavailable)
    assert server[0].requests == []


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (answer("201 Created", b'{"id": 7}')[:-4], "RemoteProtocolError"),
        (b"HTTP/1.1 201 Cr", "RemoteProtocolError"),
        (b"", "RemoteProtocolError"),
        (b"220 smtp.example ESMTP\r\n", "RemoteProtocolError"),
        (answer("201 Created", b"<html>"), "no JSON"),
        (answer("201 Created", b"{}"), "no field"),
        (answer("204 No Content", b""), "no JSON"),
        (answer("302 Found", b"", "Location: /elsewhere"), "redirect"),
        (answer("307 Temporary Redirect", b"", "Location: /elsewhere"), "redirect"),
        (answer("500 Internal Server Error"), "500"),
        (answer("422 Unprocessable", b'{"reason": "no"}')[:-3], "RemoteProtocolError"),
        (b'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"id"\r\n', "RemoteProtocolError"),
    ],
)
async def test_an_answer_that_is_none_leaves_doubt(server: tuple[Server, str], raw: bytes, reason: str) -> None:
    server[0].saying(raw, close=True)
    outcome = await sent(server[1])
    assert isinstance(outcome, Ambiguous)
    assert reason in outcome.reason
    assert len(server[0].requests) == 1


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (answer("422 Unprocessable", b'{"reason": "no such owner"}'), Refused("422", "no such owner")),
        (answer("429 Too Many", b"{}", "Retry-After: 9"), NotSent("429: {}", timedelta(seconds=9), concerns=Concerns.ACCOUNT)),
        (answer("401 Unauthorized", b"{}"), NotSent("401: {}", account_fault=True)),
    ],
)
async def test_a_definite_answer_is_what_the_contract_says(server: tuple[Server, str], raw: bytes, expected: Outcome) -> None:
    server[0].saying(raw)
    assert await sent(server[1]) == expected


async def test_a_huge_answer_is_given_up_and_its_connection_too(server: tuple[Server, str]) -> None:
    provider, url = server

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 1000000000\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        finally:
            provider.gone.set()

    provider.answer = flood
    outcome = await sent(url, seconds=10)
    assert isinstance(outcome, Ambiguous)
    assert "over 1048576 bytes" in outcome.reason
    await asyncio.wait_for(provider.gone.wait(), 5)


async def test_nobody_at_the_door_means_not_sent() -> None:
    async with listening() as (_, url):
        pass
    outcome = await sent(url)
    assert isinstance(outcome, NotSent)
    assert "ConnectError before anything was sent" in outcome.reason


async def test_a_pool_without_room_means_not_sent(server: tuple[Server, str]) -> None:
    class Narrow(Plain):
        def make_client(self) -> httpx.AsyncClient:
            limits = httpx.Limits(max_connections=1)
            return httpx.AsyncClient(base_url=self.url, transport=httpx.AsyncHTTPTransport(limits=limits), trust_env=False)

    provider, url = server
    async with opened(Narrow(url)) as adapter:
        declared = adapter.actions["plain.make.v1"]
        first = asyncio.create_task(call.send(adapter, declared, operation(), 5))
        await asyncio.wait_for(provider.heard.wait(), 5)
        # When the only connection is taken until after this one's deadline
        second = await call.send(adapter, declared, operation(), 0.2)
        provider.answer = provider.silent
        first.cancel()
        assert isinstance(await first, Ambiguous)
    assert isinstance(second, NotSent)
    assert "before anything was sent" in second.reason
    assert len(provider.requests) == 1


async def test_an_idle_connection_that_the_server_closed_is_not_taken_for_a_refusal(server: tuple[Server, str]) -> None:
    # Given a kept connection that the server drops at the next request instead of answering it
    provider, url = server
    provider.saying(OURS)
    async with opened(Plain(url)) as adapter:
        declared = adapter.actions["plain.make.v1"]
        assert isinstance(await call.send(adapter, declared, operation(), SECONDS), Accepted)
        provider.saying(b"", close=True)
        # When the next request goes into it
        outcome = await call.send(adapter, declared, operation(), SECONDS)
    # Then it is ambiguous, and it was not sent again
    assert isinstance(outcome, Ambiguous)
    assert (len(provider.requests), provider.connections) == (2, 1)


async def test_a_read_that_meets_a_broken_connection_is_repeated_once(server: tuple[Server, str]) -> None:
    # Given a kept connection that the server drops at the next request instead of answering it, once
    provider, url = server
    provider.saying(answer("200 OK"))
    async with opened(Plain(url)) as adapter:
        declared = adapter.actions["plain.make.v1"]
        assert await call.prepare(adapter, declared, operation()) == {"there": True}

        async def dropped(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()
            provider.saying(answer("404 Not Found"))

        provider.answer = dropped
        # When something is looked up through it
        finding = await call.look_up(adapter, declared, operation())
        # Then it is asked again on a new connection, since reading changes nothing
        assert finding == Absent()
        assert (len(provider.requests), provider.connections) == (3, 2)
        # And a provider that drops every request is asked twice and not for ever
        provider.saying(b"", close=True)
        assert isinstance(await call.look_up(adapter, declared, operation()), Unavailable)
        assert len(provider.requests) == 5


async def test_prepare_and_look_up_take_every_failure_for_nothing(server: tuple[Server, str]) -> None:
    provider, url = server
    async with opened(Plain(url)) as adapter:
        declared = adapter.actions["plain.make.v1"]
        for raw, fault in ((answer("500 Oops"), False), (answer("401 No"), True), (answer("302 Found"), False), (b"", False)):
            provider.saying(raw, close=True)
            unprepared = await call.prepare(adapter, declared, operation())
            assert isinstance(unprepared, NotSent)
            assert unprepared.account_fault == fault
            assert isinstance(await call.look_up(adapter, declared, operation()), Unavailable)
        provider.saying(answer("404 Not Found"))
        assert await call.prepare(adapter, declared, operation()) == {"there": False}
        assert await call.look_up(adapter, declared, operation()) == Absent()
        provider.saying(answer("200 OK"))
        assert await call.prepare(adapter, declared, operation()) == {"there": True}


async def test_a_shutdown_during_the_call_is_ambiguous_and_frees_the_connection(server: tuple[Server, str]) -> None:
    provider, url = server
    async with opened(Plain(url)) as adapter:
        running = asyncio.create_task(call.send(adapter, adapter.actions["plain.make.v1"], operation(), 5))
        await asyncio.wait_for(provider.heard.wait(), 5)
        running.cancel()
        assert isinstance(await running, Ambiguous)
        await asyncio.wait_for(provider.gone.wait(), 5)


@pytest.mark.case("R029")
async def test_both_attempts_send_the_same_bytes(server: tuple[Server, str]) -> None:
    provider, url = server
    provider.saying(OURS)
    for note in ({"b": 1, "a": {"y": "é", "x": 2}}, {"a": {"x": 2, "y": "é"}, "b": 1}):
        async with opened(Plain(url)) as adapter:
            await call.send(adapter, adapter.actions["plain.make.v1"], operation("case/3 18?", **note), SECONDS)
    first, second = provider.requests
    assert first == second
    assert first.startswith(b"POST /things/case%2F3%2018%3F HTTP/1.1\r\n")
    assert json.loads(first.partition(b"\r\n\r\n")[2]) == {"id": operation().id, "note": {"a": {"x": 2, "y": "é"}, "b": 1}}


async def test_nothing_of_one_answer_or_of_the_environment_enters_the_next_request(
    server: tuple[Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, url = server
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    provider.saying(answer("201 Created", b'{"id": 7}', "Set-Cookie: session=other-account"))
    async with opened(Plain(url)) as adapter:
        for _ in range(2):
            assert isinstance(await call.send(adapter, adapter.actions["plain.make.v1"], operation(), SECONDS), Accepted)
    assert all(b"session" not in request for request in provider.requests)


@pytest.mark.parametrize(
    ("event", "traced", "expected"),
    [
        (None, True, NotSent),
        ("connection.connect_tcp.started", True, NotSent),
        ("http11.send_request_headers.started", True, Ambiguous),
        ("http2.send_request_headers.complete", True, Ambiguous),
        (None, False, Ambiguous),  # a transport that tells nothing may have done everything
    ],
)
async def test_how_far_a_request_came_decides_what_its_end_means(
    event: str | None, traced: bool, expected: type[Outcome]
) -> None:
    async def handle(request: httpx.Request) -> httpx.Response:
        if event is not None:
            await request.extensions["trace"](event, {})
        raise httpx.ReadError("gone", request=request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(handle), base_url="http://provider.example") as client:
        http = Http(client, CONTRACT, Phase.SEND, SECONDS, traced=traced)
        with pytest.raises(Ended) as caught:
            await http.put("/things/1", json={})
    assert isinstance(caught.value.outcome, expected)


async def test_a_key_is_sent_exactly_where_the_contract_promises_one() -> None:
    heard: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        heard.append(request)
        return httpx.Response(200, json={})

    async with httpx.AsyncClient(transport=httpx.MockTransport(handle), base_url="http://provider.example") as client:
        with pytest.raises(RuntimeError, match="promises no key"):
            await Http(client, CONTRACT, Phase.SEND, SECONDS).patch("/x", json={}, key="op_1")
        with pytest.raises(RuntimeError, match="without key="):
            await Http(client, create_contract(), Phase.SEND, SECONDS).delete("/x")
        with pytest.raises(RuntimeError, match="the provider takes 255"):
            await Http(client, create_contract(), Phase.SEND, SECONDS).post("/x", key="k" * 256)
        with pytest.raises(RuntimeError, match="no JSON"):
            await Http(client, CONTRACT, Phase.SEND, SECONDS).post("/x", json={"x": float("nan")})
        assert heard == []
        await Http(client, create_contract(), Phase.SEND, SECONDS).post("/x", key="op_1")
    assert heard[0].headers["Idempotency-Key"] == "op_1"
