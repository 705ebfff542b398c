"""What people read about an operation. Pure."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acuse import OperationRecord, Receipt, State

NOW = datetime(2026, 11, 30, 10, 53, tzinfo=UTC)
PLAIN = OperationRecord(
    operation_id="op_1", tenant="acme", state=State.PREPARED, version=1, read_at=NOW, event_id=None, workflow="w",
    flow_version=None, call="t", effect_key="k", generation=0, succeeds=None, compensates=None, action="ticket.create.v1",
    provider="ticket", account="default", target="case-318", digest="00", approval_id=None, ordering_key=None, not_after=None,
    distinct=False, value=None, on_settled=None, trace=None, outcome_code=None, reason=None, doubts=0, attempts=0, fence=0,
    first_sent_at=None, retry_until=None, handed_at=NOW, claim_until=None, due_at=None, waiting=None, held=None, handovers=0,
    waits_for=(), provider_request_id=None, result_id=None, result_version=None, evidence_at=None, delivery_status=None,
    created_at=NOW, updated_at=NOW, settled_at=None,
)  # fmt: skip
SENT = {"attempts": 2, "doubts": 1, "first_sent_at": NOW - timedelta(minutes=12)}
UNKNOWN = {"state": State.UNKNOWN, "reason": "the connection closed.", **SENT}


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({}, "Nothing was sent yet."),
        ({"reason": "the account is paused"}, "Nothing was sent yet: the account is paused."),
        ({"waiting": "ordering"}, "Nothing was sent: it waits for others."),
        ({"waiting": "approval"}, "Nothing was sent: it waits for its approval."),
        ({"attempts": 1, "reason": "429"}, "Sent once, and it is certain that nothing came of it: 429."),
        ({"state": State.DISPATCHING, **SENT}, "Attempt 2 was sent at 2026-11-30 10:53:00 UTC and has not come back yet."),
        (UNKNOWN, "Sent 2 times, first at 2026-11-30 10:41:00 UTC; it may or may not have happened. The connection closed."),
        (
            UNKNOWN | {"attempts": 1, "reason": None},
            "Sent once at 2026-11-30 10:41:00 UTC; it may or may not have happened.",
        ),
        ({"state": State.UNKNOWN, "doubts": 1, "first_sent_at": NOW}, "It may have been sent, but no attempt is on record."),
        ({"state": State.CONFIRMED, "result_id": "T-81"}, "It happened: T-81 at the provider."),
        (
            {"state": State.CONFIRMED, "result_id": "T-81", "outcome_code": "operator", "reason": "seen"},
            "A person confirmed it as T-81 at the provider: seen.",
        ),
        (
            {"state": State.REJECTED, "outcome_code": "expired", "reason": "expired"},
            "The time in not_after had passed before it was sent.",
        ),
        (
            {"state": State.REJECTED, "outcome_code": "approval_gone", "reason": "approval_expired"},
            "Its approval was gone before it was sent: the approval had expired.",
        ),
        (
            {"state": State.REJECTED, "outcome_code": "approval_gone", "reason": "approval_denied"},
            "Its approval was gone before it was sent: the approval was denied.",
        ),
        (
            {"state": State.REJECTED, "outcome_code": "E42", "reason": "no such user"},
            "The provider refused it (E42): no such user.",
        ),
        ({"state": State.REJECTED}, "It was refused."),
    ],
)
def test_why_it_is_where_it_is(facts: dict[str, Any], sentence: str) -> None:
    assert replace(PLAIN, **facts).why == sentence


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({}, "It is sent as soon as a worker is free."),
        ({"due_at": NOW + timedelta(hours=1)}, "It is sent from 2026-11-30 11:53:00 UTC on."),
        ({"due_at": NOW - timedelta(hours=1)}, "It is sent as soon as a worker is free."),
        (
            {"due_at": NOW + timedelta(minutes=1), "put_off": "account_paused"},
            "The account ticket/default is paused. It is sent from 2026-11-30 10:54:00 UTC on, if the account takes it then.",
        ),
        (
            {"due_at": NOW + timedelta(minutes=1), "put_off": "breaker_open"},
            (
                "The provider does not answer for ticket/default, so nothing is sent there but a probe now and then. "
                "It is sent from 2026-11-30 10:54:00 UTC on, if its provider answers again by then."
            ),
        ),
        (
            UNKNOWN | {"due_at": NOW + timedelta(minutes=1), "put_off": "account_busy"},
            (
                "The account ticket/default takes no more calls at this moment: it is at its limit. "
                "It is looked for, or repeated where that is safe, from 2026-11-30 10:54:00 UTC on."
            ),
        ),
        ({"due_at": NOW, "put_off": "breaker_open"}, "It is sent as soon as a worker is free."),
        ({"claim_until": NOW + timedelta(seconds=30)}, "A worker has it until 2026-11-30 10:53:30 UTC."),
        ({"claim_until": NOW - timedelta(seconds=30)}, "It is sent as soon as a worker is free."),
        (
            {"waiting": "ordering", "ordering_key": "case-318"},
            "It is sent when earlier operations with the ordering key case-318 are settled.",
        ),
        ({"waiting": "dependency", "waits_for": ("op_2", "op_3")}, "It is sent when op_2 and op_3 are confirmed."),
        ({"waiting": "dependency"}, "What it waited for is settled; it is sent shortly."),
        ({"waiting": "approval", "approval_id": "apr_1"}, "It is sent when a person grants apr_1."),
        (
            {"waiting": "approval", "approval_id": "apr_1", "due_at": NOW},
            "It is sent when a person grants apr_1, and rejected if nobody has decided by 2026-11-30 10:53:00 UTC.",
        ),
        ({"held": "parked: handed over 20 times"}, "A person has to decide: parked: handed over 20 times."),
        (
            {"state": State.DISPATCHING, "claim_until": NOW},
            (
                "The worker settles it by 2026-11-30 10:53:00 UTC; "
                "if it does not come back, the operation becomes unknown and is looked for."
            ),
        ),
        (
            UNKNOWN | {"due_at": NOW + timedelta(minutes=2), "retry_until": NOW + timedelta(hours=1)},
            (
                "It is looked for, or repeated where that is safe, from 2026-11-30 10:55:00 UTC on. "
                "A repeat with the same key is safe until 2026-11-30 11:53:00 UTC."
            ),
        ),
        (
            UNKNOWN | {"held": "Not found, and the search may lag.", "retry_until": NOW - timedelta(hours=1)},
            (
                "A person has to decide: Not found, and the search may lag. "
                "The time in which a repeat was safe ended at 2026-11-30 09:53:00 UTC."
            ),
        ),
        # What the verdict has said already is not said again
        (UNKNOWN | {"held": "the connection closed."}, "A person has to decide."),
        (
            UNKNOWN | {"held": "Safe until 2026-11-30 11:53:00 UTC", "retry_until": NOW + timedelta(hours=1)},
            "A person has to decide: Safe until 2026-11-30 11:53:00 UTC.",
        ),
        ({"state": State.CONFIRMED, "result_id": "R"}, "Nothing: it is settled."),
    ],
)
def test_what_happens_next(facts: dict[str, Any], sentence: str) -> None:
    assert replace(PLAIN, **facts).what_next == sentence


@pytest.mark.parametrize("state", list(State))
def test_only_a_confirmed_operation_has_a_receipt(state: State) -> None:
    record = replace(PLAIN, state=state, result_id="R-1", result_version="7", provider_request_id="q")
    assert record.receipt == (Receipt("R-1", "7", "q") if state is State.CONFIRMED else None)
