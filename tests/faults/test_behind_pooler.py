"""Relays and workers as real processes, behind a pooler in transaction mode: everything that a first user does is done there."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crew import Crew, until
from sqlalchemy import text

from acuse.store.pooler import Between
from acuse_adapters.crm.action import LogNote
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.process import SimulatorProcess
from pooler import INSTALLED, pooler

pytestmark = pytest.mark.skipif(not INSTALLED, reason="there is no pgbouncer here: install the package pgbouncer")

QUEUE = "acuse.crm"

_LEFT_IN_SESSIONS = text(
    """
    select (select count(*) from pg_locks where locktype = 'advisory'
               and database = (select oid from pg_database where datname = current_database())) as locks,
           (select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%') as open
    """
)


@pytest.fixture
def through(servers: tuple[str, str], ledger_url: str) -> Iterator[str]:
    """The way to this module's ledger through a pooler with fewer sessions than the processes have connections."""
    with pooler(servers[0], size=4) as made:
        yield made.of(ledger_url)


@pytest.mark.case("R038")
def test_processes_behind_a_pooler_carry_effects_out_look_doubts_up_and_leave_no_session_behind(
    through: str, hire: Callable[..., Crew], tenant: str, tmp_path: Path
) -> None:
    with SimulatorProcess("crm", tmp_path / "crm") as crm:
        # Given two relays and two workers that know no other way to the database
        crew = hire(ACUSE_CRM_URL=crm.url, database=through)
        relays = [crew.fleet.acuse(name, "relay") for name in ("relay-1", "relay-2")]
        workers = [crew.worker() for _ in range(2)]

        # When a host stages through it too, and replies of the provider are lost
        crm.plan(script=[{"match": "lost", "faults": [Fault.DROP_REPLY]}])
        lost = [crew.stage(LogNote(case=f"lost-{n}", text="lost"), tenant) for n in range(3)]
        plain = [crew.stage(LogNote(case=f"plain-{n}", text="plain"), tenant) for n in range(20)]

        # Then all of it happens, once
        for one in [*lost, *plain]:
            crew.becomes(one, "confirmed")
        assert [len(crm.effects(f"op_{one.hex}")) for one in [*lost, *plain]] == [1] * 23

        # And what a request came to whose worker was killed is found out by a new one
        crm.hold("after_apply")
        one = crew.stage(LogNote(case="killed", text="killed"), tenant)
        crm.wait_held()
        assert [child.exit_code for _, child in workers] == [None, None]
        for name, _ in workers:
            crew.fleet.kill(name)
        crm.release(disarm=True)
        crew.worker()
        crew.let_claims_expire(one)
        crew.becomes(one, "confirmed")
        assert len(crm.effects(f"op_{one.hex}")) == 1

        # And each process said once what stands between, and nothing rests in a session that the next one gets
        for name in ("relay-1", "relay-2", "worker-1", "worker-2"):
            log = (crew.folder / f"{name}.log").read_text()
            assert log.count(Between.TRANSACTION_POOLER.value[:40]) == 1, log
        until(lambda: crew.depth(QUEUE) == 0, "their messages are acknowledged")
        for relay in relays:
            relay.send(signal.SIGTERM)
            assert relay.wait(20)
        with crew.engine.connect() as connection:
            assert tuple(connection.execute(_LEFT_IN_SESSIONS).one()) == (0, 0)
