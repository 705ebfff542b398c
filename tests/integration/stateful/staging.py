"""Rules of hosts: staging, staging again, taking up what was rejected, publishing."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from sqlalchemy import text

from stateful.base import Base, pick
from stateful.contracts import ACTIONS
from stateful.wish import Answer, Wish, expected, publish, stage

__all__ = ["WHICH", "Staging"]

WHICH = st.integers(0, 5)

_GRANT = text("select acuse.grant_approval(:tenant, :action, :target, :digest, 'ada', null, :expires, :uses)")

_ACTION = st.sampled_from((*ACTIONS, "crm.note.v1", "crm.call.v1"))  # where keys are remembered there is more to go wrong
_CASE = st.sampled_from(("case-1", "case-2"))
_KEY = st.sampled_from([f"k{n}" for n in range(8)])
_WORKFLOW = st.sampled_from((None, None, "w1", "w2"))
_FATE = st.sampled_from(("commit", "commit", "commit", "commit", "commit", "transaction", "savepoint", "refusal"))
_SECONDS = st.sampled_from((None, None, 150, 400))
_SELDOM = st.sampled_from((False, False, False, True))

_ROOM = precondition(lambda self: len(self.seen.pending) < 4)
"""Few at a time, so that each lives through much."""


class Staging(Base):
    """What hosts write."""

    @initialize(first=_ACTION, second=_ACTION, chained=st.booleans())
    def begin(self, first: str, second: str, chained: bool) -> None:
        """Two intents, of one chain or none, so that there is something to carry out."""
        self.stage_something_new(first, "case-1", chained)
        self.stage_something_new(first if chained else second, "case-1", chained)

    @_ROOM
    @rule(action=_ACTION, case=_CASE, chained=st.booleans(), fate=_FATE, which=WHICH)
    def stage_something_new(self, action: str, case: str, chained: bool, fate: str = "commit", which: int = 0) -> None:
        wish = self._wish(action, case, key=f"new-{self.number()}", ordering_key="chain" if chained else None)
        if fate == "commit":
            self.asked(wish)
        else:
            self._leave_nothing(wish, fate, which)

    @_ROOM
    @rule(
        action=_ACTION,
        case=_CASE,
        payload=st.integers(0, 1),
        key=_KEY,
        workflow=_WORKFLOW,
        flow=_SELDOM,
        chained=st.booleans(),
        ends=_SELDOM,
        tells=st.booleans(),
        distinct=_SELDOM,
        foreign=_SELDOM,
    )
    def stage_any(
        self,
        action: str,
        case: str,
        payload: int,
        key: str,
        workflow: str | None,
        flow: bool,
        chained: bool,
        ends: bool,
        tells: bool,
        distinct: bool,
        foreign: bool,
    ) -> None:
        wish = self._wish(action, case, key=key, ordering_key="chain" if chained else None)
        wish = replace(
            wish,
            payload=payload,
            workflow=workflow,
            flow_version="v1" if flow else None,
            not_after=self.seen.now + timedelta(seconds=400) if ends else None,
            on_settled="host/settled" if tells else None,
            distinct=distinct,
            tenant=self.tenants[foreign],
        )
        self.asked(wish)

    @precondition(lambda self: self.seen.operations and len(self.seen.pending) < 4)
    @rule(action=_ACTION, case=_CASE, which=WHICH, other=WHICH, both=st.booleans(), foreign=_SELDOM)
    def stage_after(self, action: str, case: str, which: int, other: int, both: bool, foreign: bool) -> None:
        known = list(self.seen.operations)
        after = {pick(which, known), pick(other, known)} if both else {pick(which, known)}
        wish = self._wish(action, case, key=f"new-{self.number()}")
        self.asked(replace(wish, after=tuple(sorted(after)), tenant=self.tenants[foreign]))

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, change=st.sampled_from(("nothing", "payload", "account", "tenant", "call")))
    def stage_again(self, which: int, change: str) -> None:
        wish = pick(which, list(self.wishes.values()))
        match change:
            case "payload":
                wish = replace(wish, payload=wish.payload + 1)
            case "account":
                wish = replace(wish, account=self.tenants[wish.account == self.tenants[0]])
            case "tenant":
                wish = replace(wish, tenant=self.tenants[wish.tenant == self.tenants[0]])
            case "call":  # an agent that asks once more, in the same words
                wish = replace(wish, key=f"call-{self.number()}")
        self.asked(wish)

    @_ROOM
    @rule(action=_ACTION, uses=st.sampled_from((1, None, 2)), seconds=_SECONDS, chained=st.booleans())
    def stage_under_a_new_approval(self, action: str, uses: int | None, seconds: int | None, chained: bool) -> None:
        wish = self._wish(action, "case-1", key=f"new-{self.number()}", ordering_key="chain" if chained else None)
        expires = None if seconds is None else self.seen.now + timedelta(seconds=seconds)
        said = {
            "tenant": wish.tenant,
            "action": action,
            "target": wish.target,
            "digest": wish.digest,
            "expires": expires,
            "uses": uses,
        }
        approval = self.do(lambda c: c.execute(_GRANT, said).scalar_one())
        self.look()
        self.asked(replace(wish, approval=approval))

    @precondition(lambda self: self.seen.approvals)
    @rule(which=WHICH, payload=st.sampled_from((0, 0, 0, 1)))
    def stage_under_an_old_approval(self, which: int, payload: int) -> None:
        approval = pick(which, list(self.seen.approvals.values()))
        wish = self._wish(approval.action, approval.target, key=f"new-{self.number()}")
        self.asked(replace(wish, approval=approval.id, payload=payload))

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, payload=st.integers(0, 2), foreign=_SELDOM)
    def take_up_again(self, which: int, payload: int, foreign: bool) -> None:
        rejected = [one.id for one in self.seen.operations.values() if one.status == "rejected"]
        old = pick(which, rejected or list(self.wishes))
        wish = replace(self.wishes[old], succeeds=old, payload=payload, approval=None, not_after=None, after=())
        if foreign:
            wish = replace(wish, tenant=self.tenants[wish.tenant == self.tenants[0]])
        self.asked(wish)

    @_ROOM
    @rule(key=st.sampled_from((None, "e1", "e2")), said=st.integers(0, 1), actions=st.lists(_ACTION, min_size=1, max_size=3))
    def publish_event(self, key: str | None, said: int, actions: list[str]) -> None:
        number = self.number()
        wishes = [self._wish(action, "case-1", key=f"event-{number}-{at}") for at, action in enumerate(actions)]
        refs = {at: [at - 1] for at in range(1, len(actions))}
        before = self.look()
        answers = self.do(lambda connection: publish(connection, "happened", key, said, wishes, refs))
        first = self._events.get(key) if key is not None else None
        if first is None:
            assert [answer.outcome for answer in answers] == ["created"] * (1 + len(actions))
            if key is not None:
                self._events[key] = (said, {answer.operation for answer in answers})
            for answer, wish in zip(answers[1:], wishes, strict=True):
                self._remember(answer, wish)
        elif first[0] == said:
            assert {answer.outcome for answer in answers} == {"same"}
            assert {answer.operation for answer in answers} == first[1], "an event said again names other operations"
            assert self.look().written == before.written
        else:
            assert [answer.outcome for answer in answers] == ["event_conflict"]
            assert self.look().written == before.written

    @property
    def _events(self) -> dict[str, tuple[int, set[UUID | None]]]:
        return self.__dict__.setdefault("published", {})  # type: ignore[no-any-return]

    def _leave_nothing(self, wish: Wish, how: str, which: int) -> None:
        """What is rolled back leaves nothing; of a request that is refused in its last item not even the event stays."""
        before, wish = self.look(), replace(wish, key=f"new-{self.number()}", workflow=None)
        keyed = [known for known in self.wishes.values() if known.succeeds is None]
        with self.engine.begin() as connection:
            if how == "refusal" and keyed:
                taken = pick(which, keyed)
                good, bad = replace(wish, tenant=taken.tenant), replace(taken, payload=99, approval=None, after=(), workflow=None)
                assert publish(connection, "refused", "e3", 0, [good, bad], {})[-1].outcome == "conflict"
            else:
                nested = connection.begin_nested() if how == "savepoint" else None
                assert stage(connection, wish).outcome == "created"
                (nested or connection).rollback()
        assert self.look().written == before.written, f"a {how} left something"

    def asked(self, wish: Wish) -> None:
        """Stage a wish, and hold the answer against what must be answered."""
        before = self.seen
        outcome, named = expected(before, wish)
        answer = self.do(lambda connection: stage(connection, wish))
        assert answer.outcome == outcome, f"{wish} was answered {answer.outcome}, expected {outcome}"
        if outcome == "created":
            assert answer.operation not in before.operations
            self._remember(answer, wish)
            self.look()
            return
        assert answer.operation in named or not (named or answer.operation), (
            f"{outcome} named {answer.operation}, not one of {named}"
        )
        after = self.look()
        assert after.written == before.written, f"{outcome} wrote something"
        assert len(after.outbox) == len(before.outbox)

    def _remember(self, answer: Answer, wish: Wish) -> None:
        assert answer.operation is not None
        self.wishes[answer.operation] = wish

    def _wish(self, action: str, target: str, *, key: str, ordering_key: str | None = None) -> Wish:
        tenant = self.tenants[0]
        return Wish(tenant, tenant, action, target, 0, key, ordering_key=ordering_key)
