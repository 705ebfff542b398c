"""Following the transactions of a SQLAlchemy session, whatever its database, for an outbox that is in memory."""

import weakref
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from acuse.testing.memory.transaction import Transaction

__all__ = ["Watch"]


class Watch:
    """Commits and rolls back in memory when the session does, savepoints too."""

    def __init__(self) -> None:
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._of: dict[SessionTransaction, Transaction] = {}

    def transaction_of(self, session: Session) -> Transaction:
        """The transaction that the session is in; it begins one, as it would to reach its database."""
        if session not in self._sessions:
            self._sessions.add(session)
            event.listen(session, "after_commit", self._committed)
            event.listen(session, "after_transaction_end", self._ended)
        if not session.in_transaction():
            session.begin()
        return self._begun(_innermost(session))

    def _begun(self, its: SessionTransaction) -> Transaction:
        if its not in self._of:
            self._of[its] = Transaction(None if its.parent is None else self._begun(its.parent))
        return self._of[its]

    def _committed(self, session: Session) -> None:
        if (known := self._of.get(_innermost(session))) is not None:
            known.commit()

    def _ended(self, _session: Session, its: SessionTransaction) -> None:
        if (known := self._of.pop(its, None)) is not None:
            known.rollback()  # changes nothing after a commit


def _innermost(session: Session) -> SessionTransaction:
    found: Any = session.get_nested_transaction() or session.get_transaction()
    its: SessionTransaction = found
    return its
