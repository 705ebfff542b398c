"""The processes that are struck: a real worker that stops at one moment until told to go on, and a backend that stages once.

python -m acuse_adapters.faults.runner worker     FAULTS_HOLD_AT, FAULTS_HELD, FAULTS_GO, FAULTS_CLOCK_SECONDS
python -m acuse_adapters.faults.runner backend    FAULTS_WISH
"""

import asyncio
import json
import os
import sys
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

from acuse.command.logging import configure_logging
from acuse.settings import load_settings
from acuse.store.engine import sync_engine
from acuse_adapters.engine import Moment
from acuse_adapters.faults.wish import Wish
from acuse_adapters.port import Registry
from acuse_adapters.process import WorkerProcess

POLL_SECONDS = 0.01


class Holding:
    """Stops at a moment, once, says so by a file, and goes on when another file appears."""

    def __init__(self) -> None:
        self._at = os.environ.get("FAULTS_HOLD_AT", "")
        self._held = Path(os.environ.get("FAULTS_HELD", os.devnull))
        self._go = Path(os.environ.get("FAULTS_GO", os.devnull))

    async def __call__(self, moment: Moment, _what: Any) -> None:  # noqa: ANN401  # a claimed operation, or several
        if moment != self._at or self._held.exists():
            return
        self._held.touch()
        while not self._go.exists():  # noqa: ASYNC110  # it is told by another process
            await asyncio.sleep(POLL_SECONDS)


def shift_clock(seconds: float) -> None:
    """Let this process believe in another time: `time.time`, and `datetime.now` in every module of ours."""
    true_time = time.time

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(seconds=seconds)

    def shifted() -> float:
        return true_time() + seconds

    time.time = shifted
    for name, module in list(sys.modules.items()):
        if name.startswith(("acuse", "dramatiq")):  # what they imported by name
            if getattr(module, "time", None) is true_time:
                module.time = shifted  # type: ignore[attr-defined]
            if getattr(module, "datetime", None) is datetime:
                module.datetime = Shifted  # type: ignore[attr-defined]


def work() -> int:
    """Be a worker."""
    settings = load_settings()
    configure_logging(settings.log_format, settings.log_level)
    registry = Registry.from_entry_points()
    if seconds := float(os.environ.get("FAULTS_CLOCK_SECONDS", "0")):
        shift_clock(seconds)
    return WorkerProcess(settings, registry, moments=Holding()).run()


def stage() -> int:
    """Be a backend: one business transaction."""
    engine = sync_engine(load_settings().database_url, pool_size=1, name="acuse-faults backend")
    with engine.begin() as connection:
        Wish(**json.loads(os.environ["FAULTS_WISH"])).stage(connection)
    return 0


if __name__ == "__main__":
    sys.exit({"worker": work, "backend": stage}[sys.argv[1]]())
