"""The endurance run, tiny: all that can go down does, and the promises hold."""

import json
from pathlib import Path
from typing import Any

import pytest
from processes import leftovers, started


@pytest.mark.invariant(5)
@pytest.mark.invariant(10)
@pytest.mark.timeout(400)
def test_nothing_is_doubled_or_lost_while_workers_are_killed_redis_is_wiped_and_the_database_restarted(tmp_path: Path) -> None:
    file, folder = tmp_path / "result.json", tmp_path / "tmp"
    folder.mkdir()
    with started("endure", "--effects", "150", "--seed", "5", "--json", file, TMPDIR=str(folder)) as endure:
        code = endure.ends(360)
    assert code == 0, f"{endure.out}\n{endure.err}"
    result: dict[str, Any] = json.loads(file.read_text())
    # Given three operations of each of 50 cases, and all that went down
    assert sum(result["operations"].values()) == 150
    assert (result["blows"]["Valkey wiped"], result["blows"]["PostgreSQL restarted"]) == (2, 1)
    assert result["blows"]["workers killed"] >= 1
    # Then every promise was kept, and what is not settled says why and what comes next
    assert (result["duplicates"], result["losses"], result["broken"]) == (0, 0, [])
    assert result["operations"]["confirmed"] > 100
    assert all(one["why"] and one["next"] for one in result["held"])
    # And what lived all the time was weighed
    assert set(result["memory"]) == {"worker-1", "relay-1"}
    assert all(one["start"] and one["median"] and one["last"] for one in result["memory"].values())
    for said in ("seed 5", "Valkey was wiped: ", "PostgreSQL was restarted"):
        assert said in endure.err
    assert "Nothing doubled, nothing lost" in endure.out
    # And nothing of it is left
    assert leftovers(endure) == []
    assert list(folder.iterdir()) == []


def test_numbers_that_make_no_sense_are_named(tmp_path: Path) -> None:
    for words, field in ((("--effects", "2"), "--effects"), (("--tenants", "0"), "--tenants")):
        with started("endure", *words, TMPDIR=str(tmp_path)) as endure:
            assert endure.ends(60) == 2
        assert f"{field}: give" in endure.err
