"""Rules of workers: claim, dispatch, send, settle, look up, judge; in any order, too late, twice, with what is stale."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from acuse.protocol import Accepted, Ambiguous, Concerns, Confirm, NotSent, Outcome, Refused, Retry, decide, settlement
from acuse.store.claim import defer
from acuse.store.dispatch import dispatch
from acuse.store.evidence import apply_verdict, record, view
from acuse.store.settle import settle
from stateful.base import Base, pick
from stateful.contracts import LEASE, SHORT_LEASE
from stateful.gate import reasons
from stateful.hand import Hand
from stateful.provider import How, Request, See, end_of
from stateful.snapshot import Operation
from stateful.staging import WHICH

__all__ = ["HOW", "SEE", "Carrying"]

HOW = st.sampled_from(tuple(How))
SEE = st.sampled_from((See.TRUTH, See.NOTHING, See.LAG, See.RECORD))
HEARS = st.booleans()
_UNTIL = st.sampled_from(("send", "dispatch", "claim"))
_STANDS = st.sampled_from(("send", "send", "claim"))
_MEANWHILE = st.sampled_from(("look", "dispatch", "claim", "settle"))
_SAID = st.sampled_from((How.BUSY, How.HOLD, How.REFUSE, How.APPLY, How.REFUSE_KEY, How.FAULT))
_THEN = st.sampled_from((How.HOLD, How.VANISH, How.APPLY, How.REFUSE, How.BUSY))
_BLIND = st.sampled_from((See.NOTHING, See.TRUTH))
_PAUSE = timedelta(seconds=150)


class Carrying(Base):
    """What workers do."""

    @precondition(lambda self: self._free())
    @rule(which=WHICH, how=HOW)
    def carry_out(self, which: int, how: How) -> None:
        """A worker that got a hint, true or forged, and hears whatever is answered."""
        for hand in self._hinted(which):
            self._carry(hand, how)

    @precondition(lambda self: self._free())
    @rule(which=WHICH, how=HOW)
    def carry_out_and_hear_nothing(self, which: int, how: How) -> None:
        for hand in self._hinted(which):
            self._carry(hand, how, hears=False)

    @precondition(lambda self: self._free())
    @rule(which=WHICH, until=_UNTIL, how=HOW, ticks=st.sampled_from((3, 1)))
    def carry_out_and_die(self, which: int, until: str, how: How, ticks: int) -> None:
        for hand in self._hinted(which):
            self._carry(hand, how, until=until)
            if hand in self.hands:
                self.hands.remove(hand)
                self.pass_time(ticks)

    @precondition(lambda self: self._free())
    @rule(which=WHICH, until=_UNTIL, how=HOW, see=SEE, lease=st.sampled_from((LEASE, LEASE, SHORT_LEASE)))
    def begin_to_carry_out(self, which: int, until: str, how: How, see: See, lease: timedelta) -> None:
        """One that is slow, and goes on later, if at all."""
        for hand in self._hinted(which, lease=lease):
            self._carry(hand, how, until=until, see=see)

    @precondition(lambda self: self._free())
    @rule(which=WHICH, how=_SAID, then=_THEN, see=_BLIND)
    def hear_an_answer_late(self, which: int, how: How, then: How, see: See) -> None:
        """A worker stands still until its claim is over and another has tried; only then it saves what it was answered."""
        self._come_back_late(which, "send", how, 3, "settle", then, see, slow=False)

    @precondition(lambda self: self._free())
    @rule(
        which=WHICH,
        stands=_STANDS,
        how=_SAID,
        ticks=st.sampled_from((3, 4)),
        meanwhile=_MEANWHILE,
        then=_THEN,
        see=_BLIND,
        slow=st.booleans(),
    )
    def come_back_late(
        self, which: int, stands: str, how: How, ticks: int, meanwhile: str, then: How, see: See, slow: bool
    ) -> None:
        """A worker stands still until its claim is over; another came as far as `meanwhile` then, and goes on after it."""
        self._come_back_late(which, stands, how, ticks, meanwhile, then, see, slow=slow)

    def _come_back_late(
        self, which: int, stands: str, how: How, ticks: int, meanwhile: str, then: How, see: See, *, slow: bool
    ) -> None:
        for hand in self._hinted(which):
            self._carry(hand, how, until=stands)
            if hand not in self.hands:
                return
            self.pass_time(ticks)
            self.recover_all()
            self.look()
            others = self.take([hand.id])
            for other in others:
                self._carry(other, then, until=meanwhile, see=see)
            self._carry(hand, how)
            if slow:
                self.pass_time(1)
            for other in others:
                self._carry(other, then, see=see)

    @precondition(lambda self: any(one.status == "unknown" for one in self._free()))
    @rule(which=WHICH, ticks=st.sampled_from((1, 2, 4, 0, 8)), slow=st.booleans(), how=HOW, hears=HEARS, see=SEE)
    def carry_what_is_in_doubt(self, which: int, ticks: int, slow: bool, how: How, hears: bool, see: See) -> None:
        """A look, a verdict, and what follows of it: at once, or a tick later, when it may not be true any more."""
        one = pick(which, [one for one in self._free() if one.status == "unknown"])
        if ticks:
            self.pass_time(ticks)
        for hand in self.take([one.id]):
            self._carry(hand, how, until="look", see=see)
            if slow:
                self.pass_time(1)
            self._carry(hand, how, hears=hears, see=see)

    def _free(self) -> list[Operation]:
        return [one for one in self.seen.pending if one.status != "dispatching" and one.held is None]

    def _hinted(self, which: int, lease: timedelta = LEASE) -> list[Hand]:
        one, now = pick(which, self._free()), self.seen.now
        hands = self.take([one.id], lease=lease)
        mine = (one.claim_until is None or one.claim_until < now) and (one.due_at is None or one.due_at <= now)
        assert bool(hands) is mine, f"{one} was claimed: {hands}"
        return hands

    def _carry(self, hand: Hand, how: How, *, until: str = "", hears: bool = True, see: See = See.TRUTH) -> None:
        done = "claim"
        while hand in self.hands and done != (until or "no step"):
            done = hand.next
            self.advance(hand, how, hears=hears, see=see)

    @precondition(lambda self: self.broker)
    @rule(count=st.integers(1, 4), carries=st.booleans(), how=HOW, hears=HEARS)
    def take_a_message(self, count: int, carries: bool, how: How, hears: bool) -> None:
        ids, self.broker = self.broker[:count], self.broker[count:]
        for hand in self.take(ids):
            if carries:
                self._carry(hand, how, hears=hears)

    @precondition(lambda self: self.hands)
    @rule(which=WHICH, how=HOW, hears=HEARS, see=SEE)
    def go_on(self, which: int, how: How, hears: bool, see: See) -> None:
        self.advance(pick(which, self.hands), how, hears=hears, see=see)

    @precondition(lambda self: self.hands)
    @rule(which=WHICH)
    def die(self, which: int) -> None:
        """A worker is gone with everything that it had in its hands."""
        self.hands.remove(pick(which, self.hands))

    @precondition(lambda self: any(hand.next in ("dispatch", "look") for hand in self.hands))
    @rule(which=WHICH, held=st.booleans())
    def give_back(self, which: int, held: bool) -> None:
        hand = pick(which, [hand for hand in self.hands if hand.next in ("dispatch", "look")])
        before = self.look().operations[hand.id]
        lives = before.fence == hand.claimed.fence and before.claim_until is not None and before.status in ("prepared", "unknown")
        due = None if held else timedelta(seconds=50)
        given = self.do(lambda c: defer(c, hand.claimed, due=due, held="its payload is gone" if held else None))
        assert given is lives
        self._rest(hand)

    @precondition(lambda self: any(hand.next == "dispatch" for hand in self.hands))
    @rule(which=WHICH)
    def dispatch_with_what_is_stale(self, which: int) -> None:
        """An old verdict, where there is one to go on with; else an old token."""
        judged = [hand for hand in self.hands if isinstance(hand.verdict, Retry) and hand.next == "dispatch"]
        if judged:
            hand = pick(which, judged)
            assert hand.view is not None
            hand.view = replace(hand.view, version=hand.view.version - 1)
            self._dispatch(hand)
            return
        hand = pick(which, self.hands)
        before = self.look().operations[hand.id]
        stale = replace(hand.claimed, fence=hand.claimed.fence - 1)
        answer = self.do(lambda c: dispatch(c, stale, hand.contract, key="stale", pin={}))
        assert answer.gate == "fenced" or before.fence == stale.fence
        assert self.look().operations[hand.id] == before or before.fence == stale.fence

    @precondition(lambda self: any(hand.settled for hand in self.idle))
    @rule(which=WHICH, hears=HEARS)
    def settle_twice(self, which: int, hears: bool) -> None:
        """The reply to a COMMIT was lost, and the worker says the same again, once."""
        hand = pick(which, [hand for hand in self.idle if hand.settled])
        self._settle(hand, hears=hears, due=timedelta(0))
        self.idle.clear()

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
