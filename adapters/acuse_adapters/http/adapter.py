"""An adapter whose provider speaks HTTP: one client for all its attempts, which sends each request once."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, ClassVar, Final

import httpx

from acuse.protocol import Outcome
from acuse_adapters.http.channel import Http
from acuse_adapters.http.reply import Reply
from acuse_adapters.port import Adapter, AdapterAction, Operation, Phase

__all__ = ["HttpAdapter"]

_LIMITS: Final = httpx.Limits(max_connections=100, max_keepalive_connections=50, keepalive_expiry=3.0)
"""Idle connections are given up after 3 s, sooner than common servers close theirs (5 s): a request that meets the closing is
ambiguous, and that is worse than a new connection."""


class HttpAdapter(Adapter):
    """Base of adapters over HTTP. A subclass calls `super().__init__(url)` and says in `headers` who it is.

    One `httpx.AsyncClient` serves all attempts: no retries, no redirects, no proxies or passwords from the environment, no
    cookies, which would mix accounts. `make_client` may be overridden; what it makes is examined by `problems`.
    """

    sends_once: ClassVar[bool] = False
    """Says of a transport or an auth flow of one's own that it sends each request at most once. httpx's own is examined."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._client: httpx.AsyncClient | None = None

    def headers(self, account: str) -> Mapping[str, str]:
        """Return what every request of an account carries, its credentials above all."""
        return {}

    def read_refusal(self, reply: Reply) -> Outcome | None:
        """Return what an answer other than 2xx to a send means, where its status alone does not say; else None."""
        return None

    def make_client(self) -> httpx.AsyncClient:
        """Return the client, not opened yet."""
        return httpx.AsyncClient(
            base_url=self.url,
            transport=httpx.AsyncHTTPTransport(verify=_tls(), retries=0, limits=_LIMITS, trust_env=False),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            trust_env=False,
            headers={"User-Agent": "acuse", "Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def open(self) -> None:
        """Open the client. Called once in the worker's event loop."""
        self._client = await self.make_client().__aenter__()

    async def close(self) -> None:
        """Close the client's connections."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def channel(
        self, operation: Operation[Any], declared: AdapterAction[Any], phase: Phase, seconds: float
    ) -> AbstractAsyncContextManager[Http]:
        """Return an `Http` for one phase of one attempt."""
        return self._channel(operation, declared, phase, seconds)

    @asynccontextmanager
    async def _channel(
        self, operation: Operation[Any], declared: AdapterAction[Any], phase: Phase, seconds: float
    ) -> AsyncIterator[Http]:
        if self._client is None:
            raise RuntimeError(f"{type(self).__name__} is not open: call open() in the worker's event loop first")
        yield Http(
            self._client,
            declared.contract,
            phase,
            seconds,
            headers=self.headers(operation.account),
            read_refusal=self.read_refusal,
            traced=_is_stock(_transport(self._client)),
        )

    def problems(self) -> list[str]:
        """Return what must be mended before this adapter may run: contracts, and a client that might send a request twice."""
        client = self._client or self.make_client()
        return [*super().problems(), *(f"{type(self).__name__}: {problem}" for problem in self._client_problems(client))]

    def _client_problems(self, client: httpx.AsyncClient) -> list[str]:
        problems = []
        if client.follow_redirects:
            problems.append("its client follows redirects, so that one send may be several requests; follow_redirects=False")
        if client.trust_env:
            problems.append("its client takes proxies and passwords from the environment; trust_env=False")
        if not self.sends_once and not isinstance(client.auth, httpx.BasicAuth | None):
            problems.append("its auth flow may send a request again; put the token into headers(), or declare sends_once = True")
        for transport in (_transport(client), *_mounted(client)):
            if _is_stock(transport):
                if _retries(transport) != 0:
                    problems.append("its client's transport retries by itself; httpx.AsyncHTTPTransport(retries=0)")
            elif not self.sends_once:
                name = type(transport).__name__
                problems.append(f"nobody knows whether its transport {name} sends a request again; declare sends_once = True")
        return problems


@cache
def _tls() -> ssl.SSLContext:
    # Reading the authorities takes tens of milliseconds, and they are the same for every provider.
    return httpx.create_ssl_context(trust_env=False)


def _transport(client: httpx.AsyncClient) -> httpx.AsyncBaseTransport:
    return client._transport  # httpx has no public name for it, and guessing would defeat the check


def _mounted(client: httpx.AsyncClient) -> list[httpx.AsyncBaseTransport]:
    return [transport for transport in client._mounts.values() if transport is not None]


def _is_stock(transport: httpx.AsyncBaseTransport) -> bool:
    return type(transport) is httpx.AsyncHTTPTransport


def _retries(transport: httpx.AsyncBaseTransport) -> int:
    # Not found after an upgrade of httpx: then this check must be mended, and until then the worker does not start.
    return int(getattr(getattr(transport, "_pool", None), "_retries", -1))
