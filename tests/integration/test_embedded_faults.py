"""The embedded pair when things are killed: nothing is left running, nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

from acuse.embedded import EmbeddedBusy, EmbeddedPair, EmbeddedPostgres, EmbeddedValkey, leftover

DEADLINE_SECONDS = 20.0

PAIR = """
from acuse.embedded import EmbeddedPair
import json, sys
pair = EmbeddedPair(sys.argv[1], durable=False).start()
say = {"pids": [pair.postgres.pid, pair.valkey.pid]}
"""

VALKEY = """
from acuse.embedded import EmbeddedValkey
import json, sys
valkey = EmbeddedValkey(sys.argv[1]).start()
say = {"pids": [valkey.pid]}
"""

# As on a system without the death signal: the servers outlive their launcher.
WITHOUT_DEATH_SIGNAL = """
from acuse.embedded import child
child._shimmed = lambda command, account, death_signal: [str(word) for word in command]
"""

# A fork of the launcher that lives on, holds whatever it inherited, and tries to stop what is not its own.
WITH_A_FORK = """
import os
fork = os.fork()
if fork == 0:
    valkey.stop()
    sys.stdin.read()
    os._exit(0)
say["fork"] = fork
"""

REPORT = """
print(json.dumps(say), file=sys.stderr, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other accounts may enter, unlike pytest's: the servers may have to run as one of them."""
    with tempfile.TemporaryDirectory(prefix="acuse-test-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@dataclass
class Launcher:
    process: subprocess.Popen[str]
    said: dict[str, object]
    servers: list[psutil.Process]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def launcher(script: str, folder: Path) -> Iterator[Launcher]:
    """Another process that started servers on `folder` and now waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", script + REPORT, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    with process.stdin, process.stderr:
        line = process.stderr.readline()
        try:
            said = json.loads(line)
            roots = [psutil.Process(pid) for pid in said["pids"]]
            family = [*roots, *(child for root in roots for child in root.children(recursive=True))]
            yield Launcher(process, said, family)
        finally:
            process.kill()
            process.wait()


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all end in time. A zombie has ended; how soon init collects it is not ours."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while alive := [process for process in processes if runs(process)]:
        if time.monotonic() > deadline:
            return False
        psutil.wait_procs(alive, timeout=0.02)
    return True


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ask(port: int, *commands: str) -> list[str]:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall("".join(f"{command}\r\n" for command in (*commands, "QUIT")).encode())
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received.decode().split("\r\n")


def put(folder: Path) -> None:
    """A committed row and a key, by what the folder says of its servers."""

    def read(server: str, name: str) -> str:
        return (folder / server / name).read_text().strip()

    port, password = read("postgres", "port"), read("postgres", "password")
    with psycopg.connect(f"postgresql://postgres:{password}@127.0.0.1:{port}/acuse") as connection:
        connection.execute("create table kept as select 7 as number")
    set_key(int(read("valkey", "port")), read("valkey", "password"))


def set_key(port: int, password: str) -> None:
    assert ask(port, f"AUTH {password}", "SET kept 7")[1] == "+OK"


def assert_kept(pair: EmbeddedPair) -> None:
    with psycopg.connect(pair.postgres.conninfo) as connection:
        assert connection.execute("select number from kept").fetchone() == (7,)
    assert_key(pair.valkey)


def assert_key(valkey: EmbeddedValkey) -> None:
    assert "7" in ask(valkey.port, f"AUTH {valkey.password}", "GET kept")


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_a_killed_launcher_takes_its_servers_along_and_the_next_start_finds_the_data(place: Path) -> None:
    with launcher(PAIR, place / "state") as other:
        # Given a pair in another process, which refuses a second launcher
        assert len(other.servers) > 2
        put(place / "state")
        with pytest.raises(EmbeddedBusy) as busy:
            EmbeddedPair(place / "state").start()
        assert busy.value.pid == other.process.pid
        # When that process is killed, Then no server of it is left
        other.kill()
        assert gone(other.servers)
    # And the next start finds everything
    with EmbeddedPair(place / "state", durable=False) as pair:
        assert_kept(pair)


def test_a_start_at_once_after_the_launchers_death_waits_for_the_old_servers_to_end(place: Path) -> None:
    with launcher(PAIR, place / "state") as other:
        put(place / "state")
        other.kill()
        with EmbeddedPair(place / "state", durable=False) as pair:
            assert gone(other.servers)
            assert_kept(pair)


def test_after_a_kill_of_everything_at_once_a_stale_process_id_does_not_stand_in_the_way(place: Path) -> None:
    with launcher(PAIR, place / "state") as other:
        put(place / "state")
        other.process.send_signal(signal.SIGSTOP)  # nobody can tidy up
        for process in other.servers:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        other.kill()
        assert gone(other.servers)
    # The dead postmaster's number was given to a living stranger (not to us: a parent's number PostgreSQL disregards)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as stranger:
        stale = place / "state" / "postgres" / "data" / "postmaster.pid"
        _number, rest = stale.read_text().split("\n", 1)
        stale.write_text(f"{stranger.pid}\n{rest}")
        with EmbeddedPair(place / "state", durable=False) as pair:
            assert_kept(pair)
        assert stranger.poll() is None


def test_a_killed_server_comes_back_on_its_port_with_its_data(place: Path) -> None:
    with EmbeddedPair(place / "state", durable=False) as pair:
        put(place / "state")
        urls = (pair.database_url, pair.redis_url)
        family = psutil.Process(pair.postgres.pid).children(recursive=True)
        for server in (pair.postgres, pair.valkey):
            server.kill()
            assert not server.is_running
        assert gone(family)

        pair.start()
        assert (pair.database_url, pair.redis_url) == urls
        assert_kept(pair)

        pair.postgres.restart()
        pair.valkey.restart()
        assert (pair.database_url, pair.redis_url) == urls
        assert_kept(pair)


def test_a_kill_before_initdb_has_ended_leaves_no_half_made_data(place: Path) -> None:
    # Given what an interrupted initdb leaves
    folder = place / "postgres"
    with EmbeddedPostgres(folder, durable=False) as postgres:
        data = postgres.data
    for name in ("global", "PG_VERSION", "postgresql.conf"):
        assert (data / name).exists()
    (data / "global").rename(folder / "lost")
    data.rename(folder / "data.new")
    # When it starts again, Then it makes the data anew
    with EmbeddedPostgres(folder, durable=False) as postgres, psycopg.connect(postgres.conninfo) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert not (folder / "data.new").exists()


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_server_left_behind_without_a_death_signal_is_ended_at_the_next_start(
    place: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    # Given a server that outlived its launcher, as on systems that have no death signal
    folder = place / "valkey"
    with launcher(WITHOUT_DEATH_SIGNAL + VALKEY, folder) as other:
        set_key(int((folder / "port").read_text()), (folder / "password").read_text().strip())
        other.kill()
        assert runs(other.servers[0])
        # When the folder is used again, found by /proc or by the process id on file
        if platform != sys.platform:
            monkeypatch.setattr(leftover.sys, "platform", platform)
        monkeypatch.setattr(leftover, "_POLITE_SECONDS", DEADLINE_SECONDS)
        found = leftover.leftovers(folder / "data", "valkey-server", pid_file=folder / "pid")
        assert found == [other.servers[0].pid]
        monkeypatch.undo()
        with EmbeddedValkey(folder) as valkey:
            # Then the old one is gone and its data is here
            assert gone(other.servers)
            assert_key(valkey)


def test_a_process_id_on_file_that_is_a_strangers_now_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftover.sys, "platform", "darwin")
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    assert leftover.leftovers(tmp_path / "data", "valkey-server", pid_file=tmp_path / "pid") == []


def test_a_fork_of_the_launcher_neither_stops_the_server_nor_keeps_the_folder(place: Path) -> None:
    folder = place / "valkey"
    with launcher(VALKEY + WITH_A_FORK, folder) as other:
        fork = psutil.Process(int(str(other.said["fork"])))
        try:
            set_key(int((folder / "port").read_text()), (folder / "password").read_text().strip())
            other.kill()
            assert runs(fork)
            with EmbeddedValkey(folder) as valkey:
                assert_key(valkey)
        finally:
            fork.kill()
