"""The ticketing adapter against the ticketing simulator: every fault, the key, and a search that lags."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from adapter_attempt import DEADLINE, Attempt, eventually, opened

from acuse.protocol import Absent, Accepted, Ambiguous, Concerns, Found, NotSent, Outcome, Receipt, Refused, Unavailable
from acuse_adapters.port import Adapter
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.process import SimulatorProcess
from acuse_adapters.ticketing import CommentTicket, CreateTicket
from acuse_adapters.ticketing.adapter import TicketingAdapter
from acuse_adapters.ticketing.settings import TicketSettings

ACCEPTED = {Fault.RESET_AT_QUIT, Fault.FORGET_KEY}
REFUSED = {Fault.REFUSE, Fault.REFUSE_AT_DOT}
NOT_SENT = {Fault.THROTTLE, Fault.UNAUTHORIZED, Fault.LOCKED}
TICKET = CreateTicket(reference="case-318", subject="Follow up", description="in a week — über alles", requester="ada")


def kind_of(fault: Fault) -> type[Outcome]:
    return Accepted if fault in ACCEPTED else Refused if fault in REFUSED else NotSent if fault in NOT_SENT else Ambiguous


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorProcess]:
    with SimulatorProcess("ticketing", tmp_path_factory.mktemp("ticketing")) as running:
        yield running


@pytest.fixture
def tickets(process: SimulatorProcess) -> SimulatorProcess:
    process.plan()
    process.release(disarm=True)
    return process


@pytest.fixture
async def adapter(tickets: SimulatorProcess) -> AsyncIterator[Adapter]:
    settings = TicketSettings(url=tickets.url, token="anything", deadline_seconds=DEADLINE)  # type: ignore[arg-type]
    async with opened(TicketingAdapter(settings)) as it:
        yield it


async def commented(adapter: Adapter) -> Attempt:
    opened_ticket = await Attempt(adapter, TICKET).send()
    assert isinstance(opened_ticket, Accepted)
    return Attempt(adapter, CommentTicket(ticket=opened_ticket.receipt.result_id, body="done\n\nreally"))


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("what", ["ticket", "comment"])
async def test_each_fault_is_told_apart_and_found_out(
    tickets: SimulatorProcess, adapter: Adapter, what: str, fault: Fault
) -> None:
    # Given a plan that gives this operation this fault once
    attempt = Attempt(adapter, TICKET) if what == "ticket" else await commented(adapter)
    tickets.plan(script=[{"marker": attempt.id, "faults": [fault]}], late_seconds=3600, unauthorized_seconds=0)
    # When it is sent
    outcome = await attempt.send()
    # Then the outcome says no more than is known
    assert isinstance(outcome, kind_of(fault)), outcome
    assert getattr(outcome, "account_fault", False) == (fault is Fault.UNAUTHORIZED)
    assert getattr(outcome, "retry_after", None) == (timedelta(seconds=1) if fault is Fault.THROTTLE else None)
    assert not getattr(outcome, "covers_key", False)
    # And the look-up knows what the store knows
    effects = tickets.effects(attempt.id)
    assert await attempt.look_up() == (Found(effects[0]["id"], all_ids=(effects[0]["id"],)) if effects else Absent())
    if fault is Fault.APPLY_LATE:
        tickets.advance(3601)
        eventually(lambda: tickets.effects(attempt.id))
        assert isinstance(await attempt.look_up(), Found)
    if isinstance(outcome, Accepted):
        assert outcome.receipt == Receipt(effects[0]["id"])
    if isinstance(outcome, Refused | NotSent):
        assert not effects


@pytest.mark.invariant(7)
@pytest.mark.parametrize("what", ["ticket", "comment"])
async def test_a_repeat_with_the_same_key_is_answered_with_the_first_result(
    tickets: SimulatorProcess, adapter: Adapter, what: str
) -> None:
    attempt = Attempt(adapter, TICKET) if what == "ticket" else await commented(adapter)
    tickets.plan(script=[{"marker": attempt.id, "faults": ["drop_reply"]}])
    assert isinstance(await attempt.send(), Ambiguous)
    [effect] = tickets.effects(attempt.id)
    assert await attempt.send() == Accepted(Receipt(effect["id"], replayed=True))
    assert len(tickets.effects(attempt.id)) == 1


@pytest.mark.case("R067")
async def test_a_known_key_with_another_body_goes_to_a_person(tickets: SimulatorProcess, adapter: Adapter) -> None:
    attempt = Attempt(adapter, TICKET)
    await attempt.send()
    attempt.payload = TICKET.model_copy(update={"subject": "Something else"})
    outcome = await attempt.send()
    assert isinstance(outcome, Ambiguous)
    assert outcome.review
    assert len(tickets.effects(attempt.id)) == 1
    # And the look-up sees what is different
    finding = await attempt.look_up()
    assert isinstance(finding, Found)
    assert not finding.content_matches


@pytest.mark.case("R067")
async def test_a_key_whose_first_request_still_runs_is_asked_again_later(tickets: SimulatorProcess, adapter: Adapter) -> None:
    # Given a first request that the provider still works on when our deadline ends
    attempt = Attempt(adapter, TICKET)
    tickets.hold("before_apply", marker=attempt.id)
    assert isinstance(await attempt.send(), Ambiguous)
    tickets.wait_held()
    # When it is repeated
    outcome = await attempt.send()
    # Then the repeat did nothing, and later it gets the result of the first
    assert outcome == NotSent("409: the first request with this key is still running", concerns=Concerns.OPERATION)
    tickets.release()
    eventually(lambda: tickets.effects(attempt.id))
    repeated = await attempt.send()
    assert isinstance(repeated, Accepted)
    assert repeated.receipt.replayed


async def test_a_search_that_lags_finds_nothing_and_says_no_more(tickets: SimulatorProcess, adapter: Adapter) -> None:
    attempt = Attempt(adapter, TICKET)
    tickets.plan(search_lag_seconds=600)
    await attempt.send()
    assert await attempt.look_up() == Absent()
    lookup = attempt.declared.contract.lookup
    assert lookup is not None
    assert (lookup.consistency, lookup.visible_within) == ("eventual", None)
    tickets.advance(601)
    assert isinstance(await attempt.look_up(), Found)


async def test_a_provider_that_forgets_its_key_shows_as_two_copies(tickets: SimulatorProcess, adapter: Adapter) -> None:
    attempt = Attempt(adapter, TICKET)
    tickets.plan(script=[{"marker": attempt.id, "faults": ["drop_reply", "forget_key"]}])
    await attempt.send()
    assert isinstance(await attempt.send(), Accepted)
    finding = await attempt.look_up()
    assert isinstance(finding, Found)
    assert (finding.copies, len(finding.all_ids)) == (2, 2)


async def test_a_refusal_of_a_repetition_does_not_speak_for_the_first(tickets: SimulatorProcess, adapter: Adapter) -> None:
    attempt = Attempt(adapter, TICKET)
    tickets.plan(script=[{"marker": attempt.id, "faults": ["drop_reply", "refuse_repeat"]}])
    assert isinstance(await attempt.send(), Ambiguous)
    refusal = await attempt.send()
    assert isinstance(refusal, Refused)
    assert not refusal.covers_key
    assert isinstance(await attempt.look_up(), Found)


async def test_what_is_not_there_is_refused_and_what_is_down_says_nothing(tickets: SimulatorProcess, adapter: Adapter) -> None:
    comment = Attempt(adapter, CommentTicket(ticket="T-0", body="x"))
    assert await comment.send() == Refused("404", "not_found")
    assert await comment.look_up() == Absent()
    tickets.plan(lookup_down=True)
    assert isinstance(await comment.look_up(), Unavailable)
    assert isinstance(await Attempt(adapter, TICKET).look_up(), Unavailable)


async def test_a_search_of_another_account_finds_nothing(tickets: SimulatorProcess, adapter: Adapter) -> None:
    attempt = Attempt(adapter, TICKET)
    await attempt.send()
    attempt.account = "other"
    assert await attempt.look_up() == Absent()


async def test_nothing_is_sent_twice_whatever_the_fault(tickets: SimulatorProcess, adapter: Adapter) -> None:
    attempts = [Attempt(adapter, TICKET) for _ in range(8)]
    tickets.plan(rates={"drop_reply": 0.5, "error_after_apply": 0.5})
    for attempt in attempts:
        await attempt.send()
    assert [len(tickets.requests(attempt.id)) for attempt in attempts] == [1] * 8
