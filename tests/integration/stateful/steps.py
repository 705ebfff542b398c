"""The steps of a worker: dispatch, send, settle, look up, judge; each answer is held against what must be answered."""

from dataclasses import replace
from datetime import timedelta

from acuse.protocol import Accepted, Ambiguous, Concerns, Confirm, NotSent, Outcome, Refused, Retry, decide, settlement
from acuse.store.dispatch import dispatch
from acuse.store.evidence import apply_verdict, record, view
from acuse.store.settle import settle
from stateful.base import Base
from stateful.gate import reasons
from stateful.hand import Hand
from stateful.provider import How, Request, See, end_of
from stateful.snapshot import Operation

__all__ = ["Steps"]

_PAUSE = timedelta(seconds=150)


class Steps(Base):
    """What a hand can do next."""

    def recover_all(self) -> None:
        """One round of the recover loop."""
        raise NotImplementedError

    def advance(self, hand: Hand, how: How, *, hears: bool, see: See, due: timedelta = timedelta(0)) -> None:
        """Take a hand's next step."""
        match hand.next:
            case "dispatch":
                self._dispatch(hand)
            case "send":
                self._send(hand, how)
            case "settle":
                self._settle(hand, hears=hears, due=due)
            case "look":
                self._look_up(hand, see)
            case "judge":
                self._judge(hand)

    def _dispatch(self, hand: Hand) -> None:
        seen = self.look()
        one, version = seen.operations[hand.id], hand.view.version if hand.view else hand.claimed.version
        basis = hand.verdict.basis if isinstance(hand.verdict, Retry) else None
        closed = reasons(seen, one, hand.claimed.fence, version, basis, hand.contract.deadline)
        pin = hand.claimed.pin if basis is not None else None
        pin = self.provider.pin(hand.contract, hand.place) if pin is None else pin
        hand.asked = self.clock.now
        key = f"op_{hand.id.hex}"
        answer = self.do(lambda c: dispatch(c, hand.claimed, hand.contract, key=key, pin=pin, basis=basis, version=version))
        if closed:
            assert answer.gate in closed, f"{one} was dispatched: {answer}; it should have met {closed}"
            self._rest(hand)
            after = self.look().operations[hand.id]
            assert after.status == ("rejected" if answer.state == "rejected" else one.status)
            return
        assert answer.open, f"{one} was not dispatched: {answer}; nothing stood in the way"
        assert (answer.attempt, answer.earlier_doubts) == (one.attempts + 1, one.doubts)
        hand.dispatched = answer
        hand.claimed = replace(hand.claimed, pin=pin)

    def _send(self, hand: Hand, how: How) -> None:
        assert hand.dispatched is not None
        if hand.too_late(self.clock.now):
            self._settle(hand, hears=True, due=timedelta(0))
            return
        request = Request(
            hand.id,
            hand.dispatched.attempt,
            hand.contract,
            hand.place,
            dict(hand.claimed.pin or {}),
            end_of(hand.contract, hand.asked),
        )
        hand.request = request
        self.provider.receive(request, how)

    def _settle(self, hand: Hand, *, hears: bool, due: timedelta) -> None:
        assert hand.dispatched is not None
        seen, outcome = self.look(), self._outcome(hand, hears=hears)
        before, was_doubtful = seen.operations[hand.id], seen.attempts[hand.id][hand.dispatched.attempt - 1].doubtful
        pause = _PAUSE if isinstance(outcome, NotSent) and outcome.account_fault else None
        saved = self.do(lambda c: settle(c, hand.claimed, hand.dispatched, outcome, due=due, pause=pause))  # type: ignore[arg-type]
        live = before.fence == hand.claimed.fence and before.status == "dispatching"
        assert saved == ("already" if hand.settled else "settled" if live else "late"), f"{saved}: {hand}"
        after = self.look().operations[hand.id]
        if hand.settled:
            assert after == before, "a settlement that was saved already changed something"
        elif live:
            right = settlement(outcome, before.doubts - 1)
            assert (after.status, after.doubts) == (right.state, right.doubts), f"{outcome} made {before} into {after}"
        else:
            assert after.status == self._late(before, outcome, was_doubtful), f"late, {outcome} made {before} into {after}"
        hand.settled = True
        self._rest(hand)

    def _late(self, before: Operation, outcome: Outcome, was_doubtful: bool) -> str:
        """What an outcome makes of an operation that others have gone on with: it speaks for its own attempt."""
        if isinstance(outcome, Accepted) and not before.final:
            return "confirmed"
        if before.status != "unknown" or isinstance(outcome, Ambiguous):
            return before.status
        doubts = before.doubts - was_doubtful
        if isinstance(outcome, Refused):
            return "rejected" if outcome.covers_key or doubts == 0 else "unknown"
        return "prepared" if doubts == 0 else "unknown"

    def _outcome(self, hand: Hand, *, hears: bool) -> Outcome:
        # Nothing here speaks against the provider: the breaker draws its waits by lot, and has tests of its own.
        if hand.request is None:
            return NotSent("shut down before anything was sent", concerns=Concerns.OPERATION)
        if hears and hand.request.answer is not None:
            return hand.request.answer
        return Ambiguous("no answer", concerns=Concerns.OPERATION)

    def _look_up(self, hand: Hand, see: See) -> None:
        first = self.do(lambda c: view(c, hand.id))
        assert first is not None
        lookup = hand.contract.lookup
        if lookup is not None:
            finding = self.provider.look_up(hand.id, hand.contract, hand.place, hand.claimed.pin or {}, see)
            attempt, source = first.attempts[-1].number if first.attempts else 0, f"fence-{hand.claimed.fence}"
            self.do(lambda c: record(c, hand.id, "lookup", source, attempt, finding, first.at))
        hand.view = self.do(lambda c: view(c, hand.id))
        assert hand.view is not None
        if hand.view.operation.state.final:
            self._rest(hand)
            return
        hand.verdict = decide(hand.view.operation, hand.view.attempts, hand.contract, hand.view.findings, hand.view.at)

    def _judge(self, hand: Hand) -> None:
        assert hand.view is not None and hand.verdict is not None  # noqa: PT018
        one, verdict, version = self.look().operations[hand.id], hand.verdict, hand.view.version
        applied = self.do(lambda c: apply_verdict(c, hand.id, version, verdict))
        stands = one.version == version and (one.status == "unknown" or (isinstance(verdict, Confirm) and not one.final))
        assert (applied is not None) is stands, f"{verdict} on version {version} of {one} made {applied}"
        self._rest(hand)

    def _rest(self, hand: Hand) -> None:
        if hand in self.hands:
            self.hands.remove(hand)
        self.idle.append(hand)
