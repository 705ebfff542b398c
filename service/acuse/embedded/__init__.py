"""PostgreSQL and Valkey without an installation: programs from two packages, our own launcher (`acuse[embedded]`).

For `acuse dev`, the demo and tests. Linux and macOS.
"""

from __future__ import annotations

from acuse.embedded.errors import (
    EmbeddedBusy,
    EmbeddedError,
    EmbeddedFolderRefused,
    EmbeddedNotInstalled,
    EmbeddedNotPermitted,
    EmbeddedStartFailed,
)
from acuse.embedded.pair import EmbeddedPair
from acuse.embedded.postgres import EmbeddedPostgres
from acuse.embedded.valkey import EmbeddedValkey

__all__ = [
    "EmbeddedBusy",
    "EmbeddedError",
    "EmbeddedFolderRefused",
    "EmbeddedNotInstalled",
    "EmbeddedNotPermitted",
    "EmbeddedPair",
    "EmbeddedPostgres",
    "EmbeddedStartFailed",
    "EmbeddedValkey",
]
