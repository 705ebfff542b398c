"""When nobody disturbs any more, everything comes to its end, or says truly what it waits for."""

from stateful.carrying import Carrying
from stateful.gate import turn
from stateful.people import People
from stateful.provider import How, See
from stateful.snapshot import Operation
from stateful.weather import Weather

__all__ = ["Rest"]

_SHORT, _LONG = 2, 20
"""Ticks between rounds: at first within the windows of keys, then longer than any wait."""

_MOST_ROUNDS = 25


class Rest(Weather, Carrying, People):
    """A good day: no accidents, honest answers, time enough."""

    def come_to_rest(self) -> None:
        """All workers die, the broker loses everything, people resume what they paused; then nothing goes wrong any more."""
        self.hands.clear()
        self.take_outbox()
        for provider, account in self.look().paused:
            self.resume_account(provider, account)
        for number in range(_MOST_ROUNDS):
            if all(self._rests(one) for one in self.seen.pending):
                break
            self._round(_SHORT if number < 3 else _LONG)
        for one in self.seen.pending:
            assert self._rests(one), f"{one} never came to rest"
        self._everybody_was_told()

    def _rests(self, one: Operation) -> bool:
        return one.held is not None or (one.waiting is not None and turn(self.seen, one) == f"{one.waiting}_waiting")

    def _round(self, ticks: int) -> None:
        self.pass_time(ticks)
        self.look()
        self.recover_all()
        self.broker = self.take_outbox()
        for hand in self.take(self.broker):
            while hand in self.hands:
                self.advance(hand, How.APPLY, hears=True, see=See.TRUTH)
        self.look()

    def _everybody_was_told(self) -> None:
        self.take_outbox()
        for one in (one for one in self.seen.operations.values() if one.final):
            ends = [told for told in self.told if told["operation_id"] == f"op_{one.id.hex}" and told["state"] == one.status]
            wanted = int(one.on_settled is not None)
            assert len(ends) == wanted, f"the host was told {len(ends)} times how {one} ended"
