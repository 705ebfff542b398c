"""Rules of people: approvals, cancelling, withdrawing, pausing, and the acts on one operation."""

import threading
from datetime import timedelta
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from sqlalchemy import Connection, text

from acuse.store.dispatch import Dispatched, dispatch
from stateful.base import Base, pick
from stateful.contracts import ACTIONS
from stateful.hand import Hand
from stateful.snapshot import Operation
from stateful.staging import WHICH

__all__ = ["People"]

_OPERATE = text("select outcome, version, status from acuse.operate(:id, :version, :act, 'ada', 'seen in the books', :result)")
_REVOKE = text("select acuse.revoke_approval(:tenant, :id, 'ada', 'a mistake')")
_CANCEL = text("select acuse.cancel(:tenant, :id, 'host', 'not wanted any more')")
_CANCEL_WORKFLOW = text("select acuse.cancel_workflow(:tenant, :name, 'ada', 'stop')")
_WITHDRAW = text("select acuse.withdraw_flow_version(:tenant, :name, 'ada', 'wrong')")
_PAUSE = text("select acuse.pause_account(:provider, :account, clock_timestamp() + cast(:for as interval), 'ada', 'calm')")
_RESUME = text("select acuse.resume_account(:provider, :account)")
_BLOCKED = text("select count(*) from pg_stat_activity where pid = :pid and wait_event_type = 'Lock'")

_ACTS = {
    "confirm": ("unknown",),
    "reject": ("unknown", "prepared"),
    "suspect": ("prepared",),
    "recheck": ("unknown",),
    "accept_risk": ("unknown",),
    "resume": ("prepared",),
}
_RESULT = {"confirm": "confirmed", "reject": "rejected", "suspect": "unknown"}
_PROVIDERS = st.sampled_from(sorted({action.partition(".")[0] for action in ACTIONS}))


