"""The demonstration's judge believes the stores and the business rows, and holds the ledger to them."""

from collections import Counter
from typing import Any

import pytest

from acuse_adapters.demo.judge import KIND_OF, Judgement, Told, judge
from acuse_adapters.demo.report import as_json
from acuse_adapters.demo.truth import Effects

CASE = "case-1"
ACTIONS = {kind: action for action, kind in KIND_OF.items()}


def told(kind: str, state: str = "confirmed", **given: Any) -> Told:
    values: dict[str, Any] = {
        "operation": f"op_{kind}",
        "action": ACTIONS[kind],
        "target": CASE,
        "provider": ACTIONS[kind].split(".")[0],
        "state": state,
        "attempts": 1,
        "waiting": False,
        "why": "" if state in ("confirmed", "rejected") else "it is said why",
        "next": "" if state in ("confirmed", "rejected") else "what comes next",
    }
    return Told(**values | given)


def happened(**counts: int) -> Effects:
    """One effect of each kind, but for what is given."""
    return Counter({(kind, CASE): counts.get(kind, 1) for kind in KIND_OF.values()})


def judged(effects: Effects | None = None, **states: Told) -> Judgement:
    """One closed case whose three operations are confirmed, but for what is given."""
    records = [states.get(kind, told(kind)) for kind in KIND_OF.values()]
    return judge([CASE], happened() if effects is None else effects, records)


def test_a_case_that_was_carried_out_once_is_good() -> None:
    result = judged()
    assert (result.effects, result.duplicates, result.losses, result.held, result.broken) == (3, 0, 0, [], [])
    assert result.good
    assert result.states == {("crm", "confirmed"): 1, ("email", "confirmed"): 1, ("ticket", "confirmed"): 1}


def test_each_effect_beyond_the_first_is_a_double() -> None:
    result = judged(happened(email=3, ticket=2))
    assert (result.effects, result.duplicates) == (6, 3)
    assert not result.good


def test_confirmed_and_at_no_provider_is_a_loss() -> None:
    result = judged(happened(email=0))
    assert result.losses == 1
    assert result.broken == ["email of case-1 is at no provider, and the ledger says confirmed of op_email"]
    assert not result.good


def test_a_wish_that_the_ledger_never_heard_of_is_a_loss() -> None:
    result = judge([CASE], happened(email=0), [told("case_closed"), told("ticket")])
    assert result.losses == 1
    assert result.broken == ["email of case-1 is at no provider, and the ledger has never heard of it"]


@pytest.mark.parametrize("count", [0, 1])
def test_an_unknown_that_says_why_is_held_and_breaks_nothing_whether_it_happened_or_not(count: int) -> None:
    unknown = told("ticket", "unknown")
    result = judged(happened(ticket=count), ticket=unknown)
    assert result.held == [unknown]
    assert result.good


def test_rejected_but_there_is_broken() -> None:
    result = judged(ticket=told("ticket", "rejected"))
    assert result.broken == ["op_ticket is rejected, but its effect is at the provider"]
    assert not result.good


def test_rejected_and_not_there_is_an_answer() -> None:
    assert judged(happened(ticket=0), ticket=told("ticket", "rejected")).good


@pytest.mark.parametrize(("field", "missing"), [("why", "why"), ("next", "what comes next")])
def test_an_unknown_that_leaves_a_person_in_the_dark_is_broken(field: str, missing: str) -> None:
    result = judged(ticket=told("ticket", "unknown", **{field: ""}))
    assert result.broken == [f"op_ticket is unknown and nothing says {missing}"]


def test_waiting_behind_an_unknown_is_held_and_waiting_for_nothing_is_broken() -> None:
    waits = judged(happened(email=0), email=told("email", "prepared", waiting=True))
    left = judged(happened(email=0), email=told("email", "prepared"))
    assert (waits.good, len(waits.held)) == (True, 1)
    assert left.broken == ["op_email (email.send.v1 of case-1) was left prepared: what comes next"]


def test_left_in_the_air_is_broken() -> None:
    assert not judged(ticket=told("ticket", "dispatching")).good


def test_two_operations_of_one_wish_are_broken_and_both_are_counted() -> None:
    records = [*(told(kind) for kind in KIND_OF.values()), told("email", operation="op_other")]
    result = judge([CASE], happened(), records)
    assert result.broken == ["op_email and op_other are two operations of one wish"]
    assert result.states["email", "confirmed"] == 2


def test_what_the_business_never_did_may_neither_be_staged_nor_happen() -> None:
    # Given a case whose transaction was rolled back
    effects = happened()
    effects["email", "case-2"] = 1
    assert judged(effects).broken == ["email of case-2 was never wished: the business has not closed that case"]
    staged = judge([], Counter(), [told("ticket", "rejected")])
    assert staged.broken == ["ticket of case-1 was never wished: the business has not closed that case"]


def test_the_json_has_what_a_machine_reads() -> None:
    unknown = told("ticket", "unknown", attempts=4)
    records = [told("case_closed"), told("email"), unknown]
    result = as_json(judge([CASE], happened(), records), records, 12.34, 7)
    assert result["operations"] == {"confirmed": 2, "unknown": 1}
    assert (result["effects"], result["duplicates"], result["losses"], result["broken"]) == (3, 0, 0, [])
    assert (result["seconds"], result["seed"], result["attempts"]) == (12.3, 7, 6)
    assert [one["why"] for one in result["held"]] == ["it is said why"]
