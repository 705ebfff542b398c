"""How a write over HTTP is carried out, or not, under the fault that the plan gave it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.simulation import Simulation
from acuse_adapters.simulators.wire import Answer, Cut, Half, Reply, Request, Silence

__all__ = ["Write", "carry_out"]


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Write:
    """A write as the provider understood it.

    `apply` gets the number of the request and does the whole thing, judging keys and preconditions at that moment.
    `lock` is held while it runs: a second write under the same lock is answered 409 `concurrent`. `on_repeat` is the
    answer of a provider that refuses repetitions.
    """

    request: Request
    account: str
    marker: str | None
    kind: str
    apply: Callable[[int], Answer]
    on_repeat: Answer
    lock: str | None = None
    forget_key: Callable[[], None] = _nothing

    @property
    def text(self) -> str:
        """Where a script entry's `match` looks."""
        return f"{self.request.method} {self.request.path} {self.request.body.decode('utf-8', 'replace')}"


async def carry_out(simulation: Simulation, write: Write) -> Reply:
    """Choose the fault, record the request, apply the write or do not, and reply as the fault says."""
    choice = simulation.settle_repeat(write.marker, simulation.chooser.peek(write.marker, write.text))
    fault, repeated = choice.fault, simulation.truth.is_applied(write.marker)
    number = simulation.begin(marker=write.marker, method=write.request.method, path=write.request.path, choice=choice)
    if fault in _UNTOUCHED:
        return _UNTOUCHED[fault](simulation, write)
    if fault is Fault.REFUSE_REPEAT and repeated:
        return write.on_repeat
    if write.lock is not None and write.lock in simulation.running:
        return Answer(409, {"error": "concurrent"})
    if fault is Fault.FORGET_KEY:
        write.forget_key()
    return await _apply(simulation, write, fault, number)


async def _apply(simulation: Simulation, write: Write, fault: Fault | None, number: int) -> Reply:
    if write.lock is not None:
        simulation.running.add(write.lock)
    is_late = False
    try:
        await _stop_at_gate(simulation, write, number, applied=False)
        if fault is Fault.APPLY_LATE:
            is_late = True
            return _apply_late(simulation, write, number)
        answer = write.apply(number)
        if answer.status < 400:
            await _stop_at_gate(simulation, write, number, applied=True)
        return _after(simulation, fault, answer)
    finally:
        if write.lock is not None and not is_late:
            simulation.running.discard(write.lock)


async def _stop_at_gate(simulation: Simulation, write: Write, number: int, *, applied: bool) -> None:
    await simulation.stop_at(
        "after_apply" if applied else "before_apply",
        marker=write.marker,
        kind=write.kind,
        path=write.request.path,
        request=number,
    )


def _apply_late(simulation: Simulation, write: Write, number: int) -> Reply:
    async def apply() -> None:
        if write.lock is not None:
            simulation.running.discard(write.lock)
        write.apply(number)

    simulation.later(apply)
    return Silence(simulation.plan.stall_seconds) if simulation.plan.late_silent else Cut()


def _after(simulation: Simulation, fault: Fault | None, answer: Answer) -> Reply:
    match fault:
        case Fault.DROP_REPLY | Fault.REFUSE_REPEAT:
            return Cut()
        case Fault.STALL_APPLIED:
            return Silence(simulation.plan.stall_seconds)
        case Fault.ERROR_AFTER_APPLY:
            return Answer(500, {"error": "internal", "reason": "something went wrong"})
        case Fault.HALF_ANSWER:
            return Half(answer)
        case Fault.RESET_AT_QUIT:
            return Answer(answer.status, answer.body, answer.headers, then_close=True)
        case _:
            return answer


def _unauthorized(simulation: Simulation, write: Write) -> Reply:
    simulation.suspend(write.account)
    return Answer(401, {"error": "unauthorized", "reason": "the token is not accepted"})


def _refused(_: Simulation, write: Write) -> Reply:
    return Answer(422, {"error": "refused", "reason": f"the provider does not accept this {write.kind}"})


def _throttled(simulation: Simulation, _: Write) -> Reply:
    return Answer(429, {"error": "too_many_requests"}, {"Retry-After": str(simulation.plan.retry_after_seconds)})


_UNTOUCHED: Mapping[Fault | None, Callable[[Simulation, Write], Reply]] = {
    Fault.STALL: lambda simulation, _: Silence(simulation.plan.stall_seconds),
    Fault.UNAVAILABLE: lambda *_: Answer(503, {"error": "unavailable"}),
    Fault.THROTTLE: _throttled,
    Fault.UNAUTHORIZED: _unauthorized,
    Fault.REFUSE: _refused,
    Fault.REFUSE_AT_DOT: _refused,
    Fault.DROP_BEFORE: lambda *_: Cut(reset=True),
    Fault.LOCKED: lambda *_: Answer(423, {"error": "locked", "reason": "the row is in use"}),
}
"""Faults of writes that are never applied."""
