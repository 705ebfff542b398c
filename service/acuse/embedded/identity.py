"""Under whose account the servers run. PostgreSQL refuses root, and `initdb` refuses an account without a name."""

from __future__ import annotations

import functools
import os
import pwd
import sys
from dataclasses import dataclass
from typing import Literal

from acuse.embedded.child import Account, run_quietly
from acuse.embedded.errors import EmbeddedNotPermitted

__all__ = ["Identity", "choose_identity"]


@dataclass(frozen=True, slots=True)
class Identity:
    """How a server gets an account that PostgreSQL accepts.

    `how`: "direct" (this account is fine), "mapped" (user namespace, files stay this account's) or "dropped" (another
    account, which must own the data folder and be able to reach it and the programs).
    """

    how: Literal["direct", "mapped", "dropped"]
    uid: int
    gid: int
    name: str

    @property
    def account(self) -> Account:
        """The three words that `acuse.embedded.shim` takes."""
        return self.how, self.uid, self.gid

    @property
    def owner(self) -> tuple[int, int]:
        """Uid and gid that own the files, as seen from here."""
        return (self.uid, self.gid) if self.how == "dropped" else (os.geteuid(), os.getegid())


def choose_identity() -> Identity:
    """The least change that PostgreSQL accepts.

    Raises EmbeddedNotPermitted if we are root (or nameless) and neither a user namespace nor another account is there.
    """
    uid, gid = os.geteuid(), os.getegid()
    named = _entry(uid)
    if uid != 0 and named is not None:
        return Identity("direct", uid, gid, named.pw_name)
    inside = _inside_account()
    if inside is not None and user_namespaces_allowed(inside.pw_uid, inside.pw_gid):
        return Identity("mapped", inside.pw_uid, inside.pw_gid, inside.pw_name)
    nobody = _entry_by_name("nobody")
    if uid == 0 and nobody is not None and nobody.pw_uid != 0:
        return Identity("dropped", nobody.pw_uid, nobody.pw_gid, nobody.pw_name)
    raise EmbeddedNotPermitted(
        f"PostgreSQL does not run as {'root' if uid == 0 else f'uid {uid}, which has no name in /etc/passwd'}. "
        "Tried: a user namespace (refused by this system) and the account 'nobody' (not available). Run as an "
        "ordinary user, allow user namespaces, or set ACUSE_DATABASE_URL and ACUSE_REDIS_URL to servers of your own."
    )


@functools.cache
def user_namespaces_allowed(uid: int, gid: int) -> bool:
    """Whether this process may create a user namespace and map itself to `uid`:`gid` in it; asked by doing it."""
    return sys.platform == "linux" and run_quietly(["/bin/sh", "-c", ":"], ("mapped", uid, gid))


def _inside_account() -> pwd.struct_passwd | None:
    """Some account with a name that is not root: inside the namespace `initdb` looks its name up, and nothing else.

    Not 65534 if there is a choice, because there it is also the kernel's number for "not mapped".
    """
    entries = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    return min(entries, key=lambda entry: (entry.pw_uid == 65534, entry.pw_uid), default=None)


def _entry(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _entry_by_name(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
