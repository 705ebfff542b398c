"""A control-flow signal, not an error: the call has ended and its outcome is known."""

from acuse.protocol import Outcome

__all__ = ["Ended"]


class Ended(BaseException):  # it is no error: an adapter's `except Exception` must not swallow it
    """Raised by a channel when an answer or a transport failure decides the outcome. The engine catches it; nobody else does."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome
