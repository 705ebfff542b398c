"""Child processes of one launcher: started, logged, and ended in order. On Linux they end with it, however it ends."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from acuse.embedded.child import Child, spawn
from acuse.errors import ConfigurationError

__all__ = ["Fleet"]

STOP_SECONDS = 30.0
"""A worker's grace and a little more; then it is killed."""

TAIL_CHARACTERS = 2000


class Fleet:
    """Named processes with a log file each in `folder`. A context manager that stops them in the reverse order of their start.

    environment: on top of this process's own. alone: without the settings in there (`ACUSE_…`).
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], *, alone: bool = False) -> None:
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if not (alone and name.startswith("ACUSE_"))}
        inherited.pop("ACUSE_METRICS_PORT", None)  # one port cannot serve several processes
        self.environment = {**inherited, **environment}
        self._children: dict[str, Child] = {}
        self._log_starts: dict[str, int] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def acuse(self, name: str, *words: str, **environment: str) -> Child:
        """Start `acuse` with `words` as a process of its own."""
        return self.start(name, [sys.executable, "-m", "acuse", *words], environment)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
        """Start a process; its output goes to `<folder>/<name>.log`."""
        log = self._log(name)
        self._log_starts[name] = log.stat().st_size if log.exists() else 0
        child = spawn(
            command,
            account=("direct", os.geteuid(), os.getegid()),
            death_signal=signal.SIGTERM,
            folder=self.folder,
            log=log,
            environment={**self.environment, **(environment or {})},
        )
        self._children[name] = child
        return child

    def finish(self, name: str, command: Sequence[str], seconds: float) -> None:
        """Run a process to its end. Raises `ConfigurationError` with the end of its log if it fails or takes too long."""
        child = self.start(name, command)
        ended = child.wait(seconds)
        if not ended or child.exit_code != 0:
            raise ConfigurationError(f"{name} did not end well:\n{self.tail(name)}")
        del self._children[name]

    def kill(self, name: str) -> None:
        """End a process by SIGKILL, at once."""
        child = self._children.pop(name)
        child.send(signal.SIGKILL)
        child.wait(STOP_SECONDS)

    def pid(self, name: str) -> int:
        """Return the process id of a process."""
        return self._children[name].pid

    def dead(self) -> list[str]:
        """Return the names of processes that have ended although nobody asked them to."""
        return [name for name, child in self._children.items() if child.exit_code is not None]

    def has_said(self, name: str, words: str) -> bool:
        """Say whether a process has written these words to its log since it was last started."""
        with self._log(name).open("rb") as log:
            log.seek(self._log_starts[name])
            return words.encode() in log.read()

    def tail(self, name: str) -> str:
        """Return the end of a process's log."""
        file = self._log(name)
        return file.read_text(encoding="utf-8", errors="replace")[-TAIL_CHARACTERS:] if file.exists() else "(no log)"

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def stop(self) -> None:
        """End all by SIGTERM, newest first; by SIGKILL what does not listen."""
        for child in reversed(self._children.values()):
            if child.exit_code is None:
                child.send(signal.SIGTERM)
        for child in reversed(self._children.values()):
            if not child.wait(STOP_SECONDS):
                child.send(signal.SIGKILL)
                child.wait(STOP_SECONDS)
        self._children.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
