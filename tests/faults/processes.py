"""Real `acuse` processes of a test: started with a mark that all their children inherit, so that a leftover is found."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

__all__ = ["Started", "leftovers", "started"]

MARK = "MARK_OF_A_TEST"


class Started:
    """A process with both streams read line by line as they come."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self.mark = uuid.uuid4().hex
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ACUSE_")}
        self.process = subprocess.Popen(
            command,
            env={**inherited, "PYTHONUNBUFFERED": "1", **environment, MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: dict[str, list[str]] = {"out": [], "err": []}
        self._news = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), daemon=True)
            for name, stream in (("out", self.process.stdout), ("err", self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def out(self) -> str:
        return "\n".join(self.lines["out"])

    @property
    def err(self) -> str:
        return "\n".join(self.lines["err"])

    def says(self, text: str, seconds: float = 30) -> None:
        """Wait until a line of either stream contains a text."""

        def said() -> bool:
            return text in self.out or text in self.err or not any(reader.is_alive() for reader in self._readers)

        with self._news:
            self._news.wait_for(said, seconds)
        assert text in self.out or text in self.err, f"it never said {text!r}:\n{self.out}\n{self.err}"

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends(self, seconds: float = 60) -> int:
        """Wait for its end. Returns the exit code; negative if a signal ended it."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(10)
        return code

    def descendants(self) -> list[psutil.Process]:
        """Every process that it started, directly or not."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def commands(self) -> list[tuple[list[str], psutil.Process]]:
        """Its descendants with their command lines; without those that ended while we looked."""
        found = []
        for process in self.descendants():
            with suppress(psutil.Error):
                found.append((process.cmdline(), process))
        return found

    def _read(self, name: str, stream: Iterator[str] | None) -> None:
        assert stream is not None
        for line in stream:
            with self._news:
                self.lines[name].append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()


def leftovers(one: Started) -> list[list[str]]:
    """The command lines of processes that carry its mark and live; its own is not among them once it has ended."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == one.mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.cmdline())
    return found


@contextmanager
def started(*words: str | Path, script: Path | None = None, **environment: str) -> Iterator[Started]:
    """Start `acuse` with words, or a script; whatever becomes of the test, nothing of it stays."""
    command = [sys.executable, *(["-m", "acuse"] if script is None else [str(script)]), *(str(word) for word in words)]
    one = Started(command, environment)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.kill()
        one.ends(20)
        for stream in (one.process.stdout, one.process.stderr):
            assert stream is not None
            stream.close()
