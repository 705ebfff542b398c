"""Servers that an earlier launcher left behind on a data folder.

Called only while the folder's lock is held: no live launcher owns what is found here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["end_leftovers", "leftovers"]

_PAUSE_SECONDS = 0.02
# Longer than the 5 s after which PostgreSQL's immediate shutdown kills its own children.
_POLITE_SECONDS = 10.0
_KILL_SECONDS = 10.0


def leftovers(data: Path, program: str, *, pid_file: Path) -> list[int]:
    """Process ids of `program` that work on the folder `data`.

    Linux: every process with that working folder and that program, PostgreSQL's children among them. Elsewhere: the
    process of `pid_file`, if its command line still names the folder; a number that was given to a stranger does not.
    """
    if sys.platform == "linux":
        return [pid for pid in _all_pids() if _works_on(pid, data, program)]
    pid = _recorded(pid_file)
    return [pid] if pid is not None and str(data.parent) in _command_line(pid) else []


def end_leftovers(data: Path, program: str, *, pid_file: Path, polite: signal.Signals) -> list[int]:
    """End them: first by `polite`, after a while by SIGKILL. Returns those found at first."""
    found = leftovers(data, program, pid_file=pid_file)
    if not found:
        return []
    for number, seconds in ((polite, _POLITE_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        deadline = time.monotonic() + seconds
        for pid in leftovers(data, program, pid_file=pid_file):
            _send(pid, number)
        while leftovers(data, program, pid_file=pid_file) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
    return found


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _works_on(pid: int, data: Path, program: str) -> bool:
    try:
        if Path(f"/proc/{pid}/cwd").readlink() != data:
            return False
        # " (deleted)" after an upgrade of the package under a running server (proc_pid_exe(5)).
        return Path(f"/proc/{pid}/exe").readlink().name.removesuffix(" (deleted)") == program
    except OSError:
        return False  # ended meanwhile, a zombie, or a stranger's


def _recorded(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text("ascii"))
    except (OSError, ValueError):
        return None


def _command_line(pid: int) -> str:
    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
