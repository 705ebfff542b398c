"""Our side: the real functions of the protocol, between guards that stand for the database's.

What the database guards here as well: a worker settles only under its own token, a verdict is carried out only under the record
version under which it was taken, and a repeat with the same key only while now <= the end of the key's window.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import acuse.protocol as real
from acuse.protocol import (
    Absent,
    Accepted,
    Ambiguous,
    AttemptView,
    By,
    Check,
    Confirm,
    Dated,
    Finding,
    Found,
    NotSent,
    OperationView,
    Outcome,
    Receipt,
    Refused,
    RefusedBefore,
    Reject,
    Requeue,
    Retry,
    RetryContract,
    Review,
    Settlement,
    State,
    Verdict,
)
from model.world import NEVER, Action, Attempt, Look, Request, World, moment

__all__ = ["Decide", "Ledger", "Rules"]

LONGEST_CHECK = timedelta(minutes=30)


class Decide(Protocol):
    """The shape of `acuse.protocol.decide`."""

    def __call__(
        self,
        operation: OperationView,
        attempts: Sequence[AttemptView],
        contract: RetryContract,
        findings: Sequence[Dated],
        now: datetime,
    ) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules under test. A test replaces one to show that the model notices."""

    settlement: Callable[[Outcome, int], Settlement] = real.settlement
    decide: Decide = real.decide
    covers: Callable[[RetryContract, datetime, datetime], bool] = real.key_covers
    legal: Callable[[State | None, State, By], bool] = real.legal


_OUTCOMES: dict[str, Outcome] = {
    "accepted": Accepted(Receipt("T-1")),
    "refused": Refused("422", "not valid"),
    "refused_for_key": Refused("402", "card declined", covers_key=True),
    "not_sent": NotSent("429"),
    "": Ambiguous("no answer"),
}