class People(Base):
    """What people do."""

    @precondition(lambda self: self.seen.pending)
    @rule(which=WHICH, act=st.sampled_from(tuple(_ACTS)), stale=st.sampled_from((False, False, False, True)))
    def act_on_one(self, which: int, act: str, stale: bool) -> None:
        likely = [one for one in self.seen.pending if one.status in _ACTS[act]]
        one = pick(which, likely or list(self.seen.operations.values()))
        possible = one.status in _ACTS[act] and not self._would_overtake(one, act)
        answer = self._operate(one, act, one.version - stale)
        after = self.look().operations[one.id]
        if stale:
            assert answer == "changed"
            assert after == one
        elif not possible:
            assert answer == "not_possible"
            assert after == one
        else:
            assert answer == "done"
            assert after.status == _RESULT.get(act, one.status)

    def _operate(self, one: Operation, act: str, version: int) -> str:
        said = {"id": one.id, "version": version, "act": act, "result": "R-person" if act == "confirm" else None}
        answer = str(self.do(lambda c: c.execute(_OPERATE, said).one().outcome))
        if answer == "done":
            self.truth.say(one.id, act)
        return answer

    def _would_overtake(self, one: Operation, act: str) -> bool:
        chain = one.chain
        return act == "suspect" and chain is not None and any(o.in_the_air and o.chain == chain for o in self.seen.pending)

    @precondition(lambda self: any(one.approval_id for one in self.seen.pending))
    @rule(which=WHICH)
    def revoke(self, which: int) -> None:
        approval = pick(which, [one.approval_id for one in self.seen.pending if one.approval_id is not None])
        before = self.seen.approvals[approval]
        for tenant, name in ((self.tenants[1], approval), (self.tenants[0], uuid4())):
            said = {"tenant": tenant, "id": name}
            assert self.do(lambda c, said=said: c.execute(_REVOKE, said).scalars().all()) == [None]  # type: ignore[misc]
        assert self.look().approvals[approval].revoked_at == before.revoked_at, "revoked from elsewhere"
        answered = self.do(lambda c: self._revoke(c, approval))
        assert answered == {one.id for one in self.seen.pending if one.approval_id == approval and one.in_the_air}

    def _revoke(self, connection: Connection, approval: UUID) -> set[UUID]:
        return set(connection.execute(_REVOKE, {"tenant": self.tenants[0], "id": approval}).scalars())

    @precondition(lambda self: self._approved())
    @rule(which=WHICH)
    def revoke_while_it_is_dispatched(self, which: int) -> None:
        """Revoked, and not committed yet, when the dispatch comes: it waits for the end of it, and is stopped."""
        one = pick(which, self._approved())
        assert one.approval_id is not None
        for hand in self.take([one.id]):
            waited, answer = self._dispatch_beside(one.approval_id, hand)
            assert not (waited and answer.open), "an approval was revoked while dispatch waited, and it was dispatched anyway"
            self.hands.remove(hand)

    def _dispatch_beside(self, approval: UUID, hand: Hand) -> tuple[bool, Dispatched]:
        answers: list[Dispatched] = []
        with self.engine.connect() as other, self.engine.connect() as mine:
            pid = mine.execute(text("select pg_backend_pid()")).scalar_one()
            self._revoke(other, approval)

            def run() -> None:
                answers.append(dispatch(mine, hand.claimed, hand.contract, key=f"op_{hand.id.hex}", pin={}))
                mine.commit()

            worker = threading.Thread(target=run)
            worker.start()
            while worker.is_alive() and not self.do(lambda c: c.execute(_BLOCKED, {"pid": pid}).scalar_one()):
                worker.join(0.001)
            waited = worker.is_alive()
            other.commit()
            worker.join()
        return waited, answers[0]

    def _approved(self) -> list[Operation]:
        return [one for one in self.seen.pending if one.approval_id is not None and one.status == "prepared" and not one.charged]

    @precondition(lambda self: self.seen.pending)
    @rule(which=WHICH, foreign=st.sampled_from((False, False, True)))
    def cancel(self, which: int, foreign: bool) -> None:
        one = pick(which, self.seen.pending)
        tenant = self.tenants[(one.tenant == self.tenants[0]) == foreign]
        answer = self.do(lambda c: c.execute(_CANCEL, {"tenant": tenant, "id": one.id}).scalar_one())
        after = self.look().operations[one.id]
        if foreign:
            assert (answer, after) == (None, one), "another tenant cancelled it"
        else:
            assert answer == ("cancelled" if one.status == "prepared" else one.status)
            assert after.status == ("rejected" if one.status == "prepared" else one.status)

    @precondition(lambda self: any(one.workflow_id or one.flow_version for one in self.seen.pending))
    @rule(what=st.sampled_from(("w1", "w2", "v1")))
    def stop_many(self, what: str) -> None:
        """A workflow is cancelled or a flow version withdrawn: the answer is what is in the air already."""
        statement = _WITHDRAW if what == "v1" else _CANCEL_WORKFLOW
        answered = self.do(lambda c: set(c.execute(statement, {"tenant": self.tenants[0], "name": what}).scalars()))
        ours = [one for one in self.seen.pending if one.tenant == self.tenants[0] and what in (one.workflow_id, one.flow_version)]
        assert answered == {one.id for one in ours if one.in_the_air}

    @rule(provider=_PROVIDERS, seconds=st.sampled_from((None, 150, 370)))
    def pause_or_resume(self, provider: str, seconds: int | None) -> None:
        account = self.tenants[0]
        if (provider, account) in self.seen.paused:
            self.resume_account(provider, account)
            return
        wait = None if seconds is None else timedelta(seconds=seconds)
        self.do(lambda c: c.execute(_PAUSE, {"provider": provider, "account": account, "for": wait}))

    def resume_account(self, provider: str, account: str) -> None:
        """Resume an account that is paused."""
        assert self.do(lambda c: c.execute(_RESUME, {"provider": provider, "account": account}).scalar_one())
