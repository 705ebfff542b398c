"""Which database errors may be tried again, classified in one place."""

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

__all__ = ["constraint_of", "sqlstate_of", "worth_repeating"]

_SERIALIZATION = "40001"
_DEADLOCK = "40P01"
_GONE = ("08", "57P")  # connection exceptions; admin shutdown, crash shutdown, cannot connect now
_FULL = ("53",)  # insufficient resources: too many connections, disk full
_WAITED = ("55P03", "57014")  # lock_timeout, statement_timeout: it waited too long


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of a database error, whichever driver raised it."""
    original = getattr(error, "orig", error)
    state = getattr(original, "sqlstate", None) or getattr(getattr(original, "__cause__", None), "sqlstate", None)
    return state if isinstance(state, str) else None


def constraint_of(error: BaseException) -> str | None:
    """Return the name of the constraint that a statement broke, if the server named one."""
    original = getattr(error, "orig", error)
    diagnostic = getattr(original, "diag", None)
    name = getattr(diagnostic, "constraint_name", None) or getattr(original, "constraint_name", None)
    return name if isinstance(name, str) else None


def worth_repeating(error: BaseException) -> bool:
    """Say whether the same transaction may succeed when it is run again: a lost race or connection, a long wait, a full pool."""
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, DBAPIError):
        return False
    state = sqlstate_of(error)
    if state is None:
        return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return state in (_SERIALIZATION, _DEADLOCK, *_WAITED) or state.startswith((*_GONE, *_FULL))
