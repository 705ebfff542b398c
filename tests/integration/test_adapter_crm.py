"""The CRM adapter against the CRM simulator: every fault, what the send makes of it, and what the look-up finds afterwards."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from adapter_attempt import DEADLINE, Attempt, eventually, opened

from acuse.protocol import Absent, Accepted, Ambiguous, Found, NotSent, Outcome, Receipt, Refused, TargetState, Unavailable
from acuse_adapters.crm import CloseCase, LogNote
from acuse_adapters.crm.adapter import CrmAdapter
from acuse_adapters.crm.settings import CrmSettings
from acuse_adapters.port import Adapter
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.process import SimulatorProcess

AMBIGUOUS = {
    Fault.DROP_REPLY,
    Fault.APPLY_LATE,
    Fault.STALL,
    Fault.STALL_APPLIED,
    Fault.ERROR_AFTER_APPLY,
    Fault.HALF_ANSWER,
    Fault.REFUSE_REPEAT,
    Fault.UNAVAILABLE,
    Fault.DROP_BEFORE,
}
REFUSED = {Fault.REFUSE, Fault.REFUSE_AT_DOT}
NOT_SENT = {Fault.THROTTLE, Fault.UNAUTHORIZED, Fault.LOCKED}


def kind_of(fault: Fault) -> type[Outcome]:
    return Ambiguous if fault in AMBIGUOUS else Refused if fault in REFUSED else NotSent if fault in NOT_SENT else Accepted


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorProcess]:
    with SimulatorProcess("crm", tmp_path_factory.mktemp("crm")) as running:
        yield running


@pytest.fixture
def crm(process: SimulatorProcess) -> SimulatorProcess:
    process.plan()
    process.release(disarm=True)
    return process


@pytest.fixture
async def adapter(crm: SimulatorProcess) -> AsyncIterator[Adapter]:
    settings = CrmSettings(url=crm.url, token="anything", deadline_seconds=DEADLINE)  # type: ignore[arg-type]
    async with opened(CrmAdapter(settings)) as it:
        yield it


def close(adapter: Adapter) -> Attempt:
    attempt = Attempt(adapter, CloseCase(case="to be named", resolution="onboarded"))
    attempt.payload = CloseCase(case=f"case-{attempt.id[-6:]}", resolution="onboarded")
    return attempt


def case_of(attempt: Attempt) -> str:
    assert isinstance(attempt.payload, CloseCase)
    return attempt.payload.case


async def test_a_case_is_closed_as_it_was_seen(crm: SimulatorProcess, adapter: Adapter) -> None:
    attempt = close(adapter)
    assert await attempt.send() == Accepted(Receipt(case_of(attempt), "2"))
    assert attempt.pin == {"version": "1"}
    assert await attempt.look_up() == Found(case_of(attempt), result_version="2", all_ids=(f"{case_of(attempt)}@2",))
    assert len(crm.effects(attempt.id)) == 1


@pytest.mark.parametrize("fault", list(Fault))
async def test_each_fault_of_a_close_is_told_apart_and_found_out(crm: SimulatorProcess, adapter: Adapter, fault: Fault) -> None:
    # Given a plan that gives this operation this fault once
    attempt = close(adapter)
    crm.plan(script=[{"marker": attempt.id, "faults": [fault]}], late_seconds=3600, unauthorized_seconds=0)
    # When it is sent
    outcome = await attempt.send()
    # Then the outcome says no more than is known
    assert isinstance(outcome, kind_of(fault)), outcome
    assert getattr(outcome, "account_fault", False) == (fault is Fault.UNAUTHORIZED)
    assert getattr(outcome, "retry_after", None) == (timedelta(seconds=1) if fault is Fault.THROTTLE else None)
    # And the look-up knows what the store knows
    applied = len(crm.effects(attempt.id)) == 1
    assert await attempt.look_up() == (
        Found(case_of(attempt), result_version="2", all_ids=(f"{case_of(attempt)}@2",))
        if applied
        else Absent(target_unchanged=True)
    )
    if fault is Fault.APPLY_LATE:
        assert not applied
        crm.advance(3601)
        eventually(lambda: crm.effects(attempt.id))
        assert isinstance(await attempt.look_up(), Found)
    assert len(crm.requests(attempt.id)) == 1
    if isinstance(outcome, Refused | NotSent):
        assert not applied


@pytest.mark.parametrize("fault", list(Fault))
async def test_each_fault_of_a_note_is_told_apart_and_found_out(crm: SimulatorProcess, adapter: Adapter, fault: Fault) -> None:
    attempt = Attempt(adapter, LogNote(case="case-9", text="Grüße\nund mehr"))
    crm.plan(script=[{"marker": attempt.id, "faults": [fault]}], late_seconds=3600, unauthorized_seconds=0)
    outcome = await attempt.send()
    assert isinstance(outcome, kind_of(fault)), outcome
    finding = await attempt.look_up()
    effects = crm.effects(attempt.id)
    assert finding == (Found(effects[0]["id"], result_version="1") if effects else Absent(target_unchanged=True))
    if isinstance(outcome, Accepted):
        assert outcome.receipt == Receipt(effects[0]["id"], "1")


@pytest.mark.invariant(7)
async def test_a_close_is_never_written_over_a_change_by_somebody_else(crm: SimulatorProcess, adapter: Adapter) -> None:
    # Given a case that somebody changes between our read and our write
    attempt = close(adapter)
    assert await attempt.prepare() == {"version": "1"}
    crm.change_case("main", case_of(attempt), status="open", resolution="escalated")
    # When we close what we saw
    outcome = await attempt.send()
    # Then the CRM did not carry it out, and a fresh look is taken before the next try
    assert isinstance(outcome, NotSent)
    assert outcome.reason.startswith("412")
    assert crm.effects(attempt.id) == []
    assert await attempt.look_up() == Absent(target_unchanged=False)
    assert await attempt.prepare() == {"version": "2"}
    assert isinstance(await attempt.send(), Accepted)


async def test_a_repeat_of_a_close_that_took_effect_writes_nothing(crm: SimulatorProcess, adapter: Adapter) -> None:
    attempt = close(adapter)
    crm.plan(script=[{"marker": attempt.id, "faults": ["drop_reply"]}])
    assert isinstance(await attempt.send(), Ambiguous)
    repeat = await attempt.send()
    assert isinstance(repeat, NotSent)
    assert repeat.reason.startswith("412")
    assert len(crm.effects(attempt.id)) == 1


async def test_a_provider_that_refuses_repetition_is_not_believed_about_the_first(
    crm: SimulatorProcess, adapter: Adapter
) -> None:
    attempt = close(adapter)
    crm.plan(script=[{"marker": attempt.id, "faults": ["drop_reply", "refuse_repeat"]}])
    assert isinstance(await attempt.send(), Ambiguous)
    assert isinstance(await attempt.send(), Ambiguous)
    assert isinstance(await attempt.look_up(), Found)


async def test_a_case_that_somebody_else_closed_is_no_proof_of_ours(crm: SimulatorProcess, adapter: Adapter) -> None:
    attempt = close(adapter)
    await attempt.prepare()
    crm.change_case("main", case_of(attempt), status="closed", resolution="onboarded")
    assert await attempt.look_up() == TargetState("2")
    # And a case that was closed before is closed by us all the same, so that our receipt exists
    other = close(adapter)
    crm.change_case("main", case_of(other), status="closed", resolution="onboarded")
    assert await other.send() == Accepted(Receipt(case_of(other), "3"))


async def test_a_close_with_other_content_under_our_marker_is_seen(crm: SimulatorProcess, adapter: Adapter) -> None:
    attempt = close(adapter)
    await attempt.send()
    attempt.payload = CloseCase(case=case_of(attempt), resolution="given up")
    finding = await attempt.look_up()
    assert isinstance(finding, Found)
    assert not finding.content_matches


async def test_two_closes_under_one_marker_are_counted(crm: SimulatorProcess, adapter: Adapter) -> None:
    attempt = close(adapter)
    await attempt.send()
    await attempt.prepare()
    await attempt.send()
    finding = await attempt.look_up()
    assert isinstance(finding, Found)
    assert (finding.copies, finding.all_ids) == (2, (f"{case_of(attempt)}@2", f"{case_of(attempt)}@3"))


async def test_a_case_that_is_not_there_is_refused_by_the_crm_and_by_nobody_before_it(
    crm: SimulatorProcess, adapter: Adapter
) -> None:
    attempt = Attempt(adapter, CloseCase(case="missing-1", resolution="onboarded"))
    assert await attempt.prepare() == {"version": "0"}
    assert await attempt.send() == Refused("404", "not_found")
    assert await attempt.look_up() == Absent(target_unchanged=True)
    note = Attempt(adapter, LogNote(case="missing-1", text="x"))
    assert await note.send() == Refused("404", "not_found")
    assert await note.look_up() == Absent(target_unchanged=True)


async def test_a_crm_that_cannot_be_asked_says_nothing(crm: SimulatorProcess, adapter: Adapter) -> None:
    attempt = close(adapter)
    crm.plan(lookup_down=True)
    unprepared = await attempt.prepare()
    assert isinstance(unprepared, NotSent)
    assert not unprepared.account_fault
    attempt.pin = {"version": "1"}
    assert isinstance(await attempt.look_up(), Unavailable)


async def test_accounts_and_odd_names_lead_to_the_place_that_is_meant(crm: SimulatorProcess, adapter: Adapter) -> None:
    attempt = Attempt(adapter, CloseCase(case="case/3 18?x=1#é", resolution="onboarded"), account="eu west")
    assert await attempt.send() == Accepted(Receipt("case/3 18?x=1#é", "2"))
    [effect] = crm.effects(attempt.id)
    assert (effect["account"], effect["target"]) == ("eu west", "case/3 18?x=1#é")
    with pytest.raises(ValueError, match="another place"):
        CloseCase(case="..", resolution="x")


def test_the_identity_of_a_close_contains_its_occurrence() -> None:
    assert CloseCase.declared.identity == ("case", "occurrence")
    assert CloseCase(case="case-1", resolution="x").effect().ordering_key == "case-1"
