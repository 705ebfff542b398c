"""What can go wrong with the embedded pair.

EmbeddedError
├── EmbeddedNotInstalled    the packages that carry the servers are missing, or not for this machine
├── EmbeddedNotPermitted    this account may not run the servers, and no other way was found
├── EmbeddedFolderRefused   the folder is not ours, or cannot be used
├── EmbeddedBusy            another process holds the folder
└── EmbeddedStartFailed     the server ended early, or was not ready in time
"""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "EmbeddedBusy",
    "EmbeddedError",
    "EmbeddedFolderRefused",
    "EmbeddedNotInstalled",
    "EmbeddedNotPermitted",
    "EmbeddedStartFailed",
]


class EmbeddedError(Exception):
    """Base of all errors of `acuse.embedded`."""


class EmbeddedNotInstalled(EmbeddedError):  # noqa: N818  names state the fact
    """The package `package` with the server's programs is missing. Install `acuse[embedded]`."""

    def __init__(self, package: str, detail: str) -> None:
        super().__init__(
            f'The embedded servers need the package {package!r}: {detail}. Install it by: pip install "acuse[embedded]" '
            "— or use servers of your own by ACUSE_DATABASE_URL and ACUSE_REDIS_URL."
        )
        self.package = package


class EmbeddedNotPermitted(EmbeddedError):  # noqa: N818
    """PostgreSQL refuses to run as this account, and no other account can be used."""


class EmbeddedFolderRefused(EmbeddedError):  # noqa: N818
    """`folder` cannot be used as a state folder; the message says why and what to do."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(f"The state folder {folder} cannot be used: {reason}.")
        self.folder = folder


class EmbeddedBusy(EmbeddedError):  # noqa: N818
    """`folder` is held by the process `pid` (None if it has not written its number yet)."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"The state folder {folder} is in use by {holder}. Stop that process, connect to its servers, "
            "or choose another folder."
        )
        self.folder = folder
        self.pid = pid


class EmbeddedStartFailed(EmbeddedError):  # noqa: N818
    """`server` did not become ready. `log` is the tail of what it wrote since this start, `log_file` all of it."""

    def __init__(self, server: str, reason: str, *, log: str, log_file: Path) -> None:
        tail = log.strip() or "(the server wrote nothing)"
        super().__init__(f"{server} did not start: {reason}. The end of {log_file}:\n{tail}")
        self.server = server
        self.log = log
        self.log_file = log_file
