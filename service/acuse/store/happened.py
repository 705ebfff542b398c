"""Whether an intent is there already: the first question of the tool gate, asked before anybody is asked for an approval."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from acuse.identifier import operation_id
from acuse.protocol import State
from acuse.store.caller import Row
from acuse.store.statement import Statement

__all__ = ["HAPPENED", "Happened", "happened"]

HAPPENED: Final = Statement(
    """
    (select 'key', cast(id as text), status, outcome_code, encode(digest, 'hex'), generation from acuse.operation
      where tenant = :tenant and effect_key = :key order by generation desc limit 1)
    union all
    (select 'doubt', cast(id as text), status, outcome_code, encode(digest, 'hex'), generation from acuse.operation
      where tenant = :tenant and workflow_id = :workflow and action = :action and target = :target
        and workflow_id is not null and not deliberate and effect_key <> :key
        and (status in ('dispatching', 'unknown') or status = 'prepared' and digest = decode(:digest, 'hex'))
      order by seq limit 1)
    """
)
"""The operation that has the key, and one of the same workflow that is in the slot of what is in doubt, as `stage` judges it."""


@dataclass(frozen=True, slots=True)
class Happened:
    """An operation that stands for an intent, or in its way. same_content: of the same action, target and payload."""

    operation_id: str
    state: State
    outcome_code: str | None
    same_content: bool
    in_doubt: bool


def happened(rows: Sequence[Row], digest: bytes) -> Happened | None:
    """What stands for the intent: its own operation before one that is in doubt."""
    found = sorted(rows, key=lambda row: row[0] != "key")
    if not found:
        return None
    how, identity, status, code, stored, _generation = found[0]
    return Happened(operation_id(UUID(identity)), State(status), code, bytes.fromhex(stored) == digest, how == "doubt")
