"""What became of a struck operation, and whether that is right: by the provider's own store and the ledger's state."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from acuse_adapters.faults.expect import Expected, expected
from acuse_adapters.faults.site import Site
from acuse_adapters.faults.stuck import PATIENCE_SECONDS, Stuck, until
from acuse_adapters.faults.table import Cell
from acuse_adapters.faults.wish import SETTLED_ACTOR

__all__ = ["Result", "judge", "wait_for_rest"]

SLOW_SECONDS = 110.0
"""Dramatiq gives a silent worker up after a minute."""

ENOUGH_LOOKS = 4
QUIET_SECONDS = 0.3
FINAL = frozenset({"confirmed", "rejected"})


@dataclass(frozen=True)
class Result:
    """One cell as it ended. `wrong`: what is not as it must be, in sentences; empty if all is right."""

    cell: Cell
    calls: int
    objects: int
    state: str
    seconds: float
    wrong: tuple[str, ...] = ()
    log: str = field(default="", repr=False)

    @property
    def verdict(self) -> str:
        """`right`, or what is wrong."""
        return "right" if not self.wrong else f"WRONG: {'; '.join(self.wrong)}"

    @property
    def line(self) -> str:
        """`boundary × fault × contract → calls, objects, state, verdict`."""
        return f"{self.cell.name} → calls {self.calls}, objects {self.objects}, {self.state}, {self.verdict}"


def wait_for_rest(site: Site, cell: Cell) -> None:
    """Wait until nothing more is to be expected. Raises `Stuck`."""
    ends = expected(cell.window, cell.contract)
    until(lambda: _rests(site, ends), "it comes to rest", SLOW_SECONDS if cell.row.slow else PATIENCE_SECONDS)
    if cell.row.dependant:
        until(lambda: site.row(1).status in FINAL, "its dependant is settled")
    if cell.row.told:
        until(lambda: site.broker.told(SETTLED_ACTOR) == site.row().status, "the host is told how it stands")
    time.sleep(QUIET_SECONDS)  # a second call that is on its way must be seen


def _rests(site: Site, ends: tuple[Expected, ...]) -> bool:
    row = site.row()
    if row.status in FINAL or (row.status == "prepared" and row.held is not None):
        return True
    if row.status != "unknown" or all(end.state != "unknown" for end in ends):
        return False
    closed = row.retry_until is None or row.retry_until < datetime.now(UTC)
    return row.held is not None or bool(closed and row.claim_until is None and site.looks() >= ENOUGH_LOOKS)


def judge(site: Site, cell: Cell, seconds: float) -> Result:
    """Compare what is with what must be."""
    calls, objects, state = site.calls(), site.objects(), str(site.row().status)
    return Result(cell, calls, objects, state, seconds, tuple(_wrongs(site, cell, Expected(calls, objects, state))))


def _wrongs(site: Site, cell: Cell, seen: Expected) -> list[str]:
    ends = expected(cell.window, cell.contract)
    wrong = []
    if seen not in ends:
        wrong.append("expected " + " or ".join(f"{end.calls}/{end.objects} {end.state}" for end in ends))
    if seen.objects > 1:
        wrong.append("doubled")
    record = site.record()
    if seen.state not in FINAL and not (record.why and record.what_next):
        wrong.append("it does not say why, or what next")
    if site.count() != len(site.operations):
        wrong.append(f"{site.count()} operations are on record")
    if cell.row.dependant:
        wrong += _wrongs_of_dependant(site, seen)
    wrong += [f"{name} ended by itself" for name in site.dead]
    return wrong


def _wrongs_of_dependant(site: Site, seen: Expected) -> list[str]:
    calls, objects, state = site.calls(1), site.objects(1), site.row(1).status
    right = Expected(1, 1, "confirmed") if seen.state == "confirmed" else Expected(0, 0, "rejected")
    if Expected(calls, objects, state) != right:
        return [f"its dependant: calls {calls}, objects {objects}, {state}"]
    sent = site.dispatched_at(1)
    return ["its dependant did not wait for it"] if sent is not None and sent < site.row().settled_at else []


def stuck(site: Site | None, cell: Cell, seconds: float, why: Stuck | Exception) -> Result:
    """Say how far a cell came that was not brought to its end."""
    said = str(why) if isinstance(why, Stuck) else f"{type(why).__name__}: {why}"
    if site is None or not site.operations:
        return Result(cell, 0, 0, "nothing", seconds, (said,))
    return Result(cell, site.calls(), site.objects(), str(site.row().status), seconds, (said,))
