"""Ctrl-C and SIGTERM end a play in order."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from acuse_adapters.demo.cast import say

__all__ = ["ended_by_signals"]


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block in order: from the first signal on, no other interrupts the tidying up."""
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def signalled(number: int, _frame: FrameType | None) -> None:
        for each in former:
            signal.signal(each, signal.SIG_IGN)
        say("stopping …")
        raise SystemExit(128 + number)

    for number in former:
        signal.signal(number, signalled)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
