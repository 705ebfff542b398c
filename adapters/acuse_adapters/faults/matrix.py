"""Runs cells, several at once; those that strike a server itself run one by one on servers of their own."""

import random
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from acuse_adapters.faults.ground import Ground
from acuse_adapters.faults.judge import Result, judge, stuck, wait_for_rest
from acuse_adapters.faults.site import Site
from acuse_adapters.faults.strike import hits_a_server, script_of
from acuse_adapters.faults.stuck import Stuck
from acuse_adapters.faults.table import Cell, cells
from acuse_adapters.faults.words import Contract

__all__ = ["chosen", "run"]

AT_ONCE = 6
TAIL = 2500


def chosen(*patterns: str) -> list[Cell]:
    """Return the cells that one of the texts names, is a part of, or fits as a pattern with `*`; without one, all."""
    every = list(cells())
    names = {cell.name for cell in every}

    def fits(name: str, pattern: str) -> bool:
        return name == pattern or (pattern not in names and (pattern in name or fnmatchcase(name, pattern)))

    return [cell for cell in every if not patterns or any(fits(cell.name, pattern) for pattern in patterns)]


def run(
    wanted: Sequence[Cell], folder: Path, *, seed: int, tell: Callable[[Result], None] = lambda _: None, at_once: int = AT_ONCE
) -> list[Result]:
    """Run the cells in an order drawn by `seed`, and return their results in the order given."""
    names = {cell: f"c{number:04d}x" for number, cell in enumerate(wanted)}
    scripts = {names[cell]: script for cell in wanted if (script := script_of(cell.row.strike))}
    order = list(wanted)
    random.Random(seed).shuffle(order)  # noqa: S311  # dice, not a secret
    order.sort(key=lambda cell: not cell.row.slow)
    results: dict[Cell, Result] = {}
    one_by_one = [cell for cell in order if hits_a_server(cell.row.strike)]
    with (
        Ground(folder, seed, scripts, contracts=_contracts(wanted), servers_struck=bool(one_by_one)) as ground,
        ThreadPoolExecutor(at_once) as many,
        ThreadPoolExecutor(1) as one,
    ):
        running = [
            (one if hits_a_server(cell.row.strike) else many).submit(_run, ground, cell, names[cell], folder) for cell in order
        ]
        try:
            for done in as_completed(running):
                result = done.result()
                results[result.cell] = result
                tell(result)
        finally:
            for future in running:
                future.cancel()  # told to stop: what runs comes to its end, and nothing more starts
    return [results[cell] for cell in wanted]


def _contracts(wanted: Sequence[Cell]) -> set[Contract]:
    """The contracts of the cells, and that under which dependants are carried out."""
    beside = {Contract.UPSERT} if any(cell.row.dependant for cell in wanted) else set()
    return {cell.contract for cell in wanted} | beside


def _run(ground: Ground, cell: Cell, name: str, folder: Path) -> Result:
    started = time.monotonic()
    site: Site | None = None
    servers = (ground.struck if hits_a_server(cell.row.strike) else None) or ground.shared
    try:
        with Site(
            ground, servers, cell.contract, name, folder / "cells", dependant=cell.row.dependant, told=cell.row.told
        ) as site:
            result = _carried_out(site, cell, started)
    except Exception as error:  # noqa: BLE001  # one cell never takes the others down
        result = stuck(None, cell, time.monotonic() - started, error)
        result = replace(result, log=traceback.format_exc())
    if result.wrong:
        return replace(result, log=result.log + _logs(folder / "cells" / name))
    shutil.rmtree(folder / "cells" / name, ignore_errors=True)
    return result


def _carried_out(site: Site, cell: Cell, started: float) -> Result:
    try:
        cell.row.strike(site)
        site.man()
        wait_for_rest(site, cell)
    except Stuck as why:
        return stuck(site, cell, time.monotonic() - started, why)
    return judge(site, cell, time.monotonic() - started)


def _logs(folder: Path) -> str:
    said = []
    with suppress(OSError):
        said = [f"--- {file.name}\n{file.read_text(errors='replace')[-TAIL:]}" for file in sorted(folder.glob("*.log"))]
    return "\n".join(said)
