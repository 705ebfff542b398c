"""The folder that holds one server's data, password, port and log, or a pair of such folders; one process at a time.

What is in it (`data` and the rest only for a server):
  lock        held by flock(2) for the life of the launcher; its text is the launcher's process id
  password    generated once, mode 0600
  port        the last port
  pid         the last process id of the server, for systems without /proc
  server.log  what the server wrote; server.log.1 is the one before
  data/       the server's own
"""

from __future__ import annotations

import fcntl
import os
import pwd
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

from acuse.embedded.child import run_quietly
from acuse.embedded.errors import EmbeddedBusy, EmbeddedFolderRefused
from acuse.embedded.identity import Identity

__all__ = ["StateFolder", "default_folder"]

_LOCK = "lock"
_PASSWORD_BYTES = 24
_ROOT_STATE = Path("/var/lib/acuse")


def default_folder(name: str, identity: Identity) -> Path:
    """`$XDG_STATE_HOME/acuse/NAME`, or `~/.local/state/acuse/NAME`.

    Without XDG_STATE_HOME, and if the servers run under another account than ours: `/var/lib/acuse/NAME`, because that
    account cannot enter root's home.
    """
    state_home = Path(os.environ.get("XDG_STATE_HOME", ""))
    if state_home.is_absolute():  # the XDG base directory specification: a relative path is to be ignored
        return state_home / "acuse" / name
    if identity.how == "dropped":
        return _ROOT_STATE / name
    return Path.home() / ".local" / "state" / "acuse" / name


class StateFolder:
    """A folder of ours. `path` None: a temporary one, made by `claim` and removed by `release`."""

    def __init__(self, path: Path | None) -> None:
        self._asked = path
        self._path: Path | None = None
        self._lock: int | None = None
        self._launcher: int | None = None
        self._identity: Identity | None = None

    @property
    def is_claimed(self) -> bool:
        """Whether this process, and not one that it was forked from, holds the folder's lock through this object."""
        return self._lock is not None and self._launcher == os.getpid()

    @property
    def path(self) -> Path:
        """The real path, without symbolic links. Only while claimed."""
        if self._path is None:
            raise RuntimeError("the folder is not claimed: start the server first")
        return self._path

    def claim(self, identity: Identity) -> None:
        """Create the folder (0700) if needed, take its lock and give it to `identity`. Nothing to do if claimed.

        Raises EmbeddedBusy if another launcher holds it, EmbeddedFolderRefused if it is not ours to use.
        """
        if self.is_claimed:
            return
        path = Path(tempfile.mkdtemp(prefix="acuse-")) if self._asked is None else self._asked.expanduser()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = path.resolve()
            _refuse_unreachable(path, identity)
            _refuse_strangers(path, identity)
            self._lock = _take_lock(path)
            path.chmod(0o700)
            _give_tree(path, identity)
        except OSError as error:
            raise EmbeddedFolderRefused(path, f"{error.strerror or error}") from error
        self._path, self._identity, self._launcher = path, identity, os.getpid()

    def release(self) -> None:
        """Let go of the lock; remove the folder if it is temporary."""
        if self._lock is None or not self.is_claimed:
            return
        if self._asked is None:
            shutil.rmtree(self.path, ignore_errors=True)
        _held.discard(self._lock)
        os.close(self._lock)
        self._lock, self._path = None, None

    def give(self, path: Path) -> None:
        """Make the server's account the owner of a file that we made for it."""
        assert self._identity is not None
        os.chown(path, *self._identity.owner, follow_symlinks=False)

    def password(self) -> str:
        """The password of this folder's server, generated at first use. It needs no quoting in a URL."""
        file = self.path / "password"
        if not file.exists():
            self.write_private("password", secrets.token_urlsafe(_PASSWORD_BYTES))
        return file.read_text("ascii").strip()

    def write_private(self, name: str, text: str) -> Path:
        """Write a file of mode 0600, all or nothing."""
        new = self.path / f"{name}.new"
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.give(new)
        return new.replace(self.path / name)


def _refuse_strangers(path: Path, identity: Identity) -> None:
    owner = path.stat().st_uid
    ours = {os.geteuid(), identity.owner[0]}
    if os.geteuid() == 0:
        ours |= {entry.pw_uid for entry in pwd.getpwall() if entry.pw_name == "nobody"}  # an earlier start's account
    if owner not in ours:
        raise EmbeddedFolderRefused(path, f"it belongs to uid {owner}; use a folder of your own, or run as that account")
    if not (path / _LOCK).exists() and any(path.iterdir()):
        raise EmbeddedFolderRefused(path, "it is not empty and was not made by Acuse; name an empty or a new folder")


def _refuse_unreachable(path: Path, identity: Identity) -> None:
    """The other account must be able to enter every folder above: our own permissions do not help it."""
    if identity.how == "direct":
        return
    for above in reversed(path.parents):
        if not _lets_in(above.stat(), identity) and not run_quietly(["/bin/sh", "-c", 'cd -- "$0"', above], identity.account):
            raise EmbeddedFolderRefused(
                path,
                f"the account {identity.name!r}, under which the servers run because we are root, cannot enter {above}; "
                "choose a folder below /var/lib or /tmp, or allow it by chmod o+x",
            )


def _lets_in(above: os.stat_result, identity: Identity) -> bool:
    """By the permission bits; access lists may allow more."""
    uid, gid = identity.owner
    bit = stat.S_IXUSR if above.st_uid == uid else stat.S_IXGRP if above.st_gid == gid else stat.S_IXOTH
    return bool(above.st_mode & bit)


def _take_lock(folder: Path) -> int:
    """The descriptor that holds the lock. It is not inherited by programs, so the lock dies with this process."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 20, 0).strip()
        os.close(lock)
        raise EmbeddedBusy(folder, int(holder) if holder.isdigit() else None) from None
    os.truncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)
    _held.add(lock)
    return lock


def _give_tree(folder: Path, identity: Identity) -> None:
    """Only after a change of the way (an upgrade that allows user namespaces, say) is there more to do than a look."""
    uid, gid = identity.owner
    data = folder / "data"
    if all(place.stat().st_uid == uid for place in (folder, data) if place.exists()):
        return
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.chown(Path(place, name), uid, gid, follow_symlinks=False)


_held: set[int] = set()


def _forget_in_a_fork() -> None:
    """flock(2) belongs to the open file, which a fork shares: a fork that lives on must not keep the folder locked."""
    for lock in _held:
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_a_fork)
