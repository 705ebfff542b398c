"""What the decision looks at: an operation in doubt, its attempts, contract and findings, and the moments that follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from acuse.protocol.contract import Consistency, RetryContract
from acuse.protocol.finding import Absent, Dated, Unavailable
from acuse.protocol.state import State
from acuse.protocol.window import key_usable_until, nothing_in_flight_from

__all__ = ["AttemptView", "Case", "OperationView"]


@dataclass(frozen=True, slots=True)
class OperationView:
    """What the decision needs to know of an operation. Times are the database's, in UTC."""

    id: str
    state: State
    doubts: int
    first_sent_at: datetime | None
    claim_live: bool = False  # another worker still holds the right to write
    standing: str | None = None  # None: approval, budget and flow version stand; else why not, in words
    has_provider_id: bool = False
    risk_accepted: bool = False  # a person accepted, on record, that a repeat may do it twice


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One try. `review`: its answer said that no look-up can help."""

    number: int
    dispatched_at: datetime
    doubtful: bool
    review: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """An operation and everything known of it at `now`; findings in the order of their reads."""

    operation: OperationView
    attempts: Sequence[AttemptView]
    contract: RetryContract
    findings: Sequence[Dated]
    now: datetime

    @property
    def latest(self) -> Dated | None:
        """The last finding, of whatever kind."""
        return self.findings[-1] if self.findings else None

    @property
    def last_attempt(self) -> AttemptView | None:
        """The attempt that a new read has to speak of."""
        return self.attempts[-1] if self.attempts else None

    @property
    def can_look(self) -> bool:
        """Whether the effect can be found at all."""
        lookup = self.contract.lookup
        return lookup is not None and (not lookup.needs_provider_id or self.operation.has_provider_id)

    @property
    def needs_person(self) -> bool:
        """Whether an attempt in doubt was answered with something that no look-up and no repeat can clear up."""
        return any(a.doubtful and a.review for a in self.attempts)

    def key_until(self) -> datetime | None:
        """Return the end of the key's window; None without a key or a first send."""
        first = self.operation.first_sent_at
        return None if first is None else key_usable_until(self.contract, first)

    def quiet_from(self) -> datetime | None:
        """Return when no doubtful attempt can act at the provider any more; None if nobody says."""
        sent = [a.dispatched_at for a in self.attempts if a.doubtful]
        return nothing_in_flight_from(self.contract, max(sent)) if sent else None

    def readable_from(self) -> datetime | None:
        """Return from when a read that finds nothing is proof; None if it never is."""
        quiet, lookup = self.quiet_from(), self.contract.lookup
        if quiet is None or lookup is None or not self.can_look:
            return None
        if lookup.consistency is Consistency.STRONG:
            return quiet
        return None if lookup.visible_within is None else quiet + lookup.visible_within.value

    def silent_since(self) -> datetime | None:
        """Return when the first of the last reads began that all failed; None if the last one was answered."""
        since = None
        for read in reversed(self.findings):
            if not isinstance(read.finding, Unavailable):
                break
            since = read.started_at
        return since

    def speaks(self, dated: Dated) -> bool:
        """Say whether a read speaks of the last attempt: one that began before it says nothing about it."""
        last = self.last_attempt
        return last is not None and dated.attempt == last.number and dated.started_at >= last.dispatched_at

    def refusal_stands(self, dated: Dated) -> bool:
        """Say whether the provider's record of a refusal speaks for everything that was sent.

        The record may be of an older attempt. While a later one is in flight, it may still be carried out, so with several
        attempts only a read counts that began when none of them could act any more.
        """
        quiet = self.quiet_from()
        return len(self.attempts) <= 1 or (quiet is not None and dated.started_at >= quiet)

    def absent(self, dated: Dated) -> bool:
        """Say whether a read found nothing of ours.

        A natural upsert writes into a target that others write to as well. Once somebody changed it, a missing marker may
        have been there and be overwritten, and a repeat would undo their change: only an unchanged target counts.
        """
        finding = dated.finding
        return isinstance(finding, Absent) and (self.contract.natural_upsert is None or finding.target_unchanged)

    def absences_from(self, start: datetime) -> list[datetime]:
        """Return the starts of the reads that found nothing, spoke of the last attempt and began at or after `start`."""
        return sorted(f.started_at for f in self.findings if self.absent(f) and self.speaks(f) and f.started_at >= start)
