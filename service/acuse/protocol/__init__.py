"""The protocol: states, arrows, outcomes, findings, contracts and the decision. Pure; imports nothing of ours, does no I/O."""

from acuse.protocol.arrow import ARROWS, Arrow, By, arrow, legal
from acuse.protocol.backoff import backoff
from acuse.protocol.contract import (
    LONGEST_DEADLINE,
    Consistency,
    Key,
    Lookup,
    Marker,
    NaturalUpsert,
    Replays,
    RetryContract,
)
from acuse.protocol.contradiction import contradiction
from acuse.protocol.decide import AttemptView, OperationView, decide
from acuse.protocol.duration import Figure, Hours, Minutes, Seconds, measured, team, vendor
from acuse.protocol.finding import Absent, Dated, Finding, Found, RefusedBefore, TargetState, Unavailable
from acuse.protocol.outcome import (
    Accepted,
    Ambiguous,
    Concerns,
    Health,
    NotSent,
    Outcome,
    Receipt,
    Refused,
    Settlement,
    health,
    settlement,
)
from acuse.protocol.pace import FIRST_TRY, LONGEST_TRY, account_rest, come_again
from acuse.protocol.state import FINAL, State
from acuse.protocol.verdict import Basis, Check, Confirm, Questions, Reject, Requeue, Retry, Review, Verdict
from acuse.protocol.window import key_covers, key_usable_until, nothing_in_flight_from

__all__ = [
    "ARROWS",
    "FINAL",
    "FIRST_TRY",
    "LONGEST_DEADLINE",
    "LONGEST_TRY",
    "Absent",
    "Accepted",
    "Ambiguous",
    "Arrow",
    "AttemptView",
    "Basis",
    "By",
    "Check",
    "Concerns",
    "Confirm",
    "Consistency",
    "Dated",
    "Figure",
    "Finding",
    "Found",
    "Health",
    "Hours",
    "Key",
    "Lookup",
    "Marker",
    "Minutes",
    "NaturalUpsert",
    "NotSent",
    "OperationView",
    "Outcome",
    "Questions",
    "Receipt",
    "Refused",
    "RefusedBefore",
    "Reject",
    "Replays",
    "Requeue",
    "Retry",
    "RetryContract",
    "Review",
    "Seconds",
    "Settlement",
    "State",
    "TargetState",
    "Unavailable",
    "Verdict",
    "account_rest",
    "arrow",
    "backoff",
    "come_again",
    "contradiction",
    "decide",
    "health",
    "key_covers",
    "key_usable_until",
    "legal",
    "measured",
    "nothing_in_flight_from",
    "settlement",
    "team",
    "vendor",
]
