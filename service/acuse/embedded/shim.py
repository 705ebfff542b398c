"""The few steps between fork and exec, as a program: `python -I -S shim.py SIGNAL PARENT HOW UID GID PROGRAM ARGUMENT…`.

It asks the kernel to send SIGNAL when PARENT dies, changes the account and becomes PROGRAM, all under one process id.
It is a program and not a `preexec_fn`, because the launcher has threads, and Python code between fork and exec in a
process with threads can deadlock. It runs without site-packages, so it imports the standard library only.

HOW is one of
  direct   stay who we are
  mapped   a new user namespace in which this account appears as UID:GID; root's files appear as theirs (Linux)
  dropped  become UID:GID for good; needs root
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
CLONE_NEWUSER = 0x10000000  # linux/sched.h


def _libc_call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123  pathlib costs a third of this program's time
        file.write(text)


def _become(how: str, uid: int, gid: int) -> None:
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    if how == "mapped":
        _libc_call("unshare", CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")  # user_namespaces(7): before gid_map, or the map is refused
        _write("/proc/self/gid_map", f"{gid} {outer_gid} 1")
        _write("/proc/self/uid_map", f"{uid} {outer_uid} 1")
    elif how == "dropped":
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def main(arguments: list[str]) -> None:
    """Become the program named by `arguments`. Returns only by an exception, or if PARENT is dead already."""
    death_signal, parent, how, uid, gid, program, *rest = arguments
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _become(how, int(uid), int(gid))
    if sys.platform == "linux":
        # After the change of account, which clears the setting (prctl(2)); exec of a plain program keeps it.
        _libc_call("prctl", PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != int(parent):
            return  # the parent died before the setting: its signal will never come
    os.execv(program, [program, *rest])  # noqa: S606  a shell is what we do not want


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"cannot start {sys.argv[6]} ({sys.argv[3]}): {error}\n")
    sys.exit(126)
