"""A worker is stopped, or killed, at every point of an operation's life: one request, and the ledger is right."""

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from crew import Crew, own_ledger, until

from acuse_adapters.crm.action import LogNote
from acuse_adapters.simulators.process import SimulatorProcess

GRACE_SECONDS = 0.5


@pytest.fixture(scope="module")
def crm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorProcess]:
    with SimulatorProcess("crm", tmp_path_factory.mktemp("crm")) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def crew(servers: tuple[str, str], crm: SimulatorProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """One ledger and one relay for all of this module."""
    namespace = f"acuse-test-{uuid4().hex[:12]}"
    with (
        own_ledger(servers[0]) as database_url,
        Crew(tmp_path_factory.mktemp("crew"), database_url, servers[1], namespace, ACUSE_CRM_URL=crm.url) as crew,
    ):
        crew.relay()
        yield crew


def note() -> LogNote:
    return LogNote(case=f"case-{uuid4().hex[:8]}", text="onboarded")


@pytest.mark.case("R011")
@pytest.mark.parametrize("moment", ["claimed", "answered", "settled"])
def test_a_worker_that_is_stopped_and_killed_sends_once(crew: Crew, crm: SimulatorProcess, tenant: str, moment: str) -> None:
    # Given a worker that stands still after its claim; with the reply in hand; or settled and not acknowledged
    name, worker, held = crew.worker_held_at(moment)
    one = crew.stage(note(), tenant)
    until(held.exists, f"{name} reaches {moment}")

    # When it is told to stop, does not, and is killed after the grace time
    worker.send(signal.SIGTERM)
    assert not worker.wait(GRACE_SECONDS + 0.2)
    crew.fleet.kill(name)
    row = crew.row(one)
    assert row.status == {"claimed": "prepared", "answered": "dispatching", "settled": "confirmed"}[moment]

    # Then the next one takes over when the claim has ended, or gets the message again, and sends nothing that was sent
    name, worker = crew.worker()
    crew.let_claims_expire(one)
    if moment == "settled":
        crew.push(one, "acuse.crm")
    row = crew.becomes(one, "confirmed")
    assert len(crm.requests(f"op_{one.hex}")) == len(crm.effects(f"op_{one.hex}")) == 1
    assert row.attempts == 1

    # And a worker with nothing in the air ends at once, and well
    worker.send(signal.SIGTERM)
    assert worker.wait(10), crew.fleet.tail(name)
    assert worker.exit_code == 0


@pytest.mark.case("R011")
@pytest.mark.case("R022")
def test_a_worker_that_is_stopped_during_a_request_marks_it_and_ends_in_time(
    crew: Crew, crm: SimulatorProcess, tenant: str
) -> None:
    # Given a request that the provider has carried out and not answered
    name, worker = crew.worker()
    crm.hold("after_apply")
    one = crew.stage(note(), tenant)
    [held] = crm.wait_held()
    assert held["marker"] == f"op_{one.hex}"

    # When the worker is told to stop, and another one is there
    next_name, _ = crew.worker()
    worker.send(signal.SIGTERM)

    # Then it ends by itself soon after the grace time, and has said before that this is in doubt
    assert worker.wait(GRACE_SECONDS + 8), crew.fleet.tail(name)
    assert worker.exit_code == 0
    assert crew.fleet.has_said(name, "the worker was shut down during the call"), crew.fleet.tail(name)

    # And the other one finds what happened, and sends nothing
    row = crew.becomes(one, "confirmed")
    assert len(crm.requests(f"op_{one.hex}")) == len(crm.effects(f"op_{one.hex}")) == 1
    assert row.attempts == 1
    crm.release(disarm=True)
    crew.fleet.kill(next_name)


@pytest.mark.case("R011")
@pytest.mark.invariant(6)
def test_a_worker_that_is_killed_during_a_request_leaves_a_doubt_that_its_successor_clears_up(
    crew: Crew, crm: SimulatorProcess, tenant: str
) -> None:
    name, _ = crew.worker()
    crm.hold("after_apply")
    one = crew.stage(note(), tenant)
    crm.wait_held()

    crew.fleet.kill(name)
    crm.release(disarm=True)
    assert crew.row(one).status == "dispatching"

    name, _ = crew.worker()
    crew.let_claims_expire(one)
    row = crew.becomes(one, "confirmed")
    assert len(crm.requests(f"op_{one.hex}")) == len(crm.effects(f"op_{one.hex}")) == 1
    assert row.attempts == 1
    crew.fleet.kill(name)


def test_the_logs_of_workers_carry_no_payload(crew: Crew) -> None:
    """What all the workers of this module have written."""
    assert sorted(Path(crew.folder).glob("worker-*.log"))
    for log in Path(crew.folder).glob("*.log"):
        assert "onboarded" not in log.read_text()
