"""Rules of time, the broker, the recover loop and the provider's own hours."""

from datetime import timedelta
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from sqlalchemy import text

from acuse.protocol import Confirm, Found, decide
from acuse.store.evidence import apply_verdict, record, view
from acuse.store.recover import expire_claims, hand_over_due, hand_over_free, hand_over_lost, lost_candidates
from stateful.base import Base, pick
from stateful.contracts import CONTRACTS
from stateful.staging import WHICH

__all__ = ["Weather"]

_MANY = 10_000
_TAKE = text(
    """
    delete from acuse.outbox_message
     where operation_id = any(cast(:ids as uuid[])) or message->'kwargs'->>'tenant' = any(:tenants)
    returning operation_id, message
    """
)


class Weather(Base):
    """What happens to everybody."""

    @rule(ticks=st.sampled_from((1, 2, 3, 1, 5, 8)))
    def time_passes(self, ticks: int) -> None:
        before = self.seen
        self.pass_time(ticks)
        after = self.look()
        assert {one.id: one.status for one in after.operations.values()} == {
            one.id: one.status for one in before.operations.values()
        }

    @precondition(lambda self: self.seen.outbox)
    @rule(fate=st.sampled_from(("arrive", "double", "reverse", "forge", "lose", "lose all")))
    def relay(self, fate: str) -> None:
        taken = self.take_outbox()
        match fate:
            case "arrive":
                self.broker += taken
            case "double":
                self.broker += taken + taken
            case "reverse":
                self.broker = taken[::-1] + self.broker
            case "forge":
                self.broker += [uuid4(), *self.seen.operations]
            case "lose all":
                self.broker.clear()
            case "lose":
                pass

    @precondition(lambda self: self._stirred())
    @rule()
    def recover(self) -> None:
        before = self.look()
        ended = {one.id for one in before.pending if one.claim_until is not None and one.claim_until < before.now}
        self.recover_all()
        after = self.look()
        self.recovered = self._state()
        for one in before.operations.values():
            lost = one.id in ended and one.status == "dispatching"
            assert after.operations[one.id].status == ("unknown" if lost else one.status), f"recover moved {one}"
            assert one.id not in ended or after.operations[one.id].claim_until is None

    def _stirred(self) -> bool:
        return self.recovered != self._state()

    def _state(self) -> tuple[object, ...]:
        return self.ticks, len(self.seen.outbox), len(self.broker), *(one.version for one in self.seen.pending)

    def recover_all(self) -> None:
        """One round of the recover loop. The database is read before the broker."""
        self.do(lambda c: expire_claims(c, _MANY))
        self.do(lambda c: hand_over_due(c, _MANY))
        self.do(lambda c: hand_over_free(c, _MANY, timedelta(0)))
        candidates = self.do(lambda c: lost_candidates(c, timedelta(seconds=50), _MANY))
        lost = [one for one in candidates if one.id not in self.broker and one.id in self.seen.operations]
        if lost:
            assert self.do(lambda c: hand_over_lost(c, lost)) == len(lost)

    @precondition(lambda self: self.provider.waiting)
    @rule(which=WHICH)
    def apply_late(self, which: int) -> None:
        self.provider.apply_late(pick(which, self.provider.waiting))

    @precondition(lambda self: self.provider.effects)
    @rule(which=WHICH, twice=st.booleans())
    def hear_a_webhook(self, which: int, twice: bool) -> None:
        """The provider tells what it did. It tells it as often as it likes."""
        effect = pick(which, self.provider.effects)
        for _ in range(1 + twice):
            self._told(effect.operation, effect.attempt, effect.result_id)
        settled = self.look()
        one = settled.operations[effect.operation]
        assert one.final, f"{one} is not settled by a webhook that names it"
        wrong = (one.id, "effect_after_rejection") in settled.incidents
        assert one.status == "confirmed" or wrong, f"{one} was rejected, has happened, and there is no incident"

    def _told(self, operation: UUID, attempt: int, result_id: str) -> None:
        before = self.look()
        source, found = f"delivery-{result_id}", Found(result_id)
        recorded = self.do(lambda c: record(c, operation, "webhook", source, attempt, found, before.now))
        assert recorded is not None
        again = source in self._deliveries
        assert recorded.fresh is not again, "the same delivery was written twice"
        self._deliveries.add(source)
        if again:
            assert self.look().operations == before.operations
            return
        known = self.do(lambda c: view(c, operation))
        assert known is not None
        if known.operation.state.final:
            return
        contract = CONTRACTS[before.operations[operation].action]
        verdict = decide(known.operation, known.attempts, contract, known.findings, known.at)
        assert isinstance(verdict, Confirm), f"bound evidence was judged {verdict}"
        assert self.do(lambda c: apply_verdict(c, operation, known.version, verdict)) is not None

    def take_outbox(self) -> list[UUID]:
        """Take every row of the machine out of the outbox. Returns the operations; messages for the host go to it."""
        asked = {"ids": list(self.seen.operations), "tenants": list(self.tenants)}
        rows = self.do(lambda c: c.execute(_TAKE, asked).all())
        self.told += [row.message["kwargs"] for row in rows if row.message is not None]
        taken = [row.operation_id for row in rows if row.operation_id is not None]
        return sorted(taken, key=lambda operation: self.row(operation).seq)

    @property
    def _deliveries(self) -> set[str]:
        return self.__dict__.setdefault("delivered", set())  # type: ignore[no-any-return]
