"""Bodies of any size that intake takes go the whole way; what wakes the worker carries ids alone."""

import pytest
from bench import Bench
from scripted_provider import Note
from sqlalchemy import text

from acuse import Outbox
from acuse.errors import InvalidPayload
from acuse.identifier import uuid_of
from acuse.intent.canonical import canonical
from acuse.intent.limits import MAX_PAYLOAD_BYTES
from acuse.protocol import State
from acuse_relay.queue.fake import FakeQueue
from acuse_relay.relay import Relay

WIDE = "é"  # two bytes in UTF-8, one character


def note(size: int, letter: str = "x") -> Note:
    """A note whose stored text has exactly so many bytes."""
    room = size - len(Note(ref="case-1", text="").effect().body())
    wide = len(letter.encode())
    return Note(ref="case-1", text=letter * (room // wide) + "x" * (room % wide))


SIZES = [(7_999, "x"), (8_000, "x"), (200_000, "x"), (7_999, WIDE), (8_000, WIDE), (200_000, WIDE)]


@pytest.mark.case("R040")
@pytest.mark.parametrize(("size", "letter"), SIZES)
async def test_a_body_of_any_size_is_stored_and_sent_and_no_message_carries_it(
    fresh_bench: Bench, size: int, letter: str
) -> None:
    # Given a body of this many bytes, staged and relayed
    bench, wanted, queue = fresh_bench, note(size, letter), FakeQueue()
    with bench.sync.begin() as connection:
        staged = Outbox().stage(connection, wanted, tenant=bench.tenant, account=bench.tenant, effect_key="k")
    one = uuid_of(staged.operation_id, prefix="op", field="id")
    assert bench.ask("select octet_length(body) from acuse.payload where id = :id", id=one) == size
    assert Relay(bench.sync, queue).run_once() == 1

    # Then the message has ids alone, and the provider gets every byte
    [message] = queue.messages
    assert message.args == (bench.ledger, [staged.operation_id])
    await bench.carry(one)
    assert (bench.state(one), [call.body for call in bench.provider.calls]) == (State.CONFIRMED, [wanted.effect().body()])


@pytest.mark.case("R040")
@pytest.mark.parametrize("letter", ["x", WIDE], ids=["ascii", "two bytes each"])
async def test_a_body_over_the_limit_is_refused_at_intake_and_the_callers_transaction_goes_on(
    fresh_bench: Bench, letter: str
) -> None:
    bench = fresh_bench
    largest = note_with_payload(MAX_PAYLOAD_BYTES, letter)
    too_large = note_with_payload(MAX_PAYLOAD_BYTES + 1, letter)
    with bench.sync.begin() as connection:
        with pytest.raises(InvalidPayload, match="bytes, at most") as refused:
            Outbox().stage(connection, too_large, tenant=bench.tenant, account=bench.tenant, effect_key="k")
        assert str(MAX_PAYLOAD_BYTES) in str(refused.value)
        assert letter * 9 not in str(refused.value)
        staged = Outbox().stage(connection, largest, tenant=bench.tenant, account=bench.tenant, effect_key="k")
        assert connection.execute(text("select count(*) from acuse.operation")).scalar_one() == 1
    one = uuid_of(staged.operation_id, prefix="op", field="id")
    await bench.carry(one)
    assert (bench.state(one), bench.provider.made(one)) == (State.CONFIRMED, 1)


def note_with_payload(size: int, letter: str) -> Note:
    """A note whose canonical payload has exactly so many bytes."""
    room = size - len(canonical(Note(ref="case-1", text="").effect().payload))
    wide = len(letter.encode())
    return Note(ref="case-1", text=letter * (room // wide) + "x" * (room % wide))
