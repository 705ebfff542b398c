"""A pgbouncer of the run's own, in transaction mode, between the tests and their PostgreSQL."""

import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url

WANTED = os.environ.get("ACUSE_TEST_PGBOUNCER", "") not in {"", "0"}
"""Whether this run goes through a pooler; the Debian package `pgbouncer` has it."""

PREPARED = os.environ.get("ACUSE_TEST_PGBOUNCER_PREPARED", "0")
"""Its `max_prepared_statements`; a pgbouncer before 1.21 knows none, which is what 0 means."""

INSTALLED = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
"""The program, if it is here."""

PATIENCE = 20.0
UNPRIVILEGED = ("postgres", "nobody")  # it refuses to run as root

_SETTINGS = """[databases]
* = host={host} port={port} user={user} {password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
max_client_conn = 1000
default_pool_size = {size}
server_idle_timeout = 5
{prepared}
"""


@dataclass(frozen=True)
class Pooler:
    """A pooler that runs. `of` gives the way through it to a database of its server."""

    port: int

    def of(self, url: str) -> str:
        through = make_url(url).set(drivername="postgresql+psycopg", host="127.0.0.1", port=self.port)
        return through.render_as_string(hide_password=False)


@contextmanager
def pooler(server_url: str, *, mode: str = "transaction", size: int = 20) -> Iterator[Pooler]:
    """A pgbouncer in front of the server of `server_url`, for the time of the block. `size`: its connections per database."""
    assert INSTALLED, "ACUSE_TEST_PGBOUNCER is set, and there is no pgbouncer: install the package pgbouncer"
    # Not below pytest's folder, which other accounts may not enter.
    with tempfile.TemporaryDirectory(prefix="acuse-pooler-") as folder:
        port, file = _free_port(), Path(folder) / "pgbouncer.ini"
        file.write_text(_settings(make_url(server_url), port, mode, size, _version(INSTALLED)))
        with _running([INSTALLED, *_account(file.parent, file), str(file)], port, file.with_suffix(".log")):
            yield Pooler(port)


@contextmanager
def _running(command: list[str], port: int, log: Path) -> Iterator[None]:
    with log.open("w") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            _wait_until_it_answers(port, process, log)
            yield
        finally:
            process.terminate()


def _settings(server: URL, port: int, mode: str, size: int, version: tuple[int, int]) -> str:
    return _SETTINGS.format(
        host=server.host or "127.0.0.1",
        port=server.port or 5432,
        user=server.username or "postgres",
        password=f"password={server.password}" if server.password else "",
        listen=port,
        mode=mode,
        size=size,
        prepared=f"max_prepared_statements = {PREPARED}" if version >= (1, 21) else "",
    )


def _version(program: str) -> tuple[int, int]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"PgBouncer (\d+)\.(\d+)", said)
    assert found, said
    return int(found[1]), int(found[2])


def _account(folder: Path, file: Path) -> list[str]:
    """Options that make it run as somebody else than root, who can read its settings then."""
    if os.getuid() != 0:
        return []
    name = next(name for name in UNPRIVILEGED if _exists(name))
    owner = pwd.getpwnam(name).pw_uid
    for path in (folder, file):
        os.chown(path, owner, -1)
    return ["-u", name]


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _wait_until_it_answers(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.01)
        else:
            return


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])
