"""What an adapter's coroutine talks through: HTTP for one phase of one attempt."""

import asyncio
import json as json_module
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, overload

import httpx

from acuse.protocol import Outcome, RetryContract
from acuse_adapters.http import classify
from acuse_adapters.http.classify import Wire
from acuse_adapters.http.reply import Reply
from acuse_adapters.port import Ended, Phase, storable

__all__ = ["ANSWER_LIMIT", "CONNECT_SECONDS", "Http"]

ANSWER_LIMIT: Final = 1 << 20
"""Bytes of an answer. An id does not need more, and a worker must not be filled by one provider."""

CONNECT_SECONDS: Final = 5.0
"""A connection that takes longer will not come: give up while "not sent" is still certain."""

_HEAD_START: Final = 0.05
"""Seconds (at most this, and a tenth of the whole) by which this deadline ends before the engine's own.

The channel knows how far the request came; whoever only sees a call that takes too long must take the worse for granted.
"""

_READS: Final = frozenset({"GET", "HEAD"})

_CUT: Final = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
"""The connection broke. One that the provider closed while it was idle shows like this too, at the next request on it."""


class Http:
    """HTTP for one phase: no retries, no redirects, one total deadline; statuses and failures become outcomes by the contract.

    Every method returns a `Reply` with a status of 2xx, or raises `Ended`. In `send` it carries out one request and no
    second one; in `look_up` it only reads. A read outside of `send` that meets a broken connection is repeated once.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        contract: RetryContract,
        phase: Phase,
        seconds: float,
        *,
        headers: Mapping[str, str] | None = None,
        read_refusal: Callable[[Reply], Outcome | None] = lambda _: None,
        traced: bool = True,
    ) -> None:
        self._client = client
        self._contract = contract
        self._phase = phase
        self._ends = asyncio.get_running_loop().time() + seconds - min(_HEAD_START, seconds / 10)
        self._headers = dict(headers or {})
        self._read_refusal = read_refusal
        self._wire = Wire.IDLE if traced else Wire.WRITTEN  # of the one request of a send
        self._used = False

    @overload
    async def get(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        missing_ok: Literal[False] = False,
    ) -> Reply: ...

    @overload
    async def get(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        missing_ok: Literal[True],
    ) -> Reply | None: ...

    async def get(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        missing_ok: bool = False,
    ) -> Reply | None:
        """Read. With `missing_ok` a 404 is None, not the end of the call."""
        reply = await self._exchange("GET", path, None, params, headers, None)
        if missing_ok and reply.status == httpx.codes.NOT_FOUND and self._phase is not Phase.SEND:
            return None
        return self._success(reply)

    async def post(
        self,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Reply:
        """Make something. `key` is sent in the header that the contract names."""
        return self._success(await self._exchange("POST", path, json, params, headers, key))

    async def put(
        self,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Reply:
        """Put something in its place."""
        return self._success(await self._exchange("PUT", path, json, params, headers, key))

    async def patch(
        self,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Reply:
        """Change something."""
        return self._success(await self._exchange("PATCH", path, json, params, headers, key))

    async def delete(
        self,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Reply:
        """Remove something."""
        return self._success(await self._exchange("DELETE", path, json, params, headers, key))

    async def _exchange(
        self,
        method: str,
        path: str,
        json: object,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        key: str | None,
    ) -> Reply:
        sent = {**self._headers, **(headers or {}), **self._key_header(method, key)}
        body = None if json is None else _json_bytes(json)
        if body is not None:
            sent["Content-Type"] = "application/json"
        request = self._client.build_request(method, path, content=body, params=params, headers=sent, timeout=self._timeout())
        request.extensions["trace"] = self._trace
        self._spend(method)
        try:
            async with asyncio.timeout_at(self._ends):
                return await self._carried_out(request)
        except (
            httpx.HTTPError,
            OSError,
        ) as error:  # OSError: the deadline (TimeoutError), and TLS errors that httpx lets through
            raise Ended(classify.failure(self._phase, error, self._wire)) from error

    async def _carried_out(self, request: httpx.Request) -> Reply:
        """Outside of a send, a read that met a broken connection is repeated once: it changes nothing (RFC 9110, 9.2.2)."""
        try:
            return await self._round_trip(request)
        except _CUT:
            if self._phase is Phase.SEND or request.method not in _READS:
                raise
            return await self._round_trip(request)

    async def _round_trip(self, request: httpx.Request) -> Reply:
        response = await self._client.send(request, stream=True, follow_redirects=False)
        try:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > ANSWER_LIMIT:
                    raise Ended(classify.unreadable(self._phase, f"{response.status_code}, over {ANSWER_LIMIT} bytes"))
            return Reply(response.status_code, response.headers, bytes(body), self._phase)
        finally:
            await response.aclose()

    def _success(self, reply: Reply) -> Reply:
        if 200 <= reply.status < 300:
            return reply
        if self._phase is not Phase.SEND:
            raise Ended(classify.trouble(self._contract, reply.status, reply.reason, reply.headers))
        # The adapter may know better than the status: one status can have two meanings that only the body tells apart.
        outcome = self._read_refusal(reply)
        raise Ended(outcome or classify.refusal(self._contract, reply.status, reply.reason, reply.headers))

    def _spend(self, method: str) -> None:
        """Let at most one request of a send onto the wire, and none that changes something in a look-up."""
        if self._phase is Phase.LOOK_UP and method not in _READS:
            raise RuntimeError(f"{method} in look_up: a look-up changes nothing; only get is allowed")
        if self._phase is Phase.SEND and self._used:
            raise RuntimeError(f"a second request ({method}) in one send: what one attempt does is one request; see prepare")
        self._used = True

    def _key_header(self, method: str, key: str | None) -> dict[str, str]:
        promised = self._contract.key
        if key is not None and promised is None:
            raise RuntimeError("key= is given, but the contract promises no key")
        if self._phase is Phase.SEND and promised is not None and key is None:
            raise RuntimeError(f"{method} without key=: the contract promises that {promised.header} makes repeating it safe")
        if promised is None or key is None:
            return {}
        if len(key) > promised.max_length:
            raise RuntimeError(f"key= has {len(key)} characters, the provider takes {promised.max_length}")
        return {promised.header: key}

    def _timeout(self) -> httpx.Timeout:
        left = max(self._ends - asyncio.get_running_loop().time(), 0.001)
        return httpx.Timeout(left, connect=min(left, CONNECT_SECONDS))

    async def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Follow how far the request comes; httpcore calls this at each step."""
        if event.endswith(".send_request_headers.started"):
            self._wire = max(self._wire, Wire.BEGUN)
        elif event.endswith(".send_request_headers.complete"):
            self._wire = Wire.WRITTEN


def _json_bytes(value: object) -> bytes:
    """The same value gives the same bytes, whatever the order of its keys and the version of a library."""
    try:
        return json_module.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, TypeError) as error:
        raise RuntimeError(f"the body is no JSON: {storable(str(error), 120)}") from error
