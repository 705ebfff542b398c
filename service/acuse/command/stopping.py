"""Ending on SIGTERM and SIGINT."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stopped_by_signals"]


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Set `stop` on SIGTERM and SIGINT; from then on the former handlers stand again, so that a second signal gets through.

    Does nothing outside of the main thread, where Python takes no handlers: whoever runs that thread calls `stop`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    def signalled(_number: int, _frame: FrameType | None) -> None:
        restore()
        # Not here: a handler runs inside whatever the main thread does, and if that is entering stop.wait(), it holds the very
        # lock that stop.set() takes.
        threading.Thread(target=stop.set, name="acuse-stop").start()

    for number in former:
        signal.signal(number, signalled)
    try:
        yield
    finally:
        restore()
