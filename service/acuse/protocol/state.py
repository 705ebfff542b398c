"""The five states of an operation. Nothing else in the system has these states."""

from enum import StrEnum

__all__ = ["FINAL", "State"]


class State(StrEnum):
    """Where an operation stands. The arrows that lead out of a state are in `arrow.py`."""

    PREPARED = "prepared"  # -> dispatching, confirmed, rejected, unknown. No attempt can have had an effect.
    DISPATCHING = "dispatching"  # -> confirmed, prepared, rejected, unknown. Bytes may be on the wire now.
    CONFIRMED = "confirmed"  # final. Evidence bound to this operation says that it happened.
    REJECTED = "rejected"  # final. No attempt can have had an effect, or a person settled it on evidence.
    UNKNOWN = "unknown"  # -> dispatching, prepared, confirmed, rejected. It may have happened; time alone proves nothing.

    @property
    def final(self) -> bool:
        """Whether nothing may move the operation any more."""
        return self in FINAL


FINAL = frozenset({State.CONFIRMED, State.REJECTED})
