"""What both servers have in common: claim the folder, start on a free port, wait for a fact, stop."""

from __future__ import annotations

import abc
import atexit
import contextlib
import os
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypedDict, Unpack

import structlog

from acuse.embedded.child import Child, spawn
from acuse.embedded.errors import EmbeddedStartFailed
from acuse.embedded.folder import StateFolder
from acuse.embedded.identity import Identity, choose_identity
from acuse.embedded.leftover import end_leftovers
from acuse.embedded.port import choose_port

__all__ = ["EmbeddedServer", "ServerOptions"]

_log = structlog.get_logger(__name__)
_PAUSE_SECONDS = 0.01
_TAIL_BYTES = 4000
_LOG_LIMIT_BYTES = 5_000_000
_KILL_SECONDS = 10.0
# What the host's own Python may need to start. None of its PG… or LC_… variables reaches the server.
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH")


class ServerOptions(TypedDict, total=False):
    """What both servers take, by name; see `EmbeddedServer`."""

    durable: bool
    port: int | None
    start_seconds: float
    stop_seconds: float


class EmbeddedServer(abc.ABC):
    """One server on 127.0.0.1 with its own folder. Use as a context manager, or by `start` and `stop`.

    `folder`: made if missing; None for a temporary one that `stop` removes. `durable`: False gives up safety against
    loss of power (never against SIGKILL) for speed, for tests. `port`: None keeps the folder's last port if it is free.
    `start_seconds`: how long the start may take, recovery after a crash included. `stop_seconds`: how long an orderly
    stop may take before it is forced.
    """

    server: ClassVar[str]
    program: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    force_signal: ClassVar[signal.Signals]
    # Sent by the kernel when the launcher dies: quick, and the server still takes its own children along.
    death_signal: ClassVar[signal.Signals]
    # A start that ends early with one of these in the log is tried again, with another port where it is about the port.
    passing_failures: ClassVar[tuple[str, ...]] = ("Address already in use",)

    def __init__(self, folder: Path | str | None, **options: Unpack[ServerOptions]) -> None:
        self._folder = StateFolder(None if folder is None else Path(folder))
        self._durable = options.get("durable", True)
        self._wished_port = options.get("port")
        self._start_seconds = options.get("start_seconds", 60.0)
        self._stop_seconds = options.get("stop_seconds", 20.0)
        self._port: int | None = None
        self._child: Child | None = None
        self._identity: Identity | None = None
        self._log_start = 0

    def start(self) -> Self:
        """Start and wait until it answers. Nothing to do if it runs.

        Raises EmbeddedBusy, EmbeddedFolderRefused, EmbeddedNotInstalled, EmbeddedNotPermitted or EmbeddedStartFailed.
        """
        if self.is_running:
            return self
        began = time.monotonic()
        identity = self._identity = self._identity or choose_identity()
        try:
            self._folder.claim(identity)
            left = self._end_leftovers(self.force_signal)
            if left:
                _log.warning("embedded_leftovers_ended", server=self.server, folder=str(self.folder), pids=left)
            deadline = began + self._start_seconds
            self._prepare(identity, deadline)
            self._launch(identity, deadline)
        except BaseException:
            self._abandon()
            raise
        atexit.register(self.stop)
        _log.info("embedded_started", server=self.server, port=self.port, seconds=round(time.monotonic() - began, 3))
        return self

    def stop(self) -> None:
        """Stop in order, by force after `stop_seconds`; let go of the folder. Nothing to do if it is not ours."""
        child = self._child
        if child is not None and not child.is_ours:
            return
        atexit.unregister(self.stop)
        if child is not None and child.exit_code is None:
            child.send(self.stop_signal)
            if not child.wait(self._stop_seconds):
                _log.warning("embedded_stop_forced", server=self.server, pid=child.pid)
        self._abandon()

    def kill(self) -> None:
        """SIGKILL the server and all its children, and keep the folder: `start` brings it back. For tests of faults."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)
            self._child.wait(_KILL_SECONDS)
            self._end_leftovers(signal.SIGKILL)

    def restart(self) -> Self:
        """Stop in order and start again on the same port, without letting go of the folder."""
        if self._child is not None and self._child.exit_code is None:
            self._child.send(self.stop_signal)
            if not self._child.wait(self._stop_seconds):
                self.kill()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the process lives; it may be busy with recovery."""
        return self._child is not None and self._child.exit_code is None

    @property
    def pid(self) -> int:
        """The server's process id. Raises RuntimeError before the first start."""
        if self._child is None:
            raise RuntimeError(f"{self.server} was not started")
        return self._child.pid

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1. Raises RuntimeError before the first start."""
        if self._port is None:
            raise RuntimeError(f"{self.server} was not started")
        return self._port

    @property
    def password(self) -> str:
        """The generated password. Raises RuntimeError before the first start."""
        return self._folder.password()

    @property
    def folder(self) -> Path:
        """The state folder. Raises RuntimeError unless started."""
        return self._folder.path

    @property
    def data(self) -> Path:
        """The server's own folder inside `folder`."""
        return self.folder / "data"

    @property
    def log_file(self) -> Path:
        """What the server wrote to its standard output and error."""
        return self.folder / "server.log"

    @abc.abstractmethod
    def _prepare(self, identity: Identity, deadline: float) -> None:
        """Make the data folder if it is missing."""

    @abc.abstractmethod
    def _command(self, port: int) -> list[str | Path]:
        """The server's command line."""

    @abc.abstractmethod
    def _answers(self, child: Child, port: int) -> bool:
        """Whether this very child, and no other server on that port, answers with our password."""

    def _finish_start(self) -> None:  # noqa: B027  a hook that defaults to nothing
        """Called after each start, when the server answers."""

    def _launch(self, identity: Identity, deadline: float) -> None:
        lost: frozenset[int] = frozenset()
        while True:
            port = choose_port(self.folder / "port", wish=self._wished_port, avoid=lost)
            child = self._child = self._spawn(self._command(port), identity, self.data, self.death_signal)
            self._folder.write_private("pid", str(child.pid))
            if self._wait_ready(child, port, deadline):
                break
            if not self._may_try_again(deadline):
                raise self._failed(f"it ended with code {child.exit_code}")
            lost |= {port}
            time.sleep(_PAUSE_SECONDS)
        self._port = port
        self._folder.write_private("port", str(port))
        self._finish_start()

    def _wait_ready(self, child: Child, port: int, deadline: float) -> bool:
        """True: it answers. False: it ended."""
        while child.exit_code is None:
            if self._answers(child, port):
                return True
            if time.monotonic() > deadline:
                raise self._failed(f"it was not ready within {self._start_seconds:g} s")
            time.sleep(_PAUSE_SECONDS)
        return False

    def _may_try_again(self, deadline: float) -> bool:
        tail = self._log_tail()
        passing = any(failure in tail for failure in self.passing_failures)
        return passing and self._wished_port is None and time.monotonic() < deadline

    def _run_to_end(self, command: list[str | Path], identity: Identity, folder: Path, deadline: float) -> None:
        """Run a program that prepares something. Raises EmbeddedStartFailed unless it ends with 0 in time."""
        child = self._spawn(command, identity, folder, signal.SIGKILL)
        if not child.wait(max(0.0, deadline - time.monotonic())):
            child.send(signal.SIGKILL)
            child.wait(_KILL_SECONDS)
        if child.exit_code != 0:
            raise self._failed(f"{Path(command[0]).name} ended with code {child.exit_code}")

    def _spawn(self, command: list[str | Path], identity: Identity, folder: Path, death_signal: signal.Signals) -> Child:
        log = self.log_file
        if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
            log.replace(log.with_suffix(".log.1"))
        log.touch(mode=0o600)
        self._log_start = log.stat().st_size
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        environment |= {"LC_ALL": "C", "TZ": "UTC"}
        try:
            return spawn(
                command,
                account=identity.account,
                death_signal=death_signal,
                folder=folder,
                log=log,
                environment=environment,
            )
        except OSError as error:
            raise self._failed(str(error)) from error

    def _failed(self, reason: str) -> EmbeddedStartFailed:
        return EmbeddedStartFailed(self.server, reason, log=self._log_tail(), log_file=self.log_file)

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError), self.log_file.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _TAIL_BYTES))
            return log.read().decode("utf-8", "replace")
        return ""

    def _end_leftovers(self, polite: signal.Signals, data: Path | None = None) -> list[int]:
        return end_leftovers(data or self.data, self.program, pid_file=self.folder / "pid", polite=polite)

    def _abandon(self) -> None:
        """Whatever happened: no child runs, and the folder is free."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)
            self._child.wait(_KILL_SECONDS)
        if self._folder.is_claimed:
            self._end_leftovers(signal.SIGKILL)
            self._folder.release()
