"""A real worker process that stops at one moment of one operation's life, says so by a file, and goes no further."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from acuse.command.logging import configure_logging
from acuse.settings import load_settings
from acuse_adapters.engine import Moment
from acuse_adapters.port import Registry
from acuse_adapters.process import WorkerProcess


async def hold(moment: Moment, _what: Any) -> None:
    if moment == os.environ["HOLD_AT"]:
        Path(os.environ["HELD"]).touch()
        await asyncio.Event().wait()


if __name__ == "__main__":
    settings = load_settings()
    configure_logging(settings.log_format, settings.log_level)
    sys.exit(WorkerProcess(settings, Registry.from_entry_points(), moments=hold).run())
