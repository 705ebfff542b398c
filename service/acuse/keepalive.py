"""How soon a connection is given up whose other end has vanished: a machine that lost its power says no goodbye.

Without this a system goes on for a quarter of an hour with what was sent, and for two hours with what is waited for. Said in one
place, for the database and for the broker, of all our processes.
"""

import socket
from typing import Final

__all__ = ["CONNECT_SECONDS", "SILENT_SECONDS", "libpq_keepalive", "socket_keepalive"]

CONNECT_SECONDS: Final = 10
"""For one address. A server that takes longer is taken for away, and asked again."""

SILENT_SECONDS = 15
"""A line on which nothing is acknowledged for so long is dead: half a lease, so that no other worker has taken over yet."""

PROBES: Final = 2
"""The first after a third of that, the others as far apart."""


def libpq_keepalive() -> dict[str, int]:
    """Return the connection parameters of libpq, which psycopg takes in sync and async code."""
    return {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives": 1,
        "keepalives_idle": _apart(),
        "keepalives_interval": _apart(),
        "keepalives_count": PROBES,
        "tcp_user_timeout": SILENT_SECONDS * 1000,
    }


def socket_keepalive() -> dict[int, int]:
    """Return the options of a TCP socket beside SO_KEEPALIVE, as far as this system has them."""
    options = {
        "TCP_KEEPIDLE": _apart(),
        "TCP_KEEPINTVL": _apart(),
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": SILENT_SECONDS * 1000,
    }
    return {getattr(socket, name): value for name, value in options.items() if hasattr(socket, name)}


def _apart() -> int:
    return max(1, SILENT_SECONDS // 3)
