"""A line to the database that breaks at the COMMIT of one chosen transaction, once."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import make_url

_COMMIT = b"COMMIT"


class CutLine:
    """A proxy. `cut(b"acuse.settle(", forwarded=True)`: the next transaction with these words loses the reply to its COMMIT.

    forwarded: the server carries the COMMIT out; else it never hears of it.
    """

    def __init__(self, url: str, server: socket.socket) -> None:
        self._target = make_url(url)
        self._server = server
        self._words: bytes | None = None
        self._forwarded = False
        self._lock = threading.Lock()
        self.cuts = 0
        # In clear text, so that the proxy can read along; no prepared statements, whose words are sent only once.
        options = {"sslmode": "disable", "gssencmode": "disable"}
        through = self._target.set(host="127.0.0.1", port=server.getsockname()[1]).update_query_dict(options)
        self.url = through.render_as_string(hide_password=False)

    def cut(self, words: bytes, *, forwarded: bool) -> None:
        with self._lock:
            self._words, self._forwarded = words, forwarded

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                database = socket.create_connection((str(self._target.host), int(self._target.port or 5432)))
                wire = _Wire(client, database)
                threading.Thread(target=wire.answers, daemon=True).start()
                threading.Thread(target=self._questions, args=(wire,), daemon=True).start()

    def _questions(self, wire: "_Wire") -> None:
        chosen = False
        with suppress(OSError):
            while data := wire.client.recv(65536):
                with self._lock:
                    chosen = chosen or (self._words is not None and self._words in data)
                    cut, forwarded = chosen and _COMMIT in data, self._forwarded
                    if cut:
                        self._words, self.cuts = None, self.cuts + 1
                if cut:
                    wire.silent.set()
                    if forwarded:
                        # The client learns that the line is dead when the server has committed.
                        wire.database.sendall(data)
                        wire.answered.wait(5)
                    break
                wire.database.sendall(data)
        wire.close()


class _Wire:
    def __init__(self, client: socket.socket, database: socket.socket) -> None:
        self.client, self.database = client, database
        self.silent, self.answered = threading.Event(), threading.Event()

    def answers(self) -> None:
        with suppress(OSError):
            while data := self.database.recv(65536):
                if self.silent.is_set():
                    self.answered.set()
                    return
                self.client.sendall(data)
        self.close()

    def close(self) -> None:
        _close(self.database)
        _close(self.client)


@contextmanager
def cut_line(url: str) -> Iterator[CutLine]:
    """A line that works until it is told where to break."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = CutLine(url, server)
        threading.Thread(target=line.serve, daemon=True).start()
        yield line


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
