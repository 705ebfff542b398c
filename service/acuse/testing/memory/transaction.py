"""A transaction of a host, as far as the ledger in memory needs one: what was done in it can be undone."""

from collections.abc import Callable
from typing import Literal

__all__ = ["Transaction"]

Undo = Callable[[], None]


class Transaction:
    """What was done in one transaction or savepoint, with the way back. `parent`: the transaction around a savepoint."""

    def __init__(self, parent: "Transaction | None" = None) -> None:
        self.parent = parent
        self._undo: list[Undo] = []
        self._end: Literal["open", "committed", "rolled back"] = "open"

    @classmethod
    def none(cls) -> "Transaction":
        """What is done outside of any transaction: it is committed at once."""
        made = cls()
        made.commit()
        return made

    def done(self, undo: Undo) -> None:
        """Remember how to undo something that was just done; outside of a transaction nobody will ask for it."""
        if self._end == "open":
            self._undo.append(undo)

    def commit(self) -> None:
        """Make it so; a savepoint hands it to the transaction around it, which may still take it back."""
        if self._end == "open":
            self._end = "committed"
            if self.parent is not None and self.parent._end == "open":
                self.parent._undo += self._undo

    def rollback(self) -> None:
        """Undo everything, the last thing first. After an end of either kind nothing is left to undo."""
        if self._end == "open":
            self._end = "rolled back"
            for undo in reversed(self._undo):
                undo()

    @property
    def open(self) -> bool:
        """Whether it has not ended, itself or the one around it."""
        if self._end == "committed" and self.parent is not None:
            return self.parent.open
        return self._end == "open"
