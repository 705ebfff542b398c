"""The steps of a worker in memory: claim, give back, dispatch, settle; and the rounds of the recover loop."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from acuse.protocol import Basis, RetryContract, State, key_usable_until
from acuse.store.claim import MOST_HANDOVERS, Claimed
from acuse.store.dispatch import Dispatched
from acuse.testing.memory.approval import awaited_until, charge
from acuse.testing.memory.ending import finished, tell_host
from acuse.testing.memory.gate import standing, turn
from acuse.testing.memory.row import Attempt, Operation
from acuse.testing.memory.tables import Tables

__all__ = ["claim", "dispatch", "expire_claims", "give_back", "hand_over_due", "hand_over_free", "settle"]

_GATED_AGAIN: Final = timedelta(seconds=30)
_GONE: Final = {
    "workflow_cancelled": "cancelled",
    "flow_withdrawn": "cancelled",
    "dependency_rejected": "dependency_rejected",
    "expired": "expired",
}
_WAITING: Final = {"dependency_waiting": "dependency", "ordering_waiting": "ordering", "approval_pending": "approval"}
_AT_ONCE: Final = ("claim_too_short", "stale_verdict")


def claim(tables: Tables, operation: UUID, lease: timedelta) -> Claimed | None:
    """Take the right to work on it, if it is pending, due and free."""
    one, now = tables.operations[operation], tables.now
    free = one.claim_until is None or one.claim_until < now
    if one.state not in (State.PREPARED, State.UNKNOWN) or one.held is not None or not free:
        return None
    # What waits for an approval is due when that expires; whoever decides before wakes it.
    if one.due_at is not None and one.due_at > now and one.waiting != "approval":
        return None
    parked = one.handovers >= MOST_HANDOVERS
    one.change(
        now,
        fence=one.fence + 1,
        handovers=one.handovers + 1,
        claim_until=None if parked else now + lease,
        handed_at=None,
        due_at=None,
        waiting=None,
        put_off=None,
        held=f"parked: handed over {one.handovers} times without progress" if parked else None,
    )
    return None if parked else _claimed(one)


def _claimed(one: Operation) -> Claimed:
    return Claimed(
        id=one.id,
        fence=one.fence,
        version=one.version,
        state=one.state,
        tenant=one.tenant,
        action=one.action,
        provider=one.provider,
        account=one.account,
        target=one.target,
        digest=one.digest,
        body=one.body,
        trace_context=one.trace,
        attempts=len(one.attempts),
        pin={} if one.attempts else None,
        doubts=one.doubts,
        handovers=one.handovers,
    )


def give_back(tables: Tables, claimed: Claimed) -> None:
    """End a claim before anything left: it may be taken again at once."""
    one = tables.operations[claimed.id]
    if one.fence == claimed.fence and one.state in (State.PREPARED, State.UNKNOWN) and one.claim_until is not None:
        one.change(tables.now, claim_until=None, due_at=tables.now, waiting=None, held=None, put_off=None, handovers=0)


def dispatch(tables: Tables, claimed: Claimed, contract: RetryContract, basis: Basis | None, version: int) -> Dispatched:
    """Move it to dispatching and write its attempt, or say what stood in the way."""
    one, now = tables.operations[claimed.id], tables.now
    if one.fence != claimed.fence:
        return Dispatched("fenced", 0, 0, None, one.version, one.state)
    if one.state not in (State.PREPARED, State.UNKNOWN) or one.claim_until is None:
        return Dispatched("moved", 0, 0, None, one.version, one.state)
    rest = _account_rests(tables, one)
    gate = (
        _stale(one, contract, basis, version, now)
        or standing(tables, one, now)
        or (turn(tables, one) if one.state is State.PREPARED else None)
        or ("account_paused" if rest else None)
    )
    if gate is not None:
        _not_dispatched(tables, one, gate, rest)
        return Dispatched(gate, 0, 0, None, one.version, one.state)
    source = one.state
    charge(tables, one)
    first = one.first_sent_at or now
    one.change(
        now,
        state=State.DISPATCHING,
        charged=one.charged or one.approval_id is not None,
        doubts=one.doubts + 1,
        first_sent_at=first,
        retry_until=one.retry_until or key_usable_until(contract, first),
        risk_accepted_at=None,
        put_off=None,
        handovers=0,
    )
    how = "first" if basis is None else basis.value
    number = len(one.attempts) + 1
    one.attempts.append(Attempt(number, one.fence, how, contract.version, now, contract.deadline.total_seconds()))
    one.note("dispatched", source, "worker", reason=how, fence=one.fence, attempt=number)
    return Dispatched("open", number, one.doubts - 1, now, one.version, one.state)


def _stale(one: Operation, contract: RetryContract, basis: Basis | None, version: int, now: datetime) -> str | None:
    assert one.claim_until is not None
    if one.claim_until < now + contract.deadline:
        return "claim_too_short"
    if (one.state is State.PREPARED) is not (basis is None):
        return "stale_verdict"
    if one.state is State.PREPARED:
        return None
    if one.version != version:
        return "stale_verdict"
    if basis is Basis.SAME_KEY and (one.retry_until is None or one.retry_until < now):
        return "window_closed"
    return "stale_verdict" if basis is Basis.ACCEPTED_RISK and one.risk_accepted_at is None else None


def _account_rests(tables: Tables, one: Operation) -> datetime | None:
    until = tables.paused_until.get((one.provider, one.account))
    return until if until is not None and until > tables.now else None


def _not_dispatched(tables: Tables, one: Operation, gate: str, rest: datetime | None) -> None:
    now, put_off = tables.now, "account_paused" if gate == "account_paused" else None
    if one.state is State.UNKNOWN:
        # In doubt already: a gate never settles a doubt. Decide again, with the standing as it is now.
        at_once = gate in ("stale_verdict", "window_closed", "claim_too_short")
        due = now if at_once else (rest if put_off else None) or now + _GATED_AGAIN
        one.change(now, claim_until=None, handovers=0, put_off=put_off, due_at=due)
        return
    pending = gate == "approval_pending"
    code = "approval_gone" if gate.startswith("approval") and not pending else _GONE.get(gate)
    if code is not None:
        one.change(now, state=State.REJECTED, outcome_code=code, reason=gate, claim_until=None, settled_at=now)
        one.note("gated", State.PREPARED, "worker", reason=gate, outcome_code=code, fence=one.fence)
        finished(tables, one)
        return
    one.change(
        now,
        claim_until=None,
        handovers=0,
        put_off=put_off,
        waiting=_WAITING.get(gate),
        held="what it depends on does not exist in this tenant" if gate == "dependency_missing" else None,
        due_at=rest if put_off else awaited_until(tables, one) if pending else now if gate in _AT_ONCE else None,
    )


def settle(
    tables: Tables, claimed: Claimed, dispatched: Dispatched, values: Mapping[str, Any], due: timedelta, pause: timedelta | None
) -> None:
    """Save an outcome; `values` are those of `outcome_values`. Nobody takes the claim away meanwhile, so that none comes late."""
    one, now = tables.operations[claimed.id], tables.now
    assert one.fence == claimed.fence and one.state is State.DISPATCHING  # noqa: PT018 - one fact
    receipt, state = values["receipt"], State(values["status"])
    attempt = one.attempts[dispatched.attempt - 1]
    doubts = one.doubts - (attempt.doubtful and values["outcome"] != "ambiguous")
    attempt.settled_at, attempt.outcome, attempt.reason = now, values["outcome"], values["reason"]
    attempt.needs_review, attempt.doubtful = values["review"], values["outcome"] == "ambiguous"
    for name in ("provider_request_id", "result_id", "result_version"):
        setattr(attempt, name, receipt.get(name))
    confirmed = state is State.CONFIRMED
    one.change(
        now,
        state=state,
        doubts=0 if state.final else doubts,
        first_sent_at=None if state is State.PREPARED else one.first_sent_at,
        retry_until=None if state is State.PREPARED else one.retry_until,
        outcome_code=str(values["code"]),
        reason=values["reason"],
        provider_request_id=receipt.get("provider_request_id") or one.provider_request_id,
        result_id=(one.result_id or receipt.get("result_id")) if confirmed else one.result_id,
        result_version=(one.result_version or receipt.get("result_version")) if confirmed else one.result_version,
        evidence_at=(one.evidence_at or now) if confirmed else one.evidence_at,
        settled_at=now if state.final else None,
        claim_until=None,
        handed_at=None if state.final else one.handed_at,
        waiting=None if state.final else one.waiting,
        held=None if state.final else one.held,
        due_at=None if state.final else now + due,
    )
    more = {"outcome_code": str(values["code"]), "fence": one.fence, "attempt": attempt.number}
    one.note("settled", State.DISPATCHING, "worker", reason=values["reason"], **more)
    if state.final:
        finished(tables, one)
    elif values["outcome"] == "ambiguous" and one.doubts == 1:
        tell_host(tables, one)  # the doubt, in the host's own code
    if pause is not None:
        account = (one.provider, one.account)
        tables.paused_until[account] = max(tables.paused_until.get(account, now), now + pause)


def expire_claims(tables: Tables) -> None:
    """End claims whose time is over: on dispatching it becomes unknown, on anything else the claim just ends."""
    for one in tables.operations.values():
        if one.claim_until is None or one.claim_until >= tables.now:
            continue
        source = one.state
        one.change(tables.now, claim_until=None, handed_at=tables.now)
        if source is State.DISPATCHING:
            one.state, one.outcome_code = State.UNKNOWN, "claim_expired"
            one.reason = "the worker did not come back: it may have been sent"
            more = {"outcome_code": "claim_expired", "fence": one.fence, "attempt": len(one.attempts)}
            one.note("expired", source, "recover", reason=one.reason, **more)
            if one.doubts == 1:
                tell_host(tables, one)
        tables.want([one.id])


def hand_over_due(tables: Tables) -> None:
    """Hand over what wants work from now on."""
    for one in tables.operations.values():
        if one.due_at is not None and one.due_at <= tables.now and one.claim_until is None:
            one.change(tables.now, due_at=None, waiting=None, handed_at=tables.now)
            tables.want([one.id])


def hand_over_free(tables: Tables) -> None:
    """Hand over what waits for nothing any more."""
    for one in tables.operations.values():
        if one.waiting is None:
            continue
        gone = standing(tables, one, tables.now)
        free = turn(tables, one) in (None, "dependency_rejected", "dependency_missing") or gone is not None
        if free and not (one.waiting == "approval" and gone == "approval_pending"):
            one.change(tables.now, waiting=None, due_at=None, handed_at=tables.now)
            tables.want([one.id])
