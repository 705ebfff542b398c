"""Rules of workers: claim, dispatch, send, settle, look up, judge; in any order, too late, twice, with what is stale."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from acuse.protocol import Retry, Unavailable
from acuse.store.claim import defer
from acuse.store.dispatch import dispatch
from acuse.store.evidence import record
from stateful.base import pick
from stateful.contracts import LEASE, SHORT_LEASE
from stateful.hand import Hand
from stateful.provider import How, See
from stateful.snapshot import Operation
from stateful.staging import WHICH
from stateful.steps import Steps

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
_NEWS = Unavailable("delivered to somebody, for what it is worth")


class Carrying(Steps):
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

    @precondition(lambda self: self._free())
    @rule(which=WHICH, how=_THEN, ticks=st.sampled_from((4, 1, 2)), news=st.booleans(), see=_BLIND)
    def judge_what_has_changed(self, which: int, how: How, ticks: int, news: bool, see: See) -> None:
        """A doubt is looked up, and before the verdict is carried out, news come in or a tick passes."""
        for hand in self._hinted(which):
            self._carry(hand, how, hears=False)
            self.pass_time(ticks)
            self.look()
            for other in self.take([hand.id]):
                self._carry(other, how, until="look", see=see)
                if news:
                    self._hear_news(hand.id)
                else:
                    self.pass_time(1)
                self._carry(other, how)

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

    def _hear_news(self, operation: UUID) -> None:
        source, now = f"news-{self.number()}", self.look().now
        self.do(lambda c: record(c, operation, "webhook", source, 0, _NEWS, now))

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
