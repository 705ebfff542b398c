"""Stops a write at a chosen point and tells the test, so that a kill lands exactly there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt

__all__ = ["Gate", "Hold", "Phase"]

Phase = Literal["before_apply", "after_apply"]


class Hold(BaseModel):
    """Which write to stop, once. `kind` is an effect's kind or a part of the path; `skip` lets that many pass first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    phase: Phase
    marker: str | None = None
    kind: str | None = None
    skip: NonNegativeInt = 0


@dataclass(eq=False)
class _Armed:
    hold: Hold
    skip: int


@dataclass(eq=False)
class _Held:
    marker: str | None
    phase: Phase
    request: int
    released: asyncio.Event = field(default_factory=asyncio.Event)


class Gate:
    """Arms holds, stops the writes that they match, releases them. A held write goes on although its client died."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []
        self._held: list[_Held] = []
        self._arrived = asyncio.Event()

    def arm(self, hold: Hold) -> None:
        """Stop the next write that matches."""
        self._armed.append(_Armed(hold, hold.skip))

    async def stop_at(self, phase: Phase, *, marker: str | None, kind: str, path: str, request: int) -> None:
        """Called by a write at this point; returns at once, or when the test releases it."""
        if not self._catches(phase, marker, kind, path):
            return
        held = _Held(marker, phase, request)
        self._held.append(held)
        self._arrived.set()
        await held.released.wait()

    async def wait_held(self, seconds: float) -> list[dict[str, object]]:
        """The writes that are held now; waits so long for the first."""
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            return []
        return self.held()

    def held(self) -> list[dict[str, object]]:
        """`[{"marker", "phase", "request"}]` of the writes that are held now."""
        return [{"marker": held.marker, "phase": held.phase, "request": held.request} for held in self._held]

    def release(self, marker: str | None = None, *, disarm: bool = False) -> int:
        """Let held writes go on, all or those of a marker; `disarm` also forgets holds that caught nothing yet."""
        going = [held for held in self._held if marker is None or held.marker == marker]
        self._held = [held for held in self._held if held not in going]
        for held in going:
            held.released.set()
        if not self._held:
            self._arrived.clear()
        if disarm:
            self._armed.clear()
        return len(going)

    def _catches(self, phase: Phase, marker: str | None, kind: str, path: str) -> bool:
        for armed in self._armed:
            hold = armed.hold
            if hold.phase != phase or (hold.marker is not None and hold.marker != marker):
                continue
            if hold.kind is not None and hold.kind != kind and hold.kind not in path:
                continue
            if armed.skip == 0:
                self._armed.remove(armed)
                return True
            armed.skip -= 1
        return False
