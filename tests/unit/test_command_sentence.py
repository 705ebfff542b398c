"""`why` and `what_next` of a record: the same facts read the same, and no fact is read out twice."""

from datetime import timedelta

from recorded import NOW, record

from acuse.protocol import State

MINUTE = timedelta(minutes=1)
CLOSED = "looked up 3 times by external_id: not found. The key's window closed at 2026-11-30 10:51:07 UTC"


def test_the_end_of_the_window_is_said_once() -> None:
    fresh = record(reason="no answer within 20.0 s", retry_until=NOW + MINUTE, due_at=NOW)
    judged = record(reason=CLOSED, retry_until=NOW - MINUTE * 2, due_at=NOW + MINUTE)
    assert "A repeat with the same key is safe until 2026-11-30 10:54:07 UTC." in fresh.what_next
    assert judged.why.endswith("it may or may not have happened. Looked up" + CLOSED.removeprefix("looked up") + ".")
    assert judged.what_next == "It is looked for from 2026-11-30 10:54:07 UTC on."


def test_the_reason_for_holding_it_is_said_once() -> None:
    assert record(held=CLOSED, reason=CLOSED).what_next == "A person has to decide."
    parked = record(state=State.PREPARED, attempts=0, doubts=0, first_sent_at=None, held="handed over 9 times without progress")
    assert parked.why == "Nothing was sent yet."
    assert parked.what_next == "A person has to decide: handed over 9 times without progress."
