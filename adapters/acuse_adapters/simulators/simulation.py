"""What every simulated provider stands on: its clock, its ground truth, its plan, its gate, and what is still to come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path

from acuse_adapters.simulators.choice import Choice, Chooser
from acuse_adapters.simulators.clock import Clock
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.gate import Gate, Phase
from acuse_adapters.simulators.plan import FaultPlan
from acuse_adapters.simulators.truth import Effect, GroundTruth, Row

__all__ = ["Simulation"]

_CLOCK_ROW = "offset"


class Simulation:
    """The state of one simulator process.

    A plan that was posted to the process survives its restart, with the steps of the script that are used up; starting
    it with another plan than the last time puts that one in force.
    """

    def __init__(self, name: str, state: Path, plan: FaultPlan) -> None:
        state.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.truth = GroundTruth(state / f"{name}.jsonl")
        self.clock = Clock(self.truth.table("clock").get(_CLOCK_ROW, {}).get("seconds", 0.0))
        self.gate = Gate()
        self.running: set[str] = set()
        self.reads = 0
        self._given = plan.model_dump(mode="json")
        self._late: set[asyncio.Task[None]] = set()
        self._suspended: dict[str, datetime] = {}
        self.chooser = self._resume(plan)

    @property
    def plan(self) -> FaultPlan:
        """The plan in force."""
        return self.chooser.plan

    @property
    def pending(self) -> int:
        """Writes that may still take effect: applied late, or held."""
        return len(self._late) + len(self.gate.held())

    def replace_plan(self, plan: FaultPlan) -> None:
        """Put a plan in force; its script starts from the top."""
        self.truth.put_plan(plan.model_dump(mode="json"), self._given)
        self.chooser.replace(plan)

    def begin(self, *, marker: str | None, method: str, path: str, choice: Choice) -> int:
        """Count and record a write that arrived; returns its number."""
        self.chooser.take(marker, choice)
        return self.truth.open_request(
            marker=marker, method=method, path=path, fault=choice.fault, script=choice.script, at=self.clock.stamp()
        )

    def settle_repeat(self, marker: str | None, choice: Choice) -> Choice:
        """The choice, or a refusal when this marker took effect and its repetitions are refused."""
        if self.truth.is_applied(marker) and self.truth.refuses_repeats(marker):
            return Choice(Fault.REFUSE_REPEAT, choice.script)
        return choice

    def record(
        self,
        *,
        request: int | None,
        marker: str | None,
        kind: str,
        id: str,  # noqa: A002  (the field's name)
        account: str,
        target: str,
        rows: tuple[Row, ...],
    ) -> None:
        """One effect and the rows that it changed, durable when this returns."""
        effect = Effect(marker=marker, kind=kind, id=id, account=account, target=target, at=self.clock.stamp(), request=request)
        self.truth.commit(effects=(effect,), rows=rows)

    def suspend(self, account: str) -> None:
        """Refuse everything of this account for the plan's `unauthorized_seconds`."""
        self._suspended[account] = self.clock.now() + timedelta(seconds=self.plan.unauthorized_seconds)

    def is_suspended(self, account: str) -> bool:
        """Whether the account is refused at the moment."""
        until = self._suspended.get(account)
        return until is not None and self.clock.now() < until

    def later(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do this after the plan's `late_seconds`, whatever becomes of the client."""
        due = self.clock.now() + timedelta(seconds=self.plan.late_seconds)

        async def wait_and_work() -> None:
            await self.clock.reach(due)
            await work()

        task = asyncio.create_task(wait_and_work())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def stop_at(self, phase: Phase, *, marker: str | None, kind: str, path: str, request: int) -> None:
        """A point at which a test may hold the write."""
        await self.gate.stop_at(phase, marker=marker, kind=kind, path=path, request=request)

    def advance(self, seconds: float) -> None:
        """Move the clock forward, also for the next start."""
        self.clock.advance(seconds)
        self.truth.commit(rows=(("clock", _CLOCK_ROW, {"seconds": self.clock.offset_seconds}),))

    async def close(self) -> None:
        """Drop what is still to come and let go of the file."""
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)
        self.truth.close()

    def _resume(self, plan: FaultPlan) -> Chooser:
        if self.truth.plan is None or self.truth.plan_given != self._given:
            self.truth.put_plan(self._given, self._given)
        chooser = Chooser(FaultPlan.model_validate(self.truth.plan))
        for record in self.truth.requests:
            script = record.script if record.n > self.truth.plan_since else None
            chooser.take(record.marker, Choice(record.fault, script))
        return chooser
