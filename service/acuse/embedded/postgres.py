"""PostgreSQL of our own: `initdb` once, then `postgres` on 127.0.0.1, with a password."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

import psycopg
from psycopg import sql

from acuse.embedded.binaries import postgres_programs, readable_programs
from acuse.embedded.child import Child
from acuse.embedded.identity import Identity
from acuse.embedded.port import HOST
from acuse.embedded.server import EmbeddedServer, ServerOptions

__all__ = ["EmbeddedPostgres"]

_USER = "postgres"
_CONNECT_SECONDS = 5
_STATUS_LINE = 7  # of postmaster.pid, counted from 0 (LOCK_FILE_LINE_PM_STATUS in miscadmin.h)

_OPTIONS = {
    "listen_addresses": HOST,
    # A socket's path may hold 107 bytes only, and state folders can be deep.
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    # Files in the data folder instead of /dev/shm, which is small in containers and keeps what SIGKILL leaves.
    "dynamic_shared_memory_type": "mmap",
    # No input/output worker processes: a small server, quick to start.
    "io_method": "sync",
    "jit": "off",
    "max_logical_replication_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# Commits still reach the operating system before they are answered, so they outlive SIGKILL, though not a power cut.
_OPTIONS_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


class EmbeddedPostgres(EmbeddedServer):
    """A PostgreSQL server with the database `database` in it. See `EmbeddedServer` for the parameters."""

    server = "PostgreSQL"
    program = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown: ends sessions, writes a checkpoint
    force_signal = signal.SIGQUIT  # immediate shutdown: like a crash, but takes the children along
    death_signal = signal.SIGQUIT
    passing_failures: ClassVar[tuple[str, ...]] = (
        *EmbeddedServer.passing_failures,
        "pre-existing shared memory block",  # children of a killed server that are just ending
    )

    def __init__(self, folder: Path | str | None, *, database: str = "acuse", **options: Unpack[ServerOptions]) -> None:
        super().__init__(folder, **options)
        self.database = database
        self._programs = Path()

    @classmethod
    def temporary(cls, *, database: str = "acuse", **options: Unpack[ServerOptions]) -> Self:
        """A server in a temporary folder that `stop` removes."""
        return cls(None, database=database, **options)

    @property
    def conninfo(self) -> str:
        """`postgresql://…`, as psycopg and libpq take it; with the password."""
        return f"postgresql://{_USER}:{self.password}@{HOST}:{self.port}/{self.database}"

    @property
    def database_url(self) -> str:
        """`postgresql+psycopg://…`, as SQLAlchemy takes it; with the password."""
        return self.conninfo.replace("postgresql://", "postgresql+psycopg://", 1)

    def _prepare(self, identity: Identity, deadline: float) -> None:
        self._programs = readable_programs(postgres_programs(), self.program, identity=identity, copies=self.folder / "programs")
        if self.data.exists():
            # The lock is ours and no postgres works here: the number in the file is a dead server's or a stranger's,
            # and for a stranger's PostgreSQL would refuse to start.
            (self.data / "postmaster.pid").unlink(missing_ok=True)
        else:
            self._make_data(identity, deadline)

    def _make_data(self, identity: Identity, deadline: float) -> None:
        """Whole or not at all: `initdb` works beside, and one rename makes it the data folder."""
        new = self.folder / "data.new"
        self._end_leftovers(signal.SIGKILL, new)
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self._folder.give(new)
        password = self.password
        assert password
        command: list[str | Path] = [
            self._programs / "initdb",
            f"--pgdata={new}",
            f"--username={_USER}",
            f"--pwfile={self.folder / 'password'}",
            "--auth-host=scram-sha-256",
            "--auth-local=scram-sha-256",
            "--encoding=UTF8",
            # PostgreSQL's own locale: the same order on every machine, whatever locales are installed.
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            *([] if self._durable else ["--no-sync"]),
        ]
        self._run_to_end(command, identity, new, deadline)
        new.rename(self.data)
        if self._durable:
            _sync(self.folder)

    def _command(self, port: int) -> list[str | Path]:
        options = _OPTIONS | ({} if self._durable else _OPTIONS_NOT_DURABLE) | {"port": str(port)}
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [self._programs / "postgres", "-D", self.data, *settings]

    def _answers(self, child: Child, port: int) -> bool:
        if not _says_ready(self.data / "postmaster.pid", child.pid):
            return False
        try:
            with self._connect(port) as connection:
                row = connection.execute("select current_setting('data_directory')").fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and Path(str(row[0])) == self.data

    def _finish_start(self) -> None:
        with self._connect(self.port) as connection:
            known = connection.execute("select 1 from pg_database where datname = %s", [self.database]).fetchone()
            if known is None:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(self.database)))

    def _connect(self, port: int) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host=HOST,
            port=port,
            user=_USER,
            password=self.password,
            dbname="postgres",
            sslmode="disable",
            gssencmode="disable",
            options="",  # not PGOPTIONS of the host
            connect_timeout=_CONNECT_SECONDS,
            autocommit=True,
        )


def _says_ready(pid_file: Path, pid: int) -> bool:
    """Whether `postmaster.pid` is of the process `pid` and says that connections are accepted."""
    try:
        lines = pid_file.read_text("utf-8").splitlines()
    except OSError:
        return False
    return len(lines) > _STATUS_LINE and lines[0] == str(pid) and lines[_STATUS_LINE].strip() == "ready"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
