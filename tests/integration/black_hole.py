"""A line that goes dark without a word: no reset, no end, and not even the acknowledgements of the network. Linux only."""

import ctypes
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import make_url

__all__ = ["BlackHole", "black_hole"]

_SO_ATTACH_FILTER = 26
_DROP_EVERYTHING = struct.pack("HBBI", 0x06, 0, 0, 0)  # one instruction of the packet filter: keep 0 bytes


class BlackHole:
    """A proxy. `go_dark`: what comes on its connections of now is dropped by the kernel; new connections work."""

    def __init__(self, address: tuple[str, int], server: socket.socket) -> None:
        self._address = address
        self._server = server
        self._lines: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    @property
    def lines(self) -> int:
        """How many connections were made so far."""
        with self._lock:
            return len(self._lines)

    def go_dark(self) -> None:
        with self._lock:
            for client, server in self._lines:
                for end in (client, server):
                    _drop_everything(end)

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(self._address)
                with self._lock:
                    self._lines.append((client, server))
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=(source, sink), daemon=True).start()

    def close(self) -> None:
        with self._lock:
            for line in self._lines:
                for end in line:
                    _end(end)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)  # a close alone would wait for the thread that reads
    end.close()


def _drop_everything(end: socket.socket) -> None:
    program = ctypes.create_string_buffer(_DROP_EVERYTHING)
    with suppress(OSError):  # it was closed already
        end.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program)))


@contextmanager
def black_hole(url: str, port: int = 5432) -> Iterator[tuple[BlackHole, str]]:
    """A proxy in front of the server of a URL, and the URL through it. `port`: of a URL that names none."""
    assert sys.platform == "linux"
    target = make_url(url)
    with socket.create_server(("127.0.0.1", 0)) as server:
        hole = BlackHole((str(target.host or "127.0.0.1"), int(target.port or port)), server)
        threading.Thread(target=hole.serve, daemon=True).start()
        try:
            yield hole, target.set(host="127.0.0.1", port=hole.port).render_as_string(hide_password=False)
        finally:
            hole.close()
