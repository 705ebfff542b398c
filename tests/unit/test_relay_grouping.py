"""How rows become messages."""

import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acuse.identifier import operation_id
from acuse.store.relay import OutboxRow
from acuse_relay.grouping import messages_of, row_limit, split_evenly

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def rows_of(*operations: uuid.UUID) -> list[OutboxRow]:
    return [OutboxRow(n, "acuse.crm", operation, None, NOW) for n, operation in enumerate(operations)]


def new_ids(count: int) -> list[uuid.UUID]:
    return [uuid.uuid4() for _ in range(count)]


@given(st.lists(st.integers()), st.integers(1, 50), st.integers(1, 20))
def test_pieces_are_whole_in_order_nearly_even_and_never_too_long(items: list[int], parts: int, most: int) -> None:
    pieces = split_evenly(items, parts, most)
    assert [item for piece in pieces for item in piece] == items
    sizes = {len(piece) for piece in pieces}
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert all(0 < size <= most for size in sizes)


@given(st.integers(1, 300), st.integers(1, 20))
def test_what_the_row_limit_lets_through_fits_into_the_room(room: int, batch_size: int) -> None:
    count = row_limit("acuse.crm", room, batch_size, most=1000)
    assert len(split_evenly(range(count), room, batch_size)) <= room


def test_a_quiet_queue_sends_one_operation_per_message() -> None:
    messages = messages_of("acuse.crm", rows_of(*new_ids(3)), ledger="l", room=200, batch_size=50)
    assert [len(message.args[1]) for message in messages] == [1, 1, 1]


def test_a_queue_that_is_nearly_full_gets_few_full_messages() -> None:
    messages = messages_of("acuse.crm", rows_of(*new_ids(100)), ledger="l", room=2, batch_size=50)
    assert [len(message.args[1]) for message in messages] == [50, 50]


def test_a_message_names_ledger_and_operations_and_nothing_else() -> None:
    one, other = new_ids(2)
    (message,) = messages_of("acuse.crm", rows_of(one, other), ledger="ab12", room=1, batch_size=50)
    assert (message.queue, message.actor, message.kwargs, message.options) == ("acuse.crm", "perform", {}, {})
    assert message.args == ("ab12", [operation_id(one), operation_id(other)])


def test_an_operation_with_several_rows_goes_along_once() -> None:
    one = uuid.uuid4()
    (message,) = messages_of("acuse.crm", rows_of(one, one, one), ledger="l", room=200, batch_size=50)
    assert message.args[1] == [operation_id(one)]


def test_a_message_of_the_host_keeps_its_id_actor_arguments_and_options() -> None:
    stored = {"id": "m-1", "actor": "ticket_opened", "args": [1, "a"], "kwargs": {"b": None}, "options": {"max_retries": 3}}
    (message,) = messages_of("default", [OutboxRow(1, "default", None, stored, NOW)], ledger="l", room=1, batch_size=50)
    assert (message.message_id, message.actor, message.args) == ("m-1", "ticket_opened", (1, "a"))
    assert (message.kwargs, message.options) == ({"b": None}, {"max_retries": 3})


@pytest.mark.parametrize(
    ("queue", "room", "rows"), [("acuse.crm", 3, 30), ("default", 3, 3), ("acuse.crm", 0, 0), ("acuse.crm", 900, 1000)]
)
def test_room_is_counted_in_messages(queue: str, room: int, rows: int) -> None:
    assert row_limit(queue, room, batch_size=10, most=1000) == rows
