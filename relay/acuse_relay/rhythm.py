"""When something that is done every so often is to be done again."""

from collections.abc import Callable
from time import monotonic
from types import TracebackType

__all__ = ["Rhythm"]


class Rhythm:
    """Due at once, and then `seconds` after each time it was done; later if it took long: at most 1 part in `share` of the time.

    Use it as a context manager around the work. If the work fails it stays due.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic, *, share: int = 10) -> None:
        self._seconds = seconds
        self._clock = clock
        self._share = share
        self._started = self._due_at = clock()

    def is_due(self) -> bool:
        """Say whether its time has come."""
        return self._clock() >= self._due_at

    def __enter__(self) -> None:
        self._started = self._clock()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            now = self._clock()
            self._due_at = now + max(self._seconds, self._share * (now - self._started))
