"""The rows of the ledger in memory; fields are those of the tables."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from acuse.protocol import Finding, State
from acuse.testing.memory.transaction import Transaction
from acuse.testing.message import HostMessage

__all__ = ["Approval", "Attempt", "Entry", "Event", "Evidence", "Operation"]


@dataclass(slots=True)
class Attempt:
    """One try; `doubtful` until an outcome or an absence clears it."""

    number: int
    fence: int
    basis: str
    contract_version: str
    dispatched_at: datetime
    deadline_seconds: float
    doubtful: bool = True
    settled_at: datetime | None = None
    outcome: str | None = None
    reason: str | None = None
    needs_review: bool = False
    provider_request_id: str | None = None
    result_id: str | None = None
    result_version: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One finding, as it was recorded."""

    source: str
    source_id: str
    attempt: int
    finding: Finding
    started_at: datetime
    recorded_at: datetime
    version: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger."""

    version: int
    at: datetime
    kind: str
    source: State | None
    target: State
    by: str
    actor: str | None = None
    reason: str | None = None
    outcome_code: str | None = None
    fence: int | None = None
    attempt: int | None = None


@dataclass(slots=True)
class Operation:
    """One operation, with what hangs on it."""

    id: UUID
    seq: int
    tenant: str
    event_id: UUID | None
    workflow: str | None
    flow_version: str | None
    call: str | None
    effect_key: str
    generation: int
    succeeds: UUID | None
    compensates: UUID | None
    action: str
    account: str
    target: str
    body: bytes
    digest: bytes
    approval_id: UUID | None
    ordering_key: str | None
    not_after: datetime | None
    deliberate: bool
    value: Decimal | None
    on_settled: str | None
    trace: str | None
    created_at: datetime
    updated_at: datetime
    handed_at: datetime | None
    needs: tuple[UUID, ...] = ()
    transaction: Transaction | None = None
    state: State = State.PREPARED
    outcome_code: str | None = None
    reason: str | None = None
    charged: bool = False
    doubts: int = 0
    fence: int = 0
    version: int = 1
    first_sent_at: datetime | None = None
    retry_until: datetime | None = None
    risk_accepted_at: datetime | None = None
    claim_until: datetime | None = None
    due_at: datetime | None = None
    waiting: str | None = None
    held: str | None = None
    handovers: int = 0
    put_off: str | None = None
    provider_request_id: str | None = None
    result_id: str | None = None
    result_version: str | None = None
    evidence_at: datetime | None = None
    settled_at: datetime | None = None
    attempts: list[Attempt] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    @property
    def provider(self) -> str:
        return self.action.partition(".")[0]

    @property
    def pending(self) -> bool:
        """Whether it is not final."""
        return not self.state.final

    @property
    def in_the_air(self) -> bool:
        """Whether a request of it may be on the wire, or may have taken effect."""
        return self.state in (State.DISPATCHING, State.UNKNOWN)

    def change(self, at: datetime, **values: Any) -> None:  # noqa: ANN401 - the fields above
        """Set fields. Every change raises the record version."""
        self.version += 1
        self.updated_at = at
        for name, value in values.items():
            setattr(self, name, value)

    def note(self, kind: str, source: State | None, by: str, **more: Any) -> None:  # noqa: ANN401 - the fields of Entry
        """Write a line of the ledger about the change that was just made."""
        self.entries.append(Entry(self.version, self.updated_at, kind, source, self.state, by, **more))


@dataclass(frozen=True, slots=True)
class Event:
    """What was published."""

    id: UUID
    tenant: str
    name: str
    key: str | None
    workflow: str | None
    body: bytes
    digest: bytes


@dataclass(slots=True, kw_only=True)
class Approval:
    """One authorisation, asked for or granted. digest None: a pattern."""

    id: UUID
    tenant: str
    action: str
    target: str | None = None
    target_prefix: str | None = None
    digest: bytes | None = None
    effect_key: str | None = None
    workflow: str | None = None
    call: str | None = None
    requested_at: datetime
    requested_by: str | None = None
    request_reason: str | None = None
    callback: str | None = None
    expiry_message: HostMessage | None = None
    followed_by: UUID | None = None
    superseded_at: datetime | None = None
    decision: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str | None = None
    expires_at: datetime | None = None
    max_uses: int | None = None
    used: int = 0
    sum_field: str | None = None
    max_sum: Decimal | None = None
    summed: Decimal = Decimal(0)
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    revoke_reason: str | None = None
    body: bytes | None = None
