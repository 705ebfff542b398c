"""Settling: what came back from a send is saved at once. Repeating it changes nothing."""

import json
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, text

from acuse.protocol import Accepted, NotSent, Outcome, Receipt, Refused, health, settlement
from acuse.protocol.outcome import Ambiguous
from acuse.store.claim import Claimed
from acuse.store.dispatch import Dispatched
from acuse.store.storable import storable

__all__ = ["outcome_values", "settle"]

LONGEST_REASON = 500
LONGEST_CODE = 60
LONGEST_ID = 300

_SETTLE = text(
    """
    select acuse.settle(:id, :fence, :attempt, :outcome, :status, :doubts, :covers_key, :code, :reason, :review,
                        cast(:receipt as jsonb), cast(:due as interval), cast(:pause as interval), :health)
    """
)


def settle(
    connection: Connection,
    claimed: Claimed,
    dispatched: Dispatched,
    outcome: Outcome,
    *,
    due: timedelta,
    pause: timedelta | None = None,
) -> str:
    """Save an outcome. Returns `settled`, `late` (the claim was lost: kept as evidence), `already` or `gone`.

    `due` is when to come again if the operation is not final then; `pause` stops the whole account for so long.
    """
    values = outcome_values(outcome, dispatched.earlier_doubts)
    values |= {"id": claimed.id, "fence": claimed.fence, "attempt": dispatched.attempt, "due": due, "pause": pause}
    values["receipt"] = json.dumps(values["receipt"])
    return str(connection.execute(_SETTLE, values).scalar_one())


def outcome_values(outcome: Outcome, earlier_doubts: int) -> dict[str, Any]:
    """What an outcome writes into the record of an operation with so many older attempts in doubt."""
    result = settlement(outcome, earlier_doubts)
    return {
        "outcome": _kind(outcome),
        "status": result.state.value,
        "doubts": result.doubts,
        "covers_key": isinstance(outcome, Refused) and outcome.covers_key,
        "code": storable(outcome.code, LONGEST_CODE) if isinstance(outcome, Refused) else result.outcome_code,
        "reason": _reason(outcome),
        "review": isinstance(outcome, Ambiguous) and outcome.review,
        "receipt": _receipt(outcome.receipt) if isinstance(outcome, Accepted) else {},
        "health": health(outcome),
    }


def _kind(outcome: Outcome) -> str:
    match outcome:
        case Accepted():
            return "accepted"
        case Refused():
            return "refused"
        case NotSent():
            return "not_sent"
        case Ambiguous():
            return "ambiguous"


def _reason(outcome: Outcome) -> str:
    if isinstance(outcome, Accepted):
        return (
            "the provider answered for an earlier request with this key"
            if outcome.receipt.replayed
            else "the provider accepted it"
        )
    return storable(outcome.reason, LONGEST_REASON)


def _receipt(receipt: Receipt) -> dict[str, str | None]:
    return {
        "result_id": storable(receipt.result_id, LONGEST_ID) or "-",
        "result_version": storable(receipt.result_version, LONGEST_ID),
        "provider_request_id": storable(receipt.provider_request_id, LONGEST_ID),
    }
