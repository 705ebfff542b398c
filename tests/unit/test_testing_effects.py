"""What a run of effects in memory makes of operations: behaviours, doubts, waiting, time, and the host's own actors."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from acuse import Action, Approvals, ConfigurationError, Effect, State
from acuse.protocol import Ambiguous, NotSent, Refused
from acuse.testing import (
    ASSUMED,
    MemoryOutbox,
    accepted,
    always,
    found_different,
    found_twice,
    hangs,
    key_conflict,
    lagging,
    locked_out,
    lost_reply,
    not_sent,
    rate_limited,
    refused,
    refused_unheard,
    vanished,
)
from acuse.testing.behaviour import Behaviour
from acuse_adapters.crm.adapter import CrmAdapter

MINUTES = timedelta(minutes=1)
ANY: Any = object()


class CreateTicket(Action, name="ticket.create.v1", target="case"):
    case: str


@pytest.fixture
def outbox() -> MemoryOutbox:
    return MemoryOutbox()


def test_a_dependant_waits_for_an_unknown_and_goes_when_it_is_confirmed(outbox: MemoryOutbox) -> None:
    ticket = outbox.stage(ANY, CreateTicket(case="c"), effect_key="1")
    outbox.stage(ANY, Effect("email.send.v1", "c", {}), effect_key="2", after=ticket)

    outbox.run_effects({CreateTicket: lost_reply, "email.send.v1": accepted})

    assert outbox.only("email.send.v1").state == "prepared"
    assert (outbox.only(CreateTicket).state, outbox.only(CreateTicket).doubts) == (State.UNKNOWN, 1)
    outbox.run_effects(during=timedelta(seconds=2))
    assert {it.state for it in outbox.staged()} == {State.CONFIRMED}


@pytest.mark.parametrize(
    ("met", "at_once", "in_the_end", "incidents"),
    [
        (accepted, "confirmed", "confirmed", []),
        (refused, "rejected", "rejected", []),
        (refused_unheard, "unknown", "rejected", []),
        (lost_reply, "unknown", "confirmed", []),
        (lagging, "unknown", "confirmed", []),
        (vanished, "unknown", "confirmed", []),  # absent beyond every bound: sent again
        (found_twice, "unknown", "confirmed", ["duplicate_effect"]),
        (found_different, "unknown", "unknown", ["content_differs"]),
        (key_conflict, "unknown", "unknown", ["key_conflict"]),
        (not_sent, "prepared", "confirmed", []),
        (rate_limited, "prepared", "confirmed", []),
        (locked_out, "prepared", "confirmed", []),
        (hangs, "dispatching", "confirmed", []),
        (Refused("closed", "it is closed"), "rejected", "rejected", []),
        (NotSent("no route"), "prepared", "confirmed", []),
        (Ambiguous("reset"), "unknown", "confirmed", []),
    ],
    ids=repr,
)
def test_each_behaviour_leads_to_its_end(
    outbox: MemoryOutbox, met: Any, at_once: str, in_the_end: str, incidents: list[str]
) -> None:
    outbox.stage(ANY, CreateTicket(case="c"), effect_key="1")

    outbox.run_effects({CreateTicket: met})
    assert outbox.only(CreateTicket).state == at_once

    outbox.run_effects(during=30 * MINUTES)
    assert outbox.only(CreateTicket).state == in_the_end
    assert [it.kind for it in outbox.incidents] == incidents


def test_a_behaviour_is_met_once_a_list_in_turn_and_always_for_ever(outbox: MemoryOutbox) -> None:
    for name in ("once", "list", "ever"):
        outbox.stage(ANY, CreateTicket(case=name), effect_key=name)

    script = {
        (CreateTicket, "once"): not_sent,
        ("ticket.create.v1", "list"): [not_sent, not_sent, refused("closed", "it is closed")],
        (CreateTicket, "ever"): always(not_sent),
    }
    outbox.run_effects(script, during=30 * MINUTES)

    once, listed, ever = outbox.staged()
    assert (once.state, once.attempts) == (State.CONFIRMED, 2)
    assert (listed.state, listed.attempts, listed.outcome_code) == (State.REJECTED, 3, "closed")
    assert ever.state is State.PREPARED
    assert ever.attempts > 10


def test_the_contract_of_the_adapter_decides(outbox: MemoryOutbox) -> None:
    with_adapter = MemoryOutbox(contracts=[CrmAdapter])
    for one in (outbox, with_adapter):
        one.stage(ANY, Effect("crm.close_case.v1", "c", {}), effect_key="1")
        one.run_effects({"crm.close_case.v1": vanished}, during=timedelta(seconds=5))

    # An upsert whose target is unchanged is repeated at once; of a provider of which nobody says so, nothing is repeated yet
    assert (with_adapter.only("crm.close_case.v1").state, with_adapter.only("crm.close_case.v1").attempts) == ("confirmed", 2)
    assert outbox.only("crm.close_case.v1").state == "unknown"
    with_adapter.stage(ANY, Effect("crm.close_case.v1", "d", {}), effect_key="2")
    with pytest.raises(ConfigurationError, match="promises a strongly consistent look-up"):
        with_adapter.run_effects({"crm.close_case.v1": lagging})
    with pytest.raises(ConfigurationError, match="is no adapter"):
        MemoryOutbox(contracts=[object()])  # type: ignore[list-item]


def test_time_passes_when_the_test_says_so(outbox: MemoryOutbox) -> None:
    approval = Approvals().grant(outbox.session(), CreateTicket(case="approved"), by="ada", expires_in=MINUTES)
    before = outbox.now
    outbox.stage(ANY, CreateTicket(case="approved"), effect_key="1", approval=approval)
    outbox.stage(ANY, CreateTicket(case="in time"), effect_key="2", not_after=before + MINUTES)
    outbox.stage(ANY, CreateTicket(case="open"), effect_key="3")

    outbox.advance(2 * MINUTES)
    assert {it.state for it in outbox.staged()} == {State.PREPARED}
    outbox.run_effects(during=MINUTES)

    assert [(it.state, it.outcome_code) for it in outbox.staged()] == [
        ("rejected", "approval_gone"),
        ("rejected", "expired"),
        ("confirmed", "accepted"),
    ]
    assert outbox.now - before == 3 * MINUTES
    for wrong in (lambda: outbox.advance(-MINUTES), lambda: outbox.run_effects(during=-MINUTES)):
        with pytest.raises(ValueError, match="forwards"):
            wrong()


def test_the_hosts_actors_are_told_and_may_stage_more(outbox: MemoryOutbox) -> None:
    outbox.stage(ANY, CreateTicket(case="c"), effect_key="1", on_settled="host/settled")
    heard: list[tuple[str, str | None]] = []

    def settled(operation_id: str, state: str, result_id: str | None, **_: object) -> None:
        heard.append((state, result_id))
        if state == "confirmed":
            outbox.stage(ANY, Effect("email.send.v1", "c", {"ticket": result_id}), effect_key=operation_id)

    actor = SimpleNamespace(queue_name="host", actor_name="settled", fn=settled)
    outbox.run_effects({CreateTicket: lost_reply}, actors=[actor])
    outbox.run_effects(during=MINUTES, actors=[actor])

    ticket = outbox.only(CreateTicket)
    assert heard == [("unknown", None), ("confirmed", ticket.result_id)]
    assert outbox.payload(outbox.only("email.send.v1")) == {"ticket": ticket.result_id}
    assert outbox.only("email.send.v1").state == "confirmed"
    assert len({it.message_id for it in outbox.told}) == 2

    async def asynchronous(**_: object) -> None: ...

    outbox.stage(ANY, CreateTicket(case="d"), effect_key="2", on_settled="host/settled")
    with pytest.raises(TypeError, match="asynchronous"):
        outbox.run_effects(actors={"host/settled": asynchronous})
    with pytest.raises(ConfigurationError, match="is no Dramatiq actor"):
        outbox.run_effects(actors=[object()])


def test_what_is_no_behaviour_says_what_is_one(outbox: MemoryOutbox) -> None:
    outbox.stage(ANY, CreateTicket(case="c"), effect_key="1")
    for wrong in ("refused", [accepted, None], None):
        with pytest.raises(ConfigurationError, match="is no behaviour of a provider"):
            outbox.run_effects({CreateTicket: wrong})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match="names no action"):
        outbox.run_effects({7: accepted})
    with pytest.raises(TypeError, match="lost_reply cannot be told code"):
        lost_reply("code")
    assert rate_limited(retry_after=MINUTES).answer == NotSent("429", MINUTES, concerns=rate_limited.answer.concerns)  # type: ignore[union-attr]


def test_sentences_and_history_are_those_of_the_ledger(outbox: MemoryOutbox) -> None:
    outbox.stage(ANY, CreateTicket(case="c"), effect_key="1", workflow="w")
    outbox.run_effects({CreateTicket: lagging}, during=timedelta(seconds=2))

    record = outbox.only(CreateTicket)
    assert record.why.startswith("Sent once at")
    assert "not found. This search may lag, so that is no proof" in record.why
    assert record.what_next.startswith("It is looked for")
    kinds = [it.what for it in outbox.history(record) if it.kind == "transition"]
    assert kinds[:3] == ["staged", "dispatched", "settled"]
    assert ASSUMED.version in str(outbox.history(record))


def test_a_behaviour_of_ones_own_is_taken(outbox: MemoryOutbox) -> None:
    outbox.stage(ANY, CreateTicket(case="c"), effect_key="1")
    outbox.run_effects({CreateTicket: Behaviour("thrice", Ambiguous("reset"), copies=3)}, during=MINUTES)
    assert [it.detail for it in outbox.incidents] == [{"extra": 2}]
