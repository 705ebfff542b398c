"""Moves operations as a worker would, through the same statements, without broker and provider."""

from datetime import date, timedelta

from sqlalchemy import Engine, text

from acuse.identifier import uuid_of
from acuse.protocol import Accepted, Ambiguous, NotSent, Outcome, Receipt, Refused, RetryContract, State
from acuse.store.claim import Claimed, claim
from acuse.store.dispatch import Dispatched, dispatch
from acuse.store.settle import settle

CONTRACT = RetryContract(
    version="test-1",
    verified_on=date(2026, 11, 30),
    source="https://provider.example/docs",
    deadline=timedelta(seconds=5),
    again_means="it happens a second time",
)
ACCEPTED = Accepted(Receipt("R-1", "7", "req-1"))
REFUSED = Refused("refused", "no such case")
NOT_SENT = NotSent("connection refused")
AMBIGUOUS = Ambiguous("the connection closed after the request")

_FORGIVE = text("update acuse.account set failures = 0 where (provider, account) = (:provider, :account) and opened_at is null")


def take(engine: Engine, operation: str, lease: timedelta = timedelta(seconds=60)) -> Claimed:
    """Claim an operation."""
    with engine.begin() as connection:
        [claimed] = claim(connection, [uuid_of(operation, prefix="op", field="id")], lease)
    return claimed


def try_dispatch(engine: Engine, claimed: Claimed) -> Dispatched:
    """Take the guarded step, whatever it answers."""
    with engine.begin() as connection:
        return dispatch(connection, claimed, CONTRACT, key=f"op_{claimed.id.hex}", pin={})


def send(engine: Engine, operation: str) -> tuple[Claimed, Dispatched]:
    """Claim and dispatch: a request may be on the wire."""
    claimed = take(engine, operation)
    dispatched = try_dispatch(engine, claimed)
    assert dispatched.open, dispatched.gate
    return claimed, dispatched


def end(engine: Engine, sent: tuple[Claimed, Dispatched], outcome: Outcome) -> None:
    """Save what came back."""
    with engine.begin() as connection:
        assert settle(connection, *sent, outcome, due=timedelta(hours=1)) == "settled"
        # Many tests share an account: what one leaves behind must not open the breaker of the next.
        connection.execute(_FORGIVE, {"provider": sent[0].provider, "account": sent[0].account})


_OUTCOMES: dict[State, Outcome] = {State.CONFIRMED: ACCEPTED, State.REJECTED: REFUSED, State.UNKNOWN: AMBIGUOUS}


def drive(engine: Engine, operation: str, state: State) -> None:
    """Bring a prepared operation into a state."""
    if state is State.PREPARED:
        return
    sent = send(engine, operation)
    if state is not State.DISPATCHING:
        end(engine, sent, _OUTCOMES[state])


def status_of(engine: Engine, operation: str) -> State:
    """The state as a fresh connection sees it."""
    with engine.connect() as connection:
        identity = {"id": uuid_of(operation, prefix="op", field="id")}
        return State(connection.execute(text("select status from acuse.operation where id = :id"), identity).scalar_one())
