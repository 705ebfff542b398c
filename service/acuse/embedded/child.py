"""A child process that does not outlive its launcher.

On Linux the kernel sends a signal to the child when its launcher dies, even by SIGKILL. The setting belongs to the
*thread* that forked: so one thread that lives as long as the process starts all children. Elsewhere there is no such
setting; what is left behind is found and ended at the next start (`acuse.embedded.leftover`).
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Literal, TypeVar

__all__ = ["Account", "Child", "run_quietly", "spawn"]

Account = tuple[Literal["direct", "mapped", "dropped"], int, int]

T = TypeVar("T")

_SHIM = Path(__file__).with_name("shim.py")
_PROBE_SECONDS = 20.0


class Child:
    """One started process. Only the process that started it can end it: a fork of the launcher cannot."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._launcher = os.getpid()
        self.pid = process.pid

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that started the child, and not a fork of it."""
        return os.getpid() == self._launcher

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the child has ended."""
        self._process.send_signal(number)

    def wait(self, seconds: float) -> bool:
        """Whether the child ended within `seconds`."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


def spawn(
    command: Sequence[str | Path],
    *,
    account: Account,
    death_signal: signal.Signals,
    folder: Path,
    log: Path,
    environment: Mapping[str, str],
) -> Child:
    """Start `command` in `folder`, with its output appended to `log`, in a session of its own.

    A session of its own, so that Ctrl-C in a terminal reaches the launcher alone, which then stops things in order.
    Every file descriptor but the log is closed, the launcher's lock among them. Raises OSError.
    """

    def start() -> Child:
        with log.open("ab") as output:
            return Child(
                subprocess.Popen(
                    _shimmed(command, account, death_signal),
                    cwd=folder,
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    close_fds=True,
                    start_new_session=True,
                )
            )

    return _in_spawner(start)


def run_quietly(command: Sequence[str | Path], account: Account) -> bool:
    """Whether `command` ends with 0 under `account`. Its output is thrown away."""

    def run() -> bool:
        finished = subprocess.run(
            _shimmed(command, account, signal.SIGKILL),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=_PROBE_SECONDS,
        )
        return finished.returncode == 0

    return _in_spawner(run)


def _shimmed(command: Sequence[str | Path], account: Account, death_signal: signal.Signals) -> list[str]:
    words = [str(word) for word in command]
    how, uid, gid = account
    if sys.platform != "linux" and how == "direct":
        return words
    shim = [sys.executable, "-I", "-S", str(_SHIM)]
    return [*shim, str(int(death_signal)), str(os.getpid()), how, str(uid), str(gid), *words]


class _Spawner:
    """A daemon thread: it must not end before the process does, or the kernel signals the children."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="acuse-embedded-spawner", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._work.get()()

    def submit(self, work: Callable[[], None]) -> None:
        self._work.put(work)


_spawners: list[_Spawner] = []
_spawners_lock = threading.Lock()


def _in_spawner(work: Callable[[], T]) -> T:
    """The result of `work`, or its exception, done in the thread that lives as long as the process."""
    result: Future[T] = Future()

    def deliver() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that asked
            result.set_exception(error)

    with _spawners_lock:
        if not _spawners or _spawners[-1].process != os.getpid():  # a fork keeps the object but not the thread
            _spawners.append(_Spawner())
        _spawners[-1].submit(deliver)
    return result.result()
