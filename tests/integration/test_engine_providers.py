"""Our adapters on the engine's bench, in front of providers that did more than their answers say."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from bench import Bench
from gateway import Answer, gateway

from acuse import Outbox
from acuse.identifier import operation_id, uuid_of
from acuse.intent import Action
from acuse.protocol import State
from acuse_adapters.crm.action import CloseCase, LogNote
from acuse_adapters.crm.adapter import CrmAdapter
from acuse_adapters.crm.settings import CrmSettings
from acuse_adapters.engine import Engine
from acuse_adapters.port import Adapter
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.process import SimulatorProcess
from acuse_adapters.ticketing.action import CreateTicket
from acuse_adapters.ticketing.adapter import TicketingAdapter
from acuse_adapters.ticketing.settings import TicketSettings

IN_FLIGHT = 1.0
"""Seconds that a provider may still carry a request out after our deadline."""


@pytest.fixture(scope="module")
def ticketing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorProcess]:
    with SimulatorProcess("ticketing", tmp_path_factory.mktemp("ticketing")) as running:
        yield running


@pytest.fixture(scope="module")
def crm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorProcess]:
    with SimulatorProcess("crm", tmp_path_factory.mktemp("crm")) as running:
        yield running


@asynccontextmanager
async def worker(bench: Bench, adapter: Adapter) -> AsyncIterator[Engine]:
    """An engine with one of our adapters."""
    bench.adapter = adapter  # type: ignore[assignment]
    made = bench.another()
    await made.open()
    try:
        yield made
    finally:
        await made.stop(0)


def stage(bench: Bench, wanted: Action) -> UUID:
    with bench.sync.begin() as connection:
        key = None if type(wanted).declared.identity else uuid4().hex
        staged = Outbox().stage(connection, wanted, tenant=bench.tenant, account=bench.tenant, effect_key=key, workflow="w")
    return uuid_of(staged.operation_id, prefix="op", field="id")


def tickets_at(url: str, deadline: float) -> TicketingAdapter:
    return TicketingAdapter(
        TicketSettings(url=url, token="t", deadline_seconds=deadline, max_in_flight_seconds=IN_FLIGHT)  # type: ignore[arg-type]
    )


@pytest.mark.case("R007")
@pytest.mark.invariant(4)
async def test_of_thirteen_tickets_at_once_those_without_an_answer_are_looked_up_and_not_created_again(
    bench: Bench, ticketing: SimulatorProcess, tmp_path: Path
) -> None:
    # Given a ticketing system that creates all thirteen and leaves three without an answer
    staged = [stage(bench, CreateTicket(reference=f"case-{n}", subject="Follow up")) for n in range(13)]
    silent = staged[10:]
    ticketing.plan(script=[{"marker": operation_id(one), "faults": [Fault.STALL_APPLIED]} for one in silent], stall_seconds=1.0)
    async with worker(bench, tickets_at(ticketing.url, deadline=30.0)) as engine:
        # When they are carried out at once
        await bench.carry(*staged, engine=engine)

        # Then ten are confirmed and three are in doubt
        assert [bench.state(one) for one in staged] == [State.CONFIRMED] * 10 + [State.UNKNOWN] * 3

        # And a look at the provider finds the numbers of their tickets
        for one in silent:
            await bench.again(one, engine=engine)
        await bench.carry(*staged, engine=engine)
    for one in staged:
        [effect] = ticketing.effects(operation_id(one))
        row = bench.row(one)
        assert (row.status, row.result_id, row.attempts) == ("confirmed", effect["id"], 1)
        assert len(ticketing.requests(operation_id(one))) == 1
    assert bench.count("duplicates_prevented", engine, kind="evidence") == 3


@pytest.mark.case("R008")
@pytest.mark.invariant(7)
@pytest.mark.parametrize("provider", ["ticket", "crm"])
async def test_a_gateway_s_error_is_a_doubt_that_a_look_up_settles(
    bench: Bench, ticketing: SimulatorProcess, crm: SimulatorProcess, provider: str
) -> None:
    # Given a gateway that answers 502 and 503 for what it passed on to nobody, and 504 for what the provider carries out
    simulator = ticketing if provider == "ticket" else crm
    simulator.plan()
    statuses = (502, 503, 504)
    async with gateway(simulator.url) as front:
        adapter: Adapter = tickets_at(front.url, deadline=5.0)
        if provider == "crm":
            adapter = CrmAdapter(
                CrmSettings(url=front.url, token="t", deadline_seconds=5.0, max_in_flight_seconds=IN_FLIGHT)  # type: ignore[arg-type]
            )
        async with worker(bench, adapter) as engine:
            wanted: list[Action] = [
                CreateTicket(reference=f"case-{status}", subject="Follow up")
                if provider == "ticket"
                else LogNote(case=f"case-{status}", text="onboarded")
                for status in statuses
            ]
            staged = [stage(bench, it) for it in wanted]
            front.answers = {
                operation_id(one).encode(): Answer(status, passes_on=status == 504)
                for one, status in zip(staged, statuses, strict=True)
            }

            # When they are sent, then each is in doubt and none is rejected
            await bench.carry(*staged, engine=engine)
            assert [bench.state(one) for one in staged] == [State.UNKNOWN] * 3
            assert [front.seen(operation_id(one)) for one in staged] == [1, 1, 1]

            # And once nothing can be in the air any more, what is there is found, and what is absent is sent once more
            for one in staged:
                bench.pass_time(one, 5 + IN_FLIGHT + 1)
                await bench.again(one, engine=engine)
                if bench.state(one) is State.PREPARED:
                    await bench.carry(one, engine=engine)
    assert [bench.row(one).status for one in staged] == ["confirmed"] * 3
    assert [front.seen(operation_id(one)) for one in staged] == [2, 2, 1]
    assert [len(simulator.effects(operation_id(one))) for one in staged] == [1, 1, 1]
    by = [entry.by for one in staged for entry in bench.rows("ledger", one) if entry.to_status == "confirmed"]
    assert by == ["worker", "worker", "evidence"]


@pytest.mark.case("R068")
@pytest.mark.invariant(7)
async def test_a_conflict_that_names_no_cause_is_looked_up_by_our_id_and_creates_nothing(
    bench: Bench, ticketing: SimulatorProcess
) -> None:
    # Given a ticket whose creation was not answered, a search that does not show it yet, and a conflict for the second try
    ticketing.plan(search_lag_seconds=600)
    async with gateway(ticketing.url) as front, worker(bench, tickets_at(front.url, deadline=30.0)) as engine:
        one = stage(bench, CreateTicket(reference="case-1", subject="Follow up"))
        marker = operation_id(one)
        front.answers = {marker.encode(): Answer(504, passes_on=True)}
        await bench.carry(one, engine=engine)
        front.answers = {marker.encode(): Answer(409, passes_on=False)}
        bench.pass_time(one, 60)
        await bench.again(one, engine=engine)

        # Then it is neither confirmed nor rejected, and not tried on until it goes through
        assert (bench.state(one), bench.row(one).doubts, front.seen(marker)) == (State.UNKNOWN, 2, 2)

        # And as soon as the search shows the ticket with our id, it is confirmed under its number
        ticketing.advance(601)
        await bench.again(one, engine=engine)
    [effect] = ticketing.effects(marker)
    row = bench.row(one)
    assert (row.status, row.result_id, front.seen(marker)) == ("confirmed", effect["id"], 2)
    keys = {line for write in front.writes for line in write.split(b"\r\n") if line.lower().startswith(b"idempotency-key")}
    assert len(keys) == 1  # the adapter sends it itself, and the same each time


@pytest.mark.case("R074")
async def test_a_locked_record_is_tried_again_later_in_its_order_and_is_never_a_doubt(
    bench: Bench, crm: SimulatorProcess
) -> None:
    # Given a case that somebody else has locked three times, and more that is wanted of it behind the first
    many, locked = 8, 3
    crm.plan()
    adapter = CrmAdapter(CrmSettings(url=crm.url, token="t", deadline_seconds=30.0))  # type: ignore[arg-type]
    case = f"case-{bench.tenant}"
    staged = [stage(bench, CloseCase(case=case, resolution=f"number {n}", occurrence=n)) for n in range(many)]
    crm.plan(script=[{"marker": operation_id(staged[0]), "faults": [Fault.LOCKED] * locked}])
    async with worker(bench, adapter) as engine:
        waits = []
        for _ in range(locked):
            # When it is sent, and found locked
            await bench.carry(*staged, engine=engine)
            row = bench.row(staged[0])
            assert (row.status, row.doubts, row.first_sent_at, row.handovers) == ("prepared", 0, None, 0)
            waits.append((row.due_at - row.updated_at).total_seconds())
            bench.do(
                "update acuse.operation set due_at = null, handed_at = clock_timestamp(), version = version + 1 where id = :id",
                staged[0],
            )
        # Then it comes again later each time, and the others wait for it
        assert 0 < waits[0] < waits[1] < waits[2]
        assert {bench.row(one).attempts for one in staged[1:]} == {0}
        for one in staged:
            await bench.carry(one, engine=engine)
    assert [bench.row(one).status for one in staged] == ["confirmed"] * many
    assert [bench.row(one).attempts for one in staged] == [locked + 1] + [1] * (many - 1)
    effects = [effect["marker"] for effect in crm.effects() if effect["target"] == case]
    assert effects == [operation_id(one) for one in staged]
