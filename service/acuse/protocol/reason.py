"""The sentences of a verdict: what was tried, why that is no proof, what a repeat would mean and until when it is safe."""

from datetime import UTC, datetime

from acuse.protocol.case import Case
from acuse.protocol.contract import Consistency
from acuse.protocol.finding import Absent, RefusedBefore, TargetState
from acuse.protocol.verdict import Questions

__all__ = ["clock", "looked", "no_way_out", "questions", "repeat_means", "repeat_waits", "why_no_repeat"]


def clock(at: datetime) -> str:
    """Return a moment as people read it, always in UTC: a driver may hand out the session's zone."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def questions(case: Case) -> Questions:
    """Answer the five questions."""
    contract, operation, until = case.contract, case.operation, case.key_until()
    promises = [
        f"a key in {contract.key.header}, usable until {clock(until)}" if contract.key and until else "",
        f"a {contract.lookup.consistency} look-up by {contract.lookup.by}" if contract.lookup and case.can_look else "",
        f"a natural upsert by {contract.natural_upsert.by}" if contract.natural_upsert else "",
    ]
    return Questions(
        which_operation=operation.id,
        key_or_lookup="; ".join(p for p in promises if p) or "neither",
        observable="yes, without another change" if case.can_look else "no",
        old_worker="it still holds its claim" if operation.claim_live else "its claim is over and its token is stale",
        standing=operation.standing or "approval, budget and flow version stand",
    )


def no_way_out(case: Case) -> str:
    """Return why nothing but a person can help where no look-up is possible."""
    lookup, key = case.contract.lookup, case.contract.key
    if lookup is None and key is None:
        return f"the provider offers neither a key nor a look-up. {repeat_means(case)}"
    way = "there is no look-up" if lookup is None else "the look-up needs the provider's id, which no answer gave us"
    return f"{way}. {repeat_means(case)}"


def repeat_means(case: Case) -> str:
    """Return what a repeat would risk, and until when it would be safe."""
    until, again = case.key_until(), f"A repeat means: {case.contract.again_means}"
    if case.contract.key is None:
        return again
    if until is None:
        return f"No first send is on record, so nobody knows until when the key is remembered. {again}"
    if case.now > until:
        return f"The key's window closed at {clock(until)}. {again}"
    if case.operation.standing is not None:
        return f"A repeat with the same key is safe until {clock(until)}, but {case.operation.standing}"
    return f"The key's window closes at {clock(until)}, before an earlier request has surely ended. {again}"


def repeat_waits(case: Case, why: str, at: datetime) -> str:
    """Return what is known so far, why a repeat is right, and when it goes."""
    seen = f"{looked(case)}. {why[0].upper()}{why[1:]}" if case.can_look else why
    return f"{seen}. It waits until {clock(at)}"


def why_no_repeat(case: Case) -> str:
    """Return the sentence to add while it is only looked for: why a key or an upsert is not used, or nothing."""
    if case.contract.key is not None:
        return f". {repeat_means(case)}"
    if case.contract.natural_upsert is not None and case.operation.standing is not None:
        return f". Nothing is repeated now: {case.operation.standing}"
    return ""


def looked(case: Case) -> str:
    """Return how often it was looked for, what was found, and why that is no proof."""
    lookup, reads = case.contract.lookup, len(case.findings)
    by = lookup.by if lookup else "marker"
    if not reads:
        return f"not looked up by {by} yet"
    head = f"looked up {'once' if reads == 1 else f'{reads} times'} by {by}"
    finding = case.findings[-1].finding
    if isinstance(finding, TargetState):
        return f"{head}: the target is in the wanted state but without our marker, so somebody else may have done it"
    if isinstance(finding, RefusedBefore):
        return f"{head}: the provider refused once ({finding.reason}), but another request may still be carried out"
    if not isinstance(finding, Absent):
        return f"{head}: no answer, which says nothing"
    return f"{head}: not found. {_no_proof(case, finding)}"


def _no_proof(case: Case, finding: Absent) -> str:
    latest, bound = case.findings[-1], case.readable_from()
    first_that_holds = (
        (not any(a.doubtful for a in case.attempts), "No attempt is on record that it could speak of, so that is no proof"),
        (not case.speaks(latest), "The read began before the last attempt, so that is no proof"),
        (
            case.contract.natural_upsert is not None and not finding.target_unchanged,
            "But somebody changed the target since our first send, so that is no proof",
        ),
        (case.quiet_from() is None, "Nobody states how long a request may stay in flight, so that is no proof"),
        (bound is None, "This search may lag and nobody states by how much, so that is no proof"),
        (bound is not None and latest.started_at < bound, _too_early(case, bound)),
        (True, "This search may lag, so that is no proof until a second read agrees"),
    )
    return next(sentence for holds, sentence in first_that_holds if holds)


def _too_early(case: Case, bound: datetime | None) -> str:
    lookup = case.contract.lookup
    lags = lookup is not None and lookup.consistency is Consistency.EVENTUAL
    why = "This search may lag" if lags else "The request may still be in flight"
    return "" if bound is None else f"{why}, so that is no proof before {clock(bound)}"
