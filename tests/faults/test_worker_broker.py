"""What a broker does to workers: takes messages back from one that stands still, forgets, fills up; and what it cannot do."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from crew import Crew, free_ports, scraped, until
from sqlalchemy import text

from acuse.embedded import EmbeddedValkey
from acuse_adapters.crm.action import LogNote
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.process import SimulatorProcess

QUEUE = "acuse.crm"
DELIVERIES = 'acuse_duplicates_prevented_total{kind="delivery"}'
ALARM_SECONDS = 300


@pytest.mark.case("R014")
@pytest.mark.invariant(3)
@pytest.mark.parametrize("claim_ends", [False, True], ids=["within the lease", "past it"])
def test_a_worker_that_stands_still_with_the_receipt_in_hand_is_not_replaced_by_a_second_request(
    hire: Callable[..., Crew], tenant: str, tmp_path: Path, claim_ends: bool
) -> None:
    with SimulatorProcess("crm", tmp_path / "crm") as crm:
        crm.plan(lookup_down=True)
        crew = hire(ACUSE_CRM_URL=crm.url, ACUSE_LEASE_SECONDS="60")
        crew.relay()
        # Given a worker whose native call keeps its interpreter's lock, so that its broker hears nothing of it either
        frozen, held, thaw = crew.worker_frozen_at("answered")
        one = crew.stage(LogNote(case="case-1", text="hello"), tenant)
        until(held.exists, f"{frozen} stands still")
        assert len(crm.effects(f"op_{one.hex}")) == 1

        # When the broker gives its message to another worker
        [port] = free_ports(1)
        crew.worker(ACUSE_METRICS_PORT=str(port))
        if claim_ends:
            crew.let_claims_expire(one)
            crew.becomes(one, "unknown")
            until(lambda: read(crew, one), "a look at the provider, which says nothing")
        crew.take_back(QUEUE)

        # Then that one sends nothing
        until(lambda: scraped(port, DELIVERIES) >= 1, "the second delivery ends")
        assert crew.row(one).status == ("unknown" if claim_ends else "dispatching")

        # And when the first one comes round, its receipt settles, under its own claim or as evidence
        thaw()
        row = crew.becomes(one, "confirmed")
        with crew.engine.connect() as connection:
            late = connection.execute(text("select late from acuse.attempt where operation_id = :id"), {"id": one}).scalar_one()
        assert (late, row.attempts, bool(row.result_id)) == (claim_ends, 1, True)
        assert len(crm.requests(f"op_{one.hex}")) == len(crm.effects(f"op_{one.hex}")) == 1


def read(crew: Crew, operation: Any) -> bool:
    """Whether a look-up is on record that found out nothing."""
    asked = text("select count(*) from acuse.evidence where operation_id = :id and finding = 'unavailable'")
    with crew.engine.connect() as connection:
        return bool(connection.execute(asked, {"id": operation}).scalar_one())


@pytest.mark.case("R017")
@pytest.mark.invariant(10)
def test_what_a_restarted_broker_forgot_is_handed_over_again_and_what_it_remembers_later_calls_nobody(
    hire: Callable[..., Crew], tenant: str, tmp_path: Path
) -> None:
    relay_port, worker_port = free_ports(2)
    with EmbeddedValkey.temporary(durable=False) as valkey, SimulatorProcess("crm", tmp_path / "crm") as crm:
        crew = hire(broker=valkey.redis_url, ACUSE_CRM_URL=crm.url, ACUSE_METRICS_PORT=str(relay_port))
        crew.relay()
        name, worker = crew.worker(ACUSE_METRICS_PORT=str(worker_port))
        # Given twenty in the broker, and a worker that takes none of them
        worker.send(signal.SIGSTOP)
        staged = [crew.stage(LogNote(case=f"case-{n}", text="hello"), tenant) for n in range(20)]
        with crew.engine.begin() as connection:
            left = text("select count(*) from acuse.outbox_message")
            until(lambda: connection.execute(left).scalar_one() == 0, "all are in the broker")
        stuck = crew.redis.hgetall(f"{crew.namespace}:{QUEUE}.msgs")
        with crew.engine.begin() as connection:
            connection.execute(
                text("update acuse.operation set handed_at = handed_at - interval '10 min', version = version + 1")
            )

        # Then whoever is on call sees how long nobody has taken them
        assert scraped(relay_port, 'acuse_handed_over_oldest_seconds{provider="crm"}') > ALARM_SECONDS

        # When the broker starts again and has forgotten them, and the worker comes round
        valkey.kill()
        valkey.start()
        worker.send(signal.SIGCONT)

        # Then all of them are handed over and carried out
        for one in staged:
            crew.becomes(one, "confirmed")
        until(lambda: crew.depth(QUEUE) == 0, "their messages are acknowledged")
        assert scraped(relay_port, "acuse_handed_over_oldest_seconds") == 0

        # And when the old messages come back an hour late, nothing is called
        before = scraped(worker_port, DELIVERIES)
        crew.redis.hset(f"{crew.namespace}:{QUEUE}.msgs", mapping=stuck)
        crew.redis.rpush(f"{crew.namespace}:{QUEUE}", *stuck)
        until(lambda: crew.depth(QUEUE) == 0, "the late ones are taken")
        assert scraped(worker_port, DELIVERIES) - before == 20
        assert [len(crm.requests(f"op_{one.hex}")) for one in staged] == [1] * 20
        assert [len(crm.effects(f"op_{one.hex}")) for one in staged] == [1] * 20
        assert worker.exit_code is None, crew.fleet.tail(name)


@pytest.mark.case("R020")
@pytest.mark.invariant(11)
def test_a_worker_that_starts_while_the_broker_is_full_waits_and_then_drains(
    hire: Callable[..., Crew], tenant: str, tmp_path: Path
) -> None:
    with EmbeddedValkey.temporary(durable=False) as valkey, SimulatorProcess("crm", tmp_path / "crm") as crm:
        crew = hire(broker=valkey.redis_url, ACUSE_CRM_URL=crm.url)
        # Given a broker that refuses every write before anything has started
        crew.redis.config_set("maxmemory", 1)
        with pytest.raises(redis.ResponseError, match="maxmemory"):
            crew.redis.set("anything", "at all")

        # Then business commits go on, the rows wait, and the worker tries again and again instead of dying
        before = crew.stage(LogNote(case="case-1", text="before"), tenant)
        relay = crew.relay()
        name, worker = crew.worker()
        log = crew.folder / f"{name}.log"
        until(lambda: log.read_text().count("Consumer encountered an unexpected error") >= 6, "its consumers try")
        until(lambda: crew.fleet.has_said("relay", "out of memory"), "the relay has tried")
        during = crew.stage(LogNote(case="case-2", text="during"), tenant)
        assert (relay.exit_code, worker.exit_code) == (None, None)
        assert [crew.row(one).status for one in (before, during)] == ["prepared", "prepared"]

        # And when there is room again, all drains without anybody's help
        crew.redis.config_set("maxmemory", 0)
        for one in (before, during):
            crew.becomes(one, "confirmed")
        assert [len(crm.requests(f"op_{one.hex}")) for one in (before, during)] == [1, 1]
        until(lambda: crew.depth(QUEUE) == 0, "their messages are acknowledged")


@pytest.mark.case("R023")
@pytest.mark.invariant(4)
def test_providers_that_never_answer_take_no_thread_away(hire: Callable[..., Crew], tenant: str, tmp_path: Path) -> None:
    threads = 8
    with SimulatorProcess("crm", tmp_path / "crm") as crm:
        crew = hire(ACUSE_CRM_URL=crm.url, ACUSE_CRM_DEADLINE_SECONDS="4", ACUSE_WORKER_THREADS=str(threads))
        crew.relay()
        name, worker = crew.worker()
        # Given as many requests as there are threads, each read and never answered
        crm.plan(script=[{"match": "silent", "faults": [Fault.STALL]}], stall_seconds=600)
        silent = [crew.stage(LogNote(case=f"case-{n}", text="silent"), tenant) for n in range(threads)]

        # Then each is in doubt at its deadline
        for one in silent:
            until(lambda one=one: crew.row(one).doubts == 1 and crew.row(one).status == "unknown", "unknown")  # type: ignore[misc]
        assert [len(crm.requests(f"op_{one.hex}")) for one in silent] == [1] * threads

        # And every thread works on: as many again are at the provider at the same moment
        with crew.engine.begin() as connection:
            connection.execute(text("delete from acuse.account where provider = 'crm'"))
        good = [crew.stage(LogNote(case=f"good-{n}", text="good"), tenant) for n in range(threads)]
        for one in good:
            crm.hold("before_apply", marker=f"op_{one.hex}")
        until(lambda: len(crm.wait_held()) == threads, "all threads are at the provider")
        crm.release()
        for one in good:
            crew.becomes(one, "confirmed")
        assert worker.exit_code is None, crew.fleet.tail(name)
