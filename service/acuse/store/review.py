"""What operators may do: a compare-and-set on the record version, with a name and a reason."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, text

from acuse.errors import InvalidField, NotFound, VersionConflict
from acuse.identifier import uuid_of
from acuse.intent import check_text
from acuse.protocol import State
from acuse.store.cancel import MAX_NAME, MAX_REASON

__all__ = ["Act", "Operated", "operate", "possible"]

_MAX_RESULT: Final = 300

_OPERATE = text("select outcome, version, status from acuse.operate(:id, :version, :act, :actor, :reason, :result_id)")
_LAST = text("select coalesce(actor, by) as who, at from acuse.ledger where operation_id = :id order by version desc limit 1")


class Act(StrEnum):
    """What an operator may do with an operation."""

    CONFIRM = "confirm"  # unknown -> confirmed: it happened, and this is the provider's id
    REJECT = "reject"  # unknown, prepared -> rejected: it did not happen, and never will
    RECHECK = "recheck"  # unknown: look again, now
    ACCEPT_RISK = "accept_risk"  # unknown: repeat it, although it may happen twice
    SUSPECT = "suspect"  # prepared -> unknown: it may have been sent (after a restore)
    RESUME = "resume"  # prepared and held: go on


_POSSIBLE: Final = {
    State.PREPARED: (Act.REJECT, Act.SUSPECT, Act.RESUME),
    State.UNKNOWN: (Act.CONFIRM, Act.REJECT, Act.RECHECK, Act.ACCEPT_RISK),
}


def possible(state: State) -> tuple[Act, ...]:
    """The acts that a state allows."""
    return _POSSIBLE.get(state, ())


@dataclass(frozen=True, slots=True)
class Operated:
    """What an act made of the operation."""

    operation_id: str
    act: Act
    state: State
    version: int


def operate(
    connection: Connection, operation: str, act: Act, *, version: int, actor: str, reason: str, result_id: str | None = None
) -> Operated:
    """Carry out an act on the version that the operator saw. The caller commits.

    result_id: the provider's id of the effect, for `confirm` and only there.
    Raises `VersionConflict` that names the current version and who made it, `NotFound`, and `InvalidField` for an act that the
    state does not allow; nothing was written then.
    """
    act, identity = Act(act), uuid_of(operation, prefix="op", field="operation_id")
    values = {
        "id": identity,
        "version": version,
        "act": act.value,
        "actor": check_text("actor", actor, MAX_NAME),
        "reason": check_text("reason", reason, MAX_REASON),
        "result_id": _result(act, result_id),
    }
    row = connection.execute(_OPERATE, values).one_or_none()
    if row is None:
        raise NotFound(what="operation", id=operation)
    if row.outcome == "changed":
        last = connection.execute(_LAST, {"id": identity}).one_or_none()
        who, at = (None, None) if last is None else last
        raise VersionConflict(operation_id=operation, expected=version, found=row.version, by=who, at=at)
    state = State(row.status)
    if row.outcome == "not_possible":
        can = ", ".join(possible(state)) or "nothing"
        raise InvalidField(field="act", reason=f"{act} is not possible while the operation is {state}; possible now: {can}")
    return Operated(operation, act, state, row.version)


def _result(act: Act, result_id: str | None) -> str | None:
    if act is not Act.CONFIRM:
        if result_id is not None:
            raise InvalidField(field="result_id", reason=f"belongs to confirm, not to {act}; leave it out")
        return None
    if result_id is None:
        raise InvalidField(field="result_id", reason="is missing; give the provider's id of what happened")
    return check_text("result_id", result_id, _MAX_RESULT)
