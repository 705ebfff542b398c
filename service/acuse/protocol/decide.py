"""The decision about an operation in doubt: one pure function of what is known.

`decide(operation, attempts, contract, findings, now)` answers with a verdict and its reason in words. It never acts.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from acuse.protocol.backoff import backoff
from acuse.protocol.case import AttemptView, Case, OperationView
from acuse.protocol.contract import Consistency, RetryContract
from acuse.protocol.finding import Dated, Found, RefusedBefore, Unavailable
from acuse.protocol.reason import clock, looked, no_way_out, questions, repeat_means, repeat_waits, why_no_repeat
from acuse.protocol.state import State
from acuse.protocol.verdict import Basis, Check, Confirm, Reject, Requeue, Retry, Review, Verdict
from acuse.protocol.window import key_covers

__all__ = ["AttemptView", "OperationView", "decide"]

READS_APART = timedelta(seconds=5)
"""Two reads of a lagging look-up count as two only if they started this far apart: one cache answers both otherwise."""

MOST_READS = 8
"""So many inconclusive answers after every bound has passed, then a person looks."""

LONGEST_SILENCE = timedelta(days=1)
"""A look-up that fails is no answer: the provider is away and comes back. After so long without one, a person looks."""

FIRST_LOOK = timedelta(seconds=1)
LONGEST_LOOK = timedelta(minutes=30)
FIRST_RETRY = timedelta(seconds=1)
LONGEST_RETRY = timedelta(minutes=5)


def decide(
    operation: OperationView,
    attempts: Sequence[AttemptView],
    contract: RetryContract,
    findings: Sequence[Dated],
    now: datetime,
) -> Verdict:
    """Decide what is to be done about an operation, given every finding so far in the order of their reads.

    Raises `ValueError` for an operation that is final: nothing is to be decided about it.
    """
    if operation.state.final:
        raise ValueError(f"{operation.id} is {operation.state}, which is final: nothing is to be decided")
    case = Case(operation, attempts, contract, findings, now)
    verdict = _by_evidence(case)
    if verdict is not None:
        return verdict
    if operation.state is not State.UNKNOWN:
        return Check("nothing is in doubt: the worker that holds the claim settles it", questions(case), now + FIRST_LOOK)
    return _by_absence(case) or _by_repeating(case) or _by_waiting(case)


def _by_evidence(case: Case) -> Verdict | None:
    # The latest finding that binds, not the latest finding: once something carried our marker, a later miss frees nothing.
    found = [f.finding for f in case.findings if isinstance(f.finding, Found)]
    bound = [f for f in case.findings if isinstance(f.finding, Found | RefusedBefore)]
    match bound[-1].finding if bound else None:
        case Found(content_matches=False) as differs:
            text = f"{differs.result_id} carries our marker but its content differs from what was pinned"
            return Review(text, questions(case), incident="content_differs")
        case Found() as ours:
            extra = ours.copies - 1
            text = f"{ours.result_id} carries our marker"
            text += f", and {extra} more: it happened {ours.copies} times" if extra else ""
            return Confirm(text, questions(case), ours.result_id, ours.result_version, extra)
        case RefusedBefore() as refusal if found:
            text = f"the provider says that it refused ({refusal.reason}), yet {found[-1].result_id} carries our marker"
            return Review(text, questions(case), incident="content_differs")
        case RefusedBefore() as refusal if case.operation.state is State.UNKNOWN and case.refusal_stands(bound[-1]):
            text = f"the provider's own record says that it refused: {refusal.reason}"
            return Reject(text, questions(case), "refused_before")
        case _:
            return None


def _by_absence(case: Case) -> Verdict | None:
    start, lookup = case.readable_from(), case.contract.lookup
    if start is None or lookup is None or case.latest is None or not case.absent(case.latest) or case.needs_person:
        return None
    reads = case.absences_from(start)
    if lookup.consistency is Consistency.STRONG and reads:
        return Requeue("a strongly consistent look-up found nothing, and nothing can be in flight", questions(case))
    if reads and reads[-1] - reads[0] >= READS_APART:
        return Requeue("two reads after the stated bound found nothing, and nothing can be in flight", questions(case))
    return None


def _by_repeating(case: Case) -> Verdict | None:
    operation, contract, last = case.operation, case.contract, case.last_attempt
    if operation.standing is None and operation.risk_accepted:
        return Retry("a person accepted that it may happen twice", questions(case), Basis.ACCEPTED_RISK, None)
    if operation.standing is not None or operation.first_sent_at is None or last is None or case.needs_person:
        return None
    if _upsert_is_safe(case):
        return _when_ready(case, Basis.UPSERT, last.dispatched_at, None, "the target is unchanged since before the first send")
    until = case.key_until()
    if until is None or not key_covers(contract, operation.first_sent_at, case.now):
        return None
    ready = last.dispatched_at
    if contract.key and contract.key.on_concurrent is None:
        # Nobody says what a repeat does while the first still runs: wait until it cannot.
        ready = case.quiet_from() or last.dispatched_at
    reason = f"the provider remembers the key: a repeat is safe until {clock(until)}"
    return _when_ready(case, Basis.SAME_KEY, ready, until, reason)


def _upsert_is_safe(case: Case) -> bool:
    upsert, latest = case.contract.natural_upsert, case.latest
    if upsert is None or latest is None or not case.absent(latest) or not case.speaks(latest):
        return False
    if upsert.precondition is not None:
        return True
    # The provider does not guard the target: a request that is still in flight, or a change that the look-up does not show
    # yet, would let the repeat (or the first send behind it) overwrite what somebody else wrote in between.
    start = case.readable_from()
    return start is not None and latest.started_at >= start


def _when_ready(case: Case, basis: Basis, ready: datetime, until: datetime | None, reason: str) -> Verdict | None:
    wait = backoff(len(case.attempts) - 1, first=FIRST_RETRY, longest=LONGEST_RETRY)
    at = max(ready, case.attempts[-1].dispatched_at + wait)
    if until is not None and at > until:
        at = max(ready, until)  # a shorter wait is better than a window missed
        if at > until:
            return None
    if case.now >= at:
        return Retry(reason, questions(case), basis, until)
    return Check(repeat_waits(case, reason, at), questions(case), min(at, _next_look(case)))


def _by_waiting(case: Case) -> Verdict:
    if case.needs_person:
        text = "the provider knows this key with another body, so neither a look-up nor a repeat can help"
        return Review(text, questions(case), incident="key_conflict")
    if not case.can_look:
        return Review(no_way_out(case), questions(case))
    bound = case.readable_from()
    answers = [f for f in case.findings if not isinstance(f.finding, Unavailable) and (bound is None or f.started_at >= bound)]
    silent_since = case.silent_since()
    if len(answers) >= MOST_READS or (silent_since is not None and case.now - silent_since >= LONGEST_SILENCE):
        return Review(f"{looked(case)}. {repeat_means(case)}", questions(case))
    at = _next_look(case)
    if bound is not None and case.now < bound:
        at = min(at, bound)
    return Check(f"{looked(case)}{why_no_repeat(case)}", questions(case), at)


def _next_look(case: Case) -> datetime:
    if not case.can_look:
        return case.now + LONGEST_LOOK
    return case.now + backoff(len(case.findings), first=FIRST_LOOK, longest=LONGEST_LOOK)
