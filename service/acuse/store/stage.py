"""Staging: the statements that a caller's transaction runs, and what their rows mean."""

from collections.abc import Sequence
from typing import Final, NoReturn
from uuid import UUID

from acuse.errors import ApprovalError, ConfigurationError, EffectConflict, InDoubt, InvalidField, RetryTransaction
from acuse.identifier import event_id, operation_id
from acuse.intent import differing_paths
from acuse.protocol import State
from acuse.store.caller import Row
from acuse.store.request import Request
from acuse.store.staged import Published, Staged
from acuse.store.statement import Statement

__all__ = ["STAGE", "Published", "Staged", "published_of", "staged_of"]

STAGE: Final = Statement(
    "select ref, outcome, cast(operation_id as text), cast(event_id as text), status, result_id, encode(existing, 'hex'), "
    "detail from acuse.stage(cast(cast(:request as text) as jsonb))"
)
"""One round trip. Ids and bodies come back as ASCII, whatever the host has taught its driver about types and encodings."""

_WRITTEN: Final = ("created", "same", "in_doubt")


def staged_of(request: Request, rows: Sequence[Row]) -> tuple[Staged, ...]:
    """One result per item, in the order of the request. Raises what a refusal means; then nothing was written."""
    found = sorted((_Found(row) for row in rows), key=lambda row: row.ref)
    for row in found:
        if row.outcome not in _WRITTEN:
            _refuse(row, request)
    return tuple(row.staged for row in found if row.ref >= 0)


def published_of(request: Request, rows: Sequence[Row]) -> Published:
    """The event and its operations. Raises what a refusal means; then nothing was written."""
    operations = staged_of(request, rows)
    [event] = [found for found in map(_Found, rows) if found.ref < 0]
    return Published(event_id(UUID(event.event)), event.outcome == "created", operations)


class _Found:
    """One row of the function, by name."""

    def __init__(self, row: Row) -> None:
        self.ref: int
        self.operation: str | None
        self.ref, self.outcome, self.operation, self.event, self.status, self.result_id, self.existing, self.detail = row

    @property
    def operation_id(self) -> str:
        return operation_id(UUID(self.operation))

    @property
    def staged(self) -> Staged:
        return Staged(
            self.operation_id, self.outcome == "created", self.outcome == "in_doubt", State(self.status), self.result_id
        )


def _refuse(row: _Found, request: Request) -> NoReturn:
    match row.outcome:
        case "conflict":
            paths = _differences(row, request.bodies[row.ref])
            if row.detail != request.accounts[row.ref]:
                paths.append("$.account")
            raise EffectConflict(operation_id=row.operation_id, paths=paths)
        case "event_conflict":
            raise EffectConflict(operation_id=event_id(UUID(row.event)), paths=_differences(row, request.event_body or b"{}"))
        case "not_rejected":
            _refuse_successor(row)
        case "approval_mismatch":
            raise ApprovalError(reason=f"{row.detail}; ask for one for exactly this effect")
        case "dependency_missing":
            raise InvalidField(field=str(row.detail).partition(" ")[0], reason=str(row.detail).partition(" ")[2])
        case "retry_transaction":
            raise RetryTransaction(sqlstate="40001")
    raise ConfigurationError(
        f"acuse.stage answered {row.outcome!r}, which this version does not know; compare the schema's version"
    )


def _refuse_successor(row: _Found) -> NoReturn:
    state = None if row.status is None else State(row.status)
    if state is None:
        raise InvalidField(field="succeeds", reason="names no operation of this tenant; check the id")
    if state in (State.DISPATCHING, State.UNKNOWN):
        raise InDoubt(operation_id=row.operation_id)  # its first try may still take effect: only its own key may repeat it
    if state is State.REJECTED:
        raise InvalidField(field="succeeds", reason="takes up another action or target; it must keep both")
    raise InvalidField(field="succeeds", reason=f"names an operation that is {state}; only a rejected one can be taken up again")


def _differences(row: _Found, new: bytes) -> list[str]:
    # The stored body is gone once retention has dropped its month; the digests still tell that they differ.
    return [] if row.existing is None else differing_paths(bytes.fromhex(row.existing), new)
