"""A connection that is cut at the moment of COMMIT: before the server hears of it, or before the client hears the answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import make_url

_COMMIT = b"COMMIT"


@contextmanager
def severed_at_commit(url: str, *, forwarded: bool) -> Iterator[str]:
    """A URL of the same database, through a proxy that cuts the line at COMMIT; `forwarded`: the server carries it out first."""
    target = make_url(url)
    address = (str(target.host), int(target.port or 5432))
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, address, forwarded), daemon=True).start()
        # In clear text, so that the proxy can read along.
        options = {"sslmode": "disable", "gssencmode": "disable"}
        through = target.set(host="127.0.0.1", port=server.getsockname()[1]).update_query_dict(options)
        yield through.render_as_string(hide_password=False)


def _serve(server: socket.socket, address: tuple[str, int], forwarded: bool) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            database = socket.create_connection(address)
            cut = threading.Event()
            threading.Thread(target=_answers, args=(database, client, cut), daemon=True).start()
            threading.Thread(target=_questions, args=(client, database, cut, forwarded), daemon=True).start()


def _questions(client: socket.socket, database: socket.socket, cut: threading.Event, forwarded: bool) -> None:
    with suppress(OSError):
        while data := client.recv(65536):
            if _COMMIT in data:
                cut.set()
                if not forwarded:
                    break
            database.sendall(data)
        _close(database)
        _close(client)


def _answers(database: socket.socket, client: socket.socket, cut: threading.Event) -> None:
    with suppress(OSError):
        while data := database.recv(65536):
            if cut.is_set():
                break
            client.sendall(data)
        _close(client)
        _close(database)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
