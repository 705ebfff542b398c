"""When loops wait, and where scans start."""

from datetime import UTC, datetime, timedelta

import pytest
import redis

from acuse.store.relay import OutboxRow
from acuse_relay.failures import brief, pause_after
from acuse_relay.floor import TRAIL, Floors
from acuse_relay.queue.port import QueueUnavailable
from acuse_relay.queue.redis import _translated
from acuse_relay.rhythm import Rhythm

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def row(at: datetime) -> OutboxRow:
    return OutboxRow(1, "q", None, {}, at)


def test_pauses_double_from_a_tenth_of_a_second_to_five_and_are_jittered() -> None:
    assert [pause_after(n, lambda: 1.0) for n in (1, 2, 3, 6, 7, 1000)] == [0.1, 0.2, 0.4, 3.2, 5.0, 5.0]
    assert pause_after(1000, lambda: 0.0) == 2.5


def test_a_rhythm_is_due_at_once_and_again_after_its_time() -> None:
    clock = Clock()
    rhythm = Rhythm(5, clock)
    assert rhythm.is_due()
    with rhythm:
        pass
    assert not rhythm.is_due()
    clock.now += 5
    assert rhythm.is_due()


def test_slow_work_is_done_less_often_and_failed_work_stays_due() -> None:
    clock = Clock()
    rhythm = Rhythm(5, clock, share=10)
    with pytest.raises(ZeroDivisionError), rhythm:
        raise ZeroDivisionError
    assert rhythm.is_due()
    with rhythm:
        clock.now += 2
    clock.now += 19
    assert not rhythm.is_due()
    clock.now += 1
    assert rhythm.is_due()


def test_the_floor_trails_what_was_moved_and_does_not_fall_for_a_late_row() -> None:
    floors = Floors()
    floors.emptied("q", NOW)
    floors.emptied("q", NOW - timedelta(hours=1))
    assert floors.for_scan(full=False) == {"q": NOW - TRAIL}
    assert floors.for_scan(full=True) == {"q": None}
    floors.emptied("q", NOW, trail=timedelta(0))
    assert floors.for_scan(full=False) == {"q": NOW}


@pytest.mark.invariant(13)
@pytest.mark.parametrize(
    ("error", "word"),
    [
        (redis.exceptions.ReadOnlyError("can't write: HSET secret"), "READONLY"),
        (redis.exceptions.OutOfMemoryError("Command # 1 (HSET q.msgs secret) of pipeline caused error"), "OOM"),
        (redis.exceptions.ResponseError("MISCONF cannot persist (HSET secret)"), "MISCONF"),
        (redis.exceptions.ResponseError("Command # 1 (HSET q.msgs secret) of pipeline caused error"), "ResponseError"),
        (redis.exceptions.TimeoutError("Timeout reading from socket"), "in time"),
        (redis.exceptions.ConnectionError("Error 111 connecting to 127.0.0.1:1."), "no connection"),
    ],
)
def test_the_reason_is_named_and_no_message_is_quoted(error: redis.RedisError, word: str) -> None:
    with pytest.raises(QueueUnavailable) as caught, _translated():
        raise error
    assert word in caught.value.reason
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "secret" not in brief(caught.value)
