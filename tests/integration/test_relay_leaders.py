"""No relay is a leader: one that loses its rows in the middle of a batch, and comes round later, doubles hints and no effect."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from bench import Bench
from eventually import eventually
from scripted_provider import UNHURRIED
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from stage_factory import outbox

from acuse.identifier import uuid_of
from acuse.protocol import State
from acuse_relay.queue.fake import FakeQueue
from acuse_relay.queue.port import Message
from acuse_relay.relay import Relay

ROWS = 12


class SharedBroker(FakeQueue):
    """A broker that does something after the first push, while its relay's transaction is still open."""

    def __init__(self, after_push: Callable[[], None]) -> None:
        super().__init__()
        self._then: list[Callable[[], None]] = [after_push]

    def push(self, messages: Sequence[Message]) -> None:
        super().push(messages)
        if self._then:
            self._then.pop()()


def end_the_session(ledger: Engine) -> None:
    """The pool, or the server, recycles the connection of whoever holds a queue."""
    with ledger.connect() as other:
        other.execute(
            text(
                "select pg_terminate_backend(pid, 5000) from pg_locks where locktype = 'advisory'"
                " and database = (select oid from pg_database where datname = current_database())"
            )
        )


@pytest.mark.case("R046")
@pytest.mark.invariant(10)
@pytest.mark.parametrize("fate", ["its connection is recycled", "it is frozen past its term"])
async def test_two_relays_that_both_push_a_batch_cause_one_call_each(
    fresh_bench: Bench, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    # Given two relays, and one of them in the middle of a batch
    bench = fresh_bench.promise(UNHURRIED)
    monkeypatch.setattr("acuse.store.relay.STALLED_TRANSACTION_MILLISECONDS", 100)
    staged = [bench.stage(target=f"case-{n}") for n in range(ROWS)]
    moved_by_the_other: list[int] = []

    def lose_the_rows() -> None:
        other = Relay(bench.sync, broker, batch_size=1)
        assert other.run_once() == 0  # as long as the first one lives in the server's eyes, nobody else touches its rows
        if fate == "its connection is recycled":
            end_the_session(bench.sync)
        eventually(lambda: moved_by_the_other.append(other.run_once()) or sum(moved_by_the_other) == ROWS)

    broker = SharedBroker(lose_the_rows)
    first = Relay(bench.sync, broker, batch_size=1)

    # When it comes round and goes on with what it has lost
    with pytest.raises(DBAPIError):
        first.run_once()

    # Then it has changed nothing, and each row was pushed twice
    assert outbox(bench.sync) == []
    assert first.run_once() == 0
    hints = [uuid_of(one, prefix="op", field="id") for message in broker.messages for one in message.args[1]]
    assert sorted(hints) == sorted(staged * 2)

    # And two workers that get all of it at once call the provider once for each
    one, two = bench.another(), bench.another()
    await asyncio.gather(*(bench.carry(hint, engine=(one, two)[n % 2]) for n, hint in enumerate(hints)))
    assert {bench.state(it) for it in staged} == {State.CONFIRMED}
    assert [bench.provider.called(it) for it in staged] == [1] * ROWS
    assert [bench.provider.made(it) for it in staged] == [1] * ROWS
    assert bench.count("duplicates_prevented", one, kind="delivery") + bench.count(
        "duplicates_prevented", two, kind="delivery"
    ) == len(staged)
