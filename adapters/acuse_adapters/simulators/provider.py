"""The port of a simulated HTTP provider, and the door in front of it: control first, then the account, then the provider."""

from __future__ import annotations

from typing import Protocol

from acuse_adapters.simulators.control import control
from acuse_adapters.simulators.simulation import Simulation
from acuse_adapters.simulators.wire import Answer, Handler, Reply, Request

__all__ = ["NOT_FOUND", "Provider", "guarded"]

NOT_FOUND = Answer(404, {"error": "not_found"})

READS = frozenset({"GET", "HEAD"})


class Provider(Protocol):
    """What a provider is to the process that runs it."""

    async def serve(self, request: Request) -> Reply:
        """Answer a request of a client."""
        ...

    def interfere(self, request: Request) -> Answer | None:
        """Answer a request below `/_sim` that only this provider knows; None if it does not know it either."""
        ...


def guarded(simulation: Simulation, provider: Provider, *, bearer: bool) -> Handler:
    """The handler of a provider: accounts that are suspended, and look-ups that are down, never reach it.

    A client's path is `/{version}/{account}/…`. `bearer` asks for an Authorization header with any token.
    """

    async def handle(request: Request) -> Reply:
        if request.segments[:1] == ("_sim",):
            return provider.interfere(request) or await control(simulation, request)
        is_read = request.method in READS
        simulation.reads += is_read
        if bearer and not request.headers.get("authorization", "").startswith("Bearer "):
            return Answer(401, {"error": "unauthorized", "reason": "Authorization: Bearer <token> is missing"})
        if len(request.segments) > 1 and simulation.is_suspended(request.segments[1]):
            return Answer(401, {"error": "unauthorized", "reason": "the token is not accepted"})
        if is_read and simulation.plan.lookup_down:
            return Answer(503, {"error": "unavailable"})
        return await provider.serve(request)

    return handle
