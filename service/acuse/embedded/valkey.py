"""Valkey of our own on 127.0.0.1, with a password, an append-only file, and no eviction of queue keys."""

from __future__ import annotations

import contextlib
import signal
import socket
from pathlib import Path
from typing import Self, Unpack

from acuse.embedded.binaries import readable_programs, valkey_programs
from acuse.embedded.child import Child
from acuse.embedded.identity import Identity
from acuse.embedded.port import HOST
from acuse.embedded.server import EmbeddedServer, ServerOptions

__all__ = ["EmbeddedValkey"]

_PROGRAM = "valkey-server"
_ANSWER_SECONDS = 2.0
_ANSWER_BYTES = 16_384

# Each write reaches the operating system before it is answered, so it outlives SIGKILL; `everysec` bounds what a power
# cut takes. The queue may lose a second: the outbox rows in PostgreSQL are what must not be lost.
_CONFIGURATION = """\
bind {host}
port {port}
protected-mode yes
requirepass {password}
daemonize no
logfile ""
dir ./
save ""
appendonly yes
appendfsync {fsync}
maxmemory-policy noeviction
set-proc-title no
"""


class EmbeddedValkey(EmbeddedServer):
    """A Valkey server that speaks the Redis protocol. See `EmbeddedServer` for the parameters."""

    server = "Valkey"
    program = _PROGRAM
    stop_signal = signal.SIGTERM
    force_signal = signal.SIGTERM
    death_signal = signal.SIGTERM  # not SIGKILL: a child that rewrites the append-only file goes along

    def __init__(self, folder: Path | str | None, **options: Unpack[ServerOptions]) -> None:
        super().__init__(folder, **options)
        self._programs = Path()

    @classmethod
    def temporary(cls, **options: Unpack[ServerOptions]) -> Self:
        """A server in a temporary folder that `stop` removes."""
        return cls(None, **options)

    @property
    def redis_url(self) -> str:
        """`redis://:PASSWORD@127.0.0.1:PORT/0`."""
        return f"redis://:{self.password}@{HOST}:{self.port}/0"

    def _prepare(self, identity: Identity, deadline: float) -> None:
        self._programs = readable_programs(valkey_programs(), self.program, identity=identity, copies=self.folder / "programs")
        self.data.mkdir(mode=0o700, exist_ok=True)
        self._folder.give(self.data)

    def _command(self, port: int) -> list[str | Path]:
        # In a file and not on the command line, where every account of the machine could read the password.
        text = _CONFIGURATION.format(host=HOST, port=port, password=self.password, fsync="everysec" if self._durable else "no")
        return [self._programs / _PROGRAM, self._folder.write_private("valkey.conf", text)]

    def _answers(self, child: Child, port: int) -> bool:
        """AUTH, PING and the server's own process id: another server on that port would have another one."""
        lines = _ask(port, f"AUTH {self.password}\r\nPING\r\nINFO server\r\nQUIT\r\n")
        return lines[:2] == ["+OK", "+PONG"] and f"process_id:{child.pid}" in lines


def _ask(port: int, commands: str) -> list[str]:
    """The lines of the answer to inline commands, of which the last must close the connection; [] if nobody answers."""
    received = b""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=_ANSWER_SECONDS) as connection:
        connection.sendall(commands.encode("ascii"))
        while chunk := connection.recv(_ANSWER_BYTES):
            received += chunk
    return received.decode("utf-8", "replace").split("\r\n")
