"""Waiting for a fact, with a deadline."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


def eventually(fact: Callable[[], object], seconds: float = 20.0) -> None:
    """Return as soon as `fact()` is true; fail at the deadline."""
    deadline, pause = time.monotonic() + seconds, Event()
    while not fact():
        assert time.monotonic() < deadline, "the fact did not come true in time"
        pause.wait(0.005)


@contextmanager
def running(*loops: Callable[[Event], None]) -> Iterator[None]:
    """Run loops that take a stop event in threads; stop and join them at the end."""
    stop = Event()
    threads = [Thread(target=loop, args=(stop,)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads), "a loop did not stop"
