"""A real worker process that stops at one moment of one operation's life and says so by a file.

HOLD_AT: the moment. HELD: the file. THAW: a pipe; then it stands still in a native call that does not give the interpreter's
lock away, so that not one of its threads runs, until somebody opens the pipe for writing. Without THAW that operation alone
goes no further, for ever.
"""

import asyncio
import ctypes
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
    held = Path(os.environ["HELD"])
    if moment != os.environ["HOLD_AT"] or ("THAW" in os.environ and held.exists()):
        return
    held.touch()
    if "THAW" in os.environ:
        freeze(os.environ["THAW"])
    else:
        await asyncio.Event().wait()


def freeze(pipe: str) -> None:
    """Open a pipe for reading, which waits for a writer. PyDLL, unlike CDLL, keeps the lock meanwhile."""
    os.close(ctypes.PyDLL(None).open(os.fsencode(pipe), os.O_RDONLY))


if __name__ == "__main__":
    settings = load_settings()
    configure_logging(settings.log_format, settings.log_level)
    sys.exit(WorkerProcess(settings, Registry.from_entry_points(), moments=hold).run())
