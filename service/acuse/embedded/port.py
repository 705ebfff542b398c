"""A free TCP port on 127.0.0.1 that stays the same over restarts, so that a URL keeps its meaning."""

from __future__ import annotations

import random
import socket
from pathlib import Path

__all__ = ["HOST", "choose_port", "is_free"]

HOST = "127.0.0.1"

# Below what Linux (32768) and macOS (49152) hand out to outgoing connections. A client that retries a port of *that*
# range while the server is down can be given the same port as its own, connect to itself, and keep the server out.
_LOWEST, _HIGHEST = 15000, 32700
_TRIES = 200
_random = random.SystemRandom()


def choose_port(remembered: Path, *, wish: int | None = None, avoid: frozenset[int] = frozenset()) -> int:
    """`wish`, or the port in the file `remembered` if it is free, or a free one. Raises OSError if none is found.

    The port is not reserved: whoever binds it may still lose it to somebody faster, and asks again with `avoid`.
    """
    if wish is not None:
        return wish
    earlier = _read(remembered)
    if earlier is not None and earlier not in avoid and is_free(earlier):
        return earlier
    for _ in range(_TRIES):
        port = _random.randint(_LOWEST, _HIGHEST)
        if port not in avoid and is_free(port):
            return port
    raise OSError(f"no free port on {HOST} between {_LOWEST} and {_HIGHEST}")


def is_free(port: int) -> bool:
    """Whether the port can be bound now, in the way servers bind it (SO_REUSEADDR)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _read(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return None
