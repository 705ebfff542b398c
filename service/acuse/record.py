"""What the ledger says about operations, as values. Times are the database's, with a time zone; ids have their prefix."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from acuse import sentence
from acuse.protocol import Receipt, State

__all__ = ["HistoryEntry", "OperationRecord", "Page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """An operation as it was at `read_at`.

    version: raised by every change; an operator's act names the one that it judged. doubts: attempts whose end is not known.
    first_sent_at, retry_until: since when it may have happened, and until when a repeat with the same key is safe.
    Where a pending operation is: handed_at (in the outbox or the broker), claim_until (with a worker), due_at (wants work from
    then on), waiting (`dependency`, `ordering` or `approval`), held (only a person can go on, and why). put_off: what of its
    account it waits for while due_at lies ahead: `account_paused`, `breaker_open` or `account_busy` (a limit of calls).
    waits_for: operations that must be confirmed first and are not. value: in the host's own unit.
    """

    operation_id: str
    tenant: str
    state: State
    version: int
    read_at: datetime
    event_id: str | None
    workflow: str | None
    flow_version: str | None
    call: str | None
    effect_key: str
    generation: int
    succeeds: str | None
    compensates: str | None
    action: str
    provider: str
    account: str
    target: str
    digest: str
    approval_id: str | None
    ordering_key: str | None
    not_after: datetime | None
    distinct: bool
    value: Decimal | None
    on_settled: str | None
    trace: str | None
    outcome_code: str | None
    reason: str | None
    doubts: int
    attempts: int
    fence: int
    first_sent_at: datetime | None
    retry_until: datetime | None
    handed_at: datetime | None
    claim_until: datetime | None
    due_at: datetime | None
    waiting: Literal["dependency", "ordering", "approval"] | None
    held: str | None
    put_off: Literal["account_paused", "breaker_open", "account_busy"] | None = None
    handovers: int
    waits_for: tuple[str, ...]
    provider_request_id: str | None
    result_id: str | None
    result_version: str | None
    evidence_at: datetime | None
    delivery_status: str | None
    created_at: datetime
    updated_at: datetime
    settled_at: datetime | None

    @property
    def receipt(self) -> Receipt | None:
        """What the provider made or changed; only a confirmed operation has one."""
        if self.state is not State.CONFIRMED or self.result_id is None:
            return None
        return Receipt(self.result_id, self.result_version, self.provider_request_id)

    @property
    def why(self) -> str:
        """Why it is in this state, as a sentence."""
        return sentence.why(self)

    @property
    def what_next(self) -> str:
        """What happens next, and who has to do it, as a sentence."""
        return sentence.what_next(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One thing that happened to an operation.

    kind: `transition` (an entry of the ledger), `attempt` (what was sent) or `evidence` (what was found).
    what: staged, dispatched, settled, …; for evidence the finding. by: host, worker, recover, evidence or operator.
    actor: who, by name, or the source of evidence. version: the record version that it made. detail: facts of its kind.
    """

    kind: Literal["transition", "attempt", "evidence"]
    at: datetime
    version: int
    what: str
    by: str
    actor: str | None
    why: str | None
    from_state: State | None
    to_state: State | None
    attempt: int | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """Some operations, newest first; `before` is the cursor for the next page, None at the end."""

    operations: tuple[OperationRecord, ...]
    before: str | None
