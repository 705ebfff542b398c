"""A line to a server that stops at one chosen thing said, once: there a process is killed, or the line is cut."""

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self

from sqlalchemy import make_url

__all__ = ["Line", "Trap"]

CHUNK = 65536
LONGEST_SECONDS = 60.0
"""A line that nobody releases is cut after this long."""


@dataclass(frozen=True, slots=True)
class Trap:
    """Stops the first connection on which `words`, and from then on `at`, are said.

    said_by: the client or the server. forwarded: the server gets what was said (a COMMIT is carried out), only its answer is
    kept back; else it never hears of it. then: what happens on release.
    """

    words: bytes
    at: bytes = b""
    said_by: Literal["client", "server"] = "client"
    forwarded: bool = False
    then: Literal["cut", "go"] = "cut"


class Line:
    """A proxy in clear text on a port of its own. `refuse`: nobody listens until `open`. `deaf`: it takes and says nothing."""

    def __init__(self, host: str, port: int, *, refuse: bool = False, deaf: bool = False) -> None:
        self._target = (host, port)
        self._server = socket.socket()
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._server.bind(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.deaf = deaf
        self.heard = threading.Event()
        self.reached = threading.Event()
        self._released = threading.Event()
        self._trap: Trap | None = None
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        if not refuse:
            self.open()

    @classmethod
    def to_database(cls, url: str) -> tuple[Self, str]:
        """Return a line to the server of a URL, and the URL that leads through it."""
        target = make_url(url)
        line = cls(str(target.host), int(target.port or 5432))
        through = target.set(host="127.0.0.1", port=line.port).update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
        return line, through.render_as_string(hide_password=False)

    def open(self) -> None:
        """Listen."""
        self._server.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def stop_at(self, trap: Trap) -> None:
        """Set the trap; `reached` is set when something is caught."""
        with self._lock:
            self._trap = trap

    def release(self) -> None:
        """Let what is caught go its way: cut, or on."""
        self._released.set()

    def cut_all(self) -> None:
        """Break every connection there is now; new ones are taken."""
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            _close(end)

    def close(self) -> None:
        """End the line and everything on it."""
        self.release()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut_all()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self.heard.set()
        with self._lock:
            self._ends.append(client)
        if self.deaf:
            return
        try:
            server = socket.create_connection(self._target, timeout=5)
            server.settimeout(None)
        except OSError:
            _close(client)
            return
        with self._lock:
            self._ends.append(server)
        wire = _Wire(self, client, server)
        threading.Thread(target=wire.answers, daemon=True).start()
        wire.questions()

    def spring(self, trap: Trap) -> bool:
        """Whether this connection is the one that the trap catches; it catches once."""
        with self._lock:
            if self._trap is not trap:
                return False
            self._trap = None
            return True

    @property
    def trap(self) -> Trap | None:
        """The trap that is set."""
        return self._trap

    def wait(self) -> None:
        """Wait until released."""
        self._released.wait(LONGEST_SECONDS)


class _Wire:
    def __init__(self, line: Line, client: socket.socket, server: socket.socket) -> None:
        self._line, self._client, self._server = line, client, server
        self._heard: Trap | None = None
        self._caught: Trap | None = None
        self._answered = threading.Event()

    def questions(self) -> None:
        try:
            while data := self._client.recv(CHUNK):
                if not self._is_caught(data, "client"):
                    self._server.sendall(data)
                elif not self._stop(data):
                    break
        except OSError:
            pass
        finally:
            self._close()

    def answers(self) -> None:
        try:
            while data := self._server.recv(CHUNK):
                if self._caught is None and self._is_caught(data, "server"):
                    self._line.reached.set()
                if (caught := self._caught) is not None:
                    self._answered.set()
                    self._line.wait()
                    if caught.then == "cut":
                        break
                    self._caught = None
                self._client.sendall(data)
        except OSError:
            pass
        finally:
            self._close()

    def _stop(self, data: bytes) -> bool:
        """Keep what the client said, or its answer, until released. Returns whether the connection goes on."""
        caught = self._caught
        assert caught is not None
        if caught.forwarded:
            self._server.sendall(data)
            self._answered.wait(5)
        self._line.reached.set()
        self._line.wait()
        if caught.then == "cut":
            return False
        self._caught = None
        if not caught.forwarded:
            self._server.sendall(data)
        return True

    def _is_caught(self, data: bytes, by: str) -> bool:
        trap = self._line.trap
        if trap is None or trap.said_by != by:
            return False
        if trap.words in data:
            self._heard = trap
        if self._heard is not trap or trap.at not in data or not self._line.spring(trap):
            return False
        self._caught = trap
        return True

    def _close(self) -> None:
        _close(self._client)
        _close(self._server)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