class Ledger:
    """The operation's record and everybody who may write to it."""

    def __init__(self, contract: RetryContract, rules: Rules, *, attempts: int, reads: int, operator: bool, slow: bool) -> None:
        self.contract, self.rules = contract, rules
        self.most_attempts, self.most_reads, self.operator, self.slow = attempts, reads, operator, slow
        self.verdicts: dict[tuple[object, ...], Verdict] = {}

    def actions(self, world: World, reads: Callable[[World], set[Look]]) -> Iterator[Action]:
        """Yield everything that workers, loops, evidence and people on our side may do now."""
        match world.state:
            case State.PREPARED:
                yield from self._dispatch(world, By.WORKER, "a worker dispatches", first=True)
            case State.DISPATCHING:
                yield from self._settle(world)
            case State.UNKNOWN:
                yield from self._decide(world)
                yield from self._carry_out(world)
                if world.looking is None and len(world.findings) < self.most_reads:
                    for look in sorted(reads(world)):
                        if self.slow:
                            yield Action(f"a look-up starts and will say: {look.kind}", world._replace(looking=look))
                        else:
                            yield self._record(world, look)
            case _:
                return
        if world.looking is not None:
            yield self._record(world._replace(looking=None), world.looking)
        yield from self._late_receipts(world)

    def _dispatch(self, world: World, by: By, what: str, *, first: bool) -> Iterator[Action]:
        if len(world.attempts) >= self.most_attempts:
            return
        pinned = world.target if first or not world.requests else world.requests[-1].target
        after = world._replace(
            first_sent=world.now if world.first_sent == NEVER else world.first_sent,
            attempts=(*world.attempts, Attempt(world.now, doubtful=False)),
            requests=(*world.requests, Request("wire", pinned)),
        )
        yield self._move(world, after, State.DISPATCHING, by, f"{what} attempt {len(after.attempts)}")

    def _settle(self, world: World) -> Iterator[Action]:
        number, request = len(world.attempts), world.requests[-1]
        if request.answer:
            yield self._end(world, request.answer, By.WORKER, f"the worker reads '{request.answer}' (attempt {number})")
        yield self._end(world, "", By.WORKER, f"the worker hears nothing (attempt {number})")
        if moment(world.now) > moment(world.attempts[-1].sent) + self.contract.deadline:
            yield self._end(world, "", By.RECOVER, f"the worker died, its claim expires (attempt {number})")

    def _end(self, world: World, answer: str, by: By, what: str) -> Action:
        result = self.rules.settlement(_OUTCOMES[answer], world.doubts)
        attempts = (*world.attempts[:-1], world.attempts[-1]._replace(doubtful=result.attempt_doubtful))
        if result.doubts == 0:
            attempts = tuple(a._replace(doubtful=False) for a in attempts)
        left = (
            world.requests[-1].answer if not answer and world.requests[-1].answer == "accepted" else ""
        )  # a receipt may come late
        requests = (*world.requests[:-1], world.requests[-1]._replace(answer=left))
        first = NEVER if result.state is State.PREPARED else world.first_sent
        after = world._replace(doubts=result.doubts, attempts=attempts, requests=requests, first_sent=first)
        return self._move(world, after, result.state, by, what)

    def _decide(self, world: World) -> Iterator[Action]:
        verdict = self.verdict(world)
        match verdict:
            case Retry(basis=basis) if not world.plan:
                yield Action(f"decided: repeat ({basis})", world._replace(plan=str(basis)))
            case Requeue():
                yield self._carry_verdict(world, verdict, "")
            case _:
                return

    def _carry_out(self, world: World) -> Iterator[Action]:
        if self.operator and not world.risk_accepted:
            risky = world._replace(risk_accepted=True)
            yield from self._dispatch(risky, By.OPERATOR, "a person accepts the risk:", first=False)
        if not world.plan:
            return
        if world.plan == "same_key" and not self.rules.covers(self.contract, moment(world.first_sent), moment(world.now)):
            return
        yield from self._dispatch(world, By.WORKER, f"a worker repeats ({world.plan})", first=False)

    def _late_receipts(self, world: World) -> Iterator[Action]:
        on_wire = len(world.requests) - 1 if world.state is State.DISPATCHING else NEVER
        for number, request in enumerate(world.requests):
            if request.answer == "accepted" and number != on_wire:
                read = (*world.requests[:number], request._replace(answer=""), *world.requests[number + 1 :])
                look = Look("found", world.now, number + 1)
                yield self._record(world._replace(requests=read), look, f"the receipt of attempt {number + 1} comes late")

    def _record(self, world: World, look: Look, what: str = "") -> Action:
        # Every finding raises the record version: what was decided without it is void.
        after = world._replace(findings=(*world.findings, look), plan="")
        return self._carry_verdict(after, self.verdict(after), what or f"the look-up's '{look.kind}' is recorded")

    def _carry_verdict(self, world: World, verdict: Verdict, what: str) -> Action:
        calm = tuple(a._replace(doubtful=False) for a in world.attempts)
        match verdict:
            case Confirm():
                settled = world._replace(doubts=0, attempts=calm)
                return self._move(world, settled, State.CONFIRMED, By.EVIDENCE, f"{what} -> confirm")
            case Reject():
                settled = world._replace(doubts=0, attempts=calm)
                return self._move(world, settled, State.REJECTED, By.EVIDENCE, f"{what} -> reject")
            case Requeue():
                clean = world._replace(doubts=0, attempts=calm, first_sent=NEVER)
                return self._move(world, clean, State.PREPARED, By.RECOVER, f"{what} -> requeue")
            case _:
                return Action(f"{what} -> {type(verdict).__name__.lower()}", world)

    def _move(self, before: World, after: World, target: State, by: By, what: str) -> Action:
        problem = ""
        if not self.rules.legal(before.state, target, by):
            problem = f"illegal arrow {before.state} -> {target} by {by}"
        if target.final:  # nothing on our side moves any more: what is left of it would only multiply states
            unheard = tuple(r._replace(answer="") for r in after.requests)
            after = after._replace(looking=None, findings=(), first_sent=NEVER, applied_at=NEVER, requests=unheard)
        return Action(what, after._replace(state=target, plan=""), problem)

    def verdict(self, world: World) -> Verdict:
        """Return what the protocol decides about the operation now."""
        key = (world.state, world.doubts, world.first_sent, world.attempts, world.findings, world.now)
        known = self.verdicts.get(key)
        if known is None:
            known = self.verdicts[key] = self.rules.decide(*self.case(world), moment(world.now))
        return known

    def case(self, world: World) -> tuple[OperationView, list[AttemptView], RetryContract, list[Dated]]:
        """Return the operation as `decide` sees it."""
        first = None if world.first_sent == NEVER else moment(world.first_sent)
        attempts = [AttemptView(n, moment(a.sent), a.doubtful) for n, a in enumerate(world.attempts, 1)]
        findings = [Dated(_finding(f), moment(f.started), f.attempt) for f in world.findings]
        return OperationView("op_1", world.state, world.doubts, first), attempts, self.contract, findings

    def stuck(self, world: World) -> str:
        """Return why an unknown operation has no next step, or nothing."""
        verdict, now = self.verdict(world), moment(world.now)
        if not verdict.reason:
            return "a verdict without a reason"
        match verdict:
            case Check(at=at) if not now < at <= now + LONGEST_CHECK:
                return f"the next check at {at} is not within {LONGEST_CHECK} of {now}"
            case Retry(until=until) if until is not None and until < now:
                return "a repeat that is late already"
            case Check() | Retry() | Requeue() | Confirm() | Reject() | Review():
                return ""


def _finding(look: Look) -> Finding:
    match look.kind:
        case "found" | "differs":
            return Found("T-1", content_matches=look.kind == "found", copies=look.copies)
        case "refused":
            return RefusedBefore("422", "not valid")
        case _:
            return Absent(target_unchanged=look.kind == "unchanged")
