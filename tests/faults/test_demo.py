"""The demonstration as a newcomer runs it: what it shows, and that it leaves nothing behind, however it ends."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from processes import Started, leftovers, started
from sqlalchemy import make_url

Traces = Callable[[], set[str]]


@pytest.fixture
def traces(servers: tuple[str, str]) -> Traces:
    """Databases and keys of demonstrations that are there and were not there before."""
    url = make_url(servers[0]).set(drivername="postgresql").render_as_string(hide_password=False)

    def there() -> set[str]:
        with psycopg.connect(url) as connection, redis.Redis.from_url(servers[1], decode_responses=True) as client:
            rows = connection.execute("select datname from pg_database where datname like 'acuse\\_demo\\_%'").fetchall()
            return {name for (name,) in rows} | set(client.scan_iter("acuse-demo-*"))

    before = there()
    return lambda: there() - before


def environment(servers: tuple[str, str], folder: Path) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    return {"ACUSE_DATABASE_URL": servers[0], "ACUSE_REDIS_URL": servers[1], "TMPDIR": str(folder)}


def left_nothing(one: Started, folder: Path) -> None:
    assert leftovers(one) == []
    assert list(folder.iterdir()) == []


@pytest.mark.timeout(400)
@pytest.mark.invariant(5)
@pytest.mark.invariant(10)
def test_nothing_is_doubled_nothing_is_lost_and_what_is_uncertain_is_explained(
    servers: tuple[str, str], traces: Traces, tmp_path: Path
) -> None:
    # Given other settings in the shell, which are none of the demonstration's business
    others = {"ACUSE_CRM_URL": "https://crm.example", "ACUSE_METRICS_PORT": "9100", "ACUSE_LOG_LEVEL": "no level"}
    file, folder = tmp_path / "result.json", tmp_path / "tmp"

    # When it is run on servers that are there, looked around in, and told to stop
    words = ("demo", "--cases", "24", "--seed", "11", "--json", file, "--keep")
    with started(*words, **environment(servers, folder), **others) as demo:
        demo.says("then press Ctrl-C", 100)
        assert {"relay", "worker", "acuse_adapters.demo.backend"} <= {word for command, _ in demo.commands() for word in command}
        demo.send(signal.SIGINT)
        code = demo.ends()

    # Then every promise was kept
    assert code == 0, f"{demo.out}\n{demo.err}"
    result: dict[str, Any] = json.loads(file.read_text())
    assert set(result) >= {"operations", "effects", "duplicates", "losses", "held", "broken", "seconds"}
    assert (result["duplicates"], result["losses"], result["broken"], result["seed"]) == (0, 0, [], 11)
    assert sum(result["operations"].values()) == 24 * 3
    assert result["effects"] > 24 * 2
    # And the ticket that is never answered is an unknown that says why, and when it is looked for
    [stubborn] = [it for it in result["held"] if (it["action"], it["target"]) == ("ticket.create.v1", "case-2")]
    assert stubborn["state"] == "unknown"
    assert "it may or may not have happened" in stubborn["why"]
    assert stubborn["next"]
    # And people saw the faults happen, and the result
    for said in ("seed 11", "worker-1 was killed (SIGKILL)", "Valkey was wiped", "effects at the providers"):
        assert said in demo.err
    for said in ("Operations by provider and state", "Not settled, and why:", "Nothing doubled, nothing lost"):
        assert said in demo.out
    assert "Traceback" not in demo.err
    # And nothing of it is left
    left_nothing(demo, folder)
    assert traces() == set()


def test_ctrl_c_in_the_middle_ends_everything_and_a_second_one_does_not_cut_the_tidying_up(
    servers: tuple[str, str], traces: Traces, tmp_path: Path
) -> None:
    folder = tmp_path / "tmp"
    with started("demo", "--cases", "60", "--seed", "3", **environment(servers, folder)) as demo:
        demo.says("effects at the providers: ")
        assert traces()
        demo.send(signal.SIGINT)
        demo.says("stopping")
        demo.send(signal.SIGINT)
        assert demo.ends() == 130
    assert "Traceback" not in demo.err
    left_nothing(demo, folder)
    assert traces() == set()


def test_sigterm_ends_the_embedded_servers_too(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    with started("demo", "--cases", "60", "--seed", "3", TMPDIR=str(folder)) as demo:
        demo.says("the backend closes 60 cases", 60)
        assert any("postgres" in " ".join(command) for command, _ in demo.commands())
        demo.send(signal.SIGTERM)
        assert demo.ends() == 128 + signal.SIGTERM
    left_nothing(demo, folder)


def test_a_worker_that_dies_by_itself_is_reported_with_the_end_of_its_log(
    servers: tuple[str, str], traces: Traces, tmp_path: Path
) -> None:
    folder = tmp_path / "tmp"
    with started("demo", "--cases", "60", "--seed", "3", **environment(servers, folder)) as demo:
        demo.says("the backend closes 60 cases")
        words = ["worker", "--provider", "email", "--provider", "ticket"]
        [worker] = [process for command, process in demo.commands() if command[-5:] == words]
        worker.kill()
        assert demo.ends() == 2
    assert "acuse demo: worker-2 ended by itself" in demo.err
    left_nothing(demo, folder)
    assert traces() == set()
