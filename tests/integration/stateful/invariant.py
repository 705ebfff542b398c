"""What must hold after every step. Each function looks at what stands in the database and raises AssertionError in words."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

from acuse.protocol import By, State, key_usable_until, legal
from stateful.contracts import CONTRACTS
from stateful.provider import Provider
from stateful.snapshot import Operation, Snapshot

__all__ = ["INVARIANTS", "Truth"]


@dataclass(slots=True)
class Truth:
    """What really happened: at the provider, and what people said about an operation, with how often."""

    provider: Provider
    said: dict[tuple[UUID, str], int] = field(default_factory=dict)

    def say(self, operation: UUID, act: str) -> None:
        """Remember an act of a person."""
        self.said[operation, act] = self.said.get((operation, act), 0) + 1

    def acts(self, operation: UUID, act: str) -> int:
        """Return how often a person did it."""
        return self.said.get((operation, act), 0)


def the_ledger_explains_the_state(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """The entries of an operation are a chain of legal arrows from its birth to where it stands."""
    for one in now.operations.values():
        entries = now.entries[one.id]
        first, last = entries[0], entries[-1]
        assert (first.from_status, first.to_status, first.kind) == (None, "prepared", "staged"), f"{one.id} was born {first}"
        assert last.to_status == one.status, f"{one.id} is {one.status}, its ledger ends with {last}"
        assert last.version <= one.version, f"{one.id} has version {one.version}, its ledger {last.version}"
        for earlier, later in pairwise(entries):
            assert earlier.version < later.version
            assert later.from_status == earlier.to_status, f"{one.id}: {later} does not follow {earlier}"
        for entry in entries:
            moved = entry.from_status != entry.to_status
            source = None if entry.from_status is None else State(entry.from_status)
            assert not moved or legal(source, State(entry.to_status), By(entry.by)), f"{one.id}: illegal arrow {entry}"


def nothing_is_taken_back(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """Tokens and versions rise, final is final, entries stay."""
    for old in before.operations.values():
        new = now.operations[old.id]
        assert new.fence >= old.fence, f"the token of {old.id} fell"
        assert new.version >= old.version
        assert new.version > old.version or new.status == old.status, f"{old.id} moved without a new version"
        assert not old.final or new.status == old.status, f"{old.id} was {old.status}, now {new.status}"
        kept = now.entries[old.id][: len(before.entries[old.id])]
        assert kept == before.entries[old.id], f"the ledger of {old.id} was rewritten"


def no_effect_happens_twice(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """One operation, one effect; one more for each time that a person accepted the risk of it."""
    for one in now.operations.values():
        count = len(truth.provider.effects_of(one.id))
        assert count <= 1 + truth.acts(one.id, "accept_risk"), f"{one.id} happened {count} times"


def nothing_stands_behind_prepared_and_rejected(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """Of what is prepared or rejected nothing has happened, and nothing on the wire can make it happen."""
    for one in now.operations.values():
        if one.status == "prepared" or (one.status == "rejected" and not truth.acts(one.id, "reject")):
            assert not truth.provider.effects_of(one.id), f"{one.id} is {one.status}, and it has happened"
            assert not truth.provider.may_still_happen(one.id), f"{one.id} is {one.status}, and it may still happen"


def confirmed_has_happened(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """What is confirmed has happened, or a person said so."""
    for one in now.operations.values():
        if one.status == "confirmed" and not truth.acts(one.id, "confirm"):
            assert truth.provider.effects_of(one.id), f"{one.id} is confirmed, and it never happened"


def nothing_is_lost(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """Each pending operation is in one of the five places, a final one in none."""
    for one in now.operations.values():
        places = [one.handed_at, one.claim_until, one.due_at, one.waiting, one.held]
        somewhere = any(place is not None for place in places)
        assert somewhere is not one.final, f"{one.id} is {one.status}, and is {'somewhere' if somewhere else 'nowhere'}"


def doubts_are_the_attempts_in_doubt(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """Every attempt in doubt is counted, and nothing else but a person's suspicion."""
    for one in now.operations.values():
        attempts = now.attempts.get(one.id, [])
        assert len(attempts) == one.attempts, f"{one.id} counts {one.attempts} attempts and has {len(attempts)}"
        if one.final:
            continue
        doubtful = sum(attempt.doubtful for attempt in attempts)
        most = doubtful + truth.acts(one.id, "suspect")
        assert doubtful <= one.doubts <= most, f"{one.id} counts {one.doubts} doubts and has {doubtful}"


def one_of_a_chain_is_in_the_air(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """Of one ordering key at most one is dispatching or unknown."""
    chains = [one.chain for one in now.pending if one.in_the_air and one.chain is not None]
    assert len(chains) == len(set(chains)), f"two of a chain are in the air: {chains}"


def budgets_are_kept(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """An approval is used once for each operation that was ever dispatched under it, and never more often than it allows."""
    for approval in now.approvals.values():
        under = [one for one in now.operations.values() if one.approval_id == approval.id]
        charged = sum(one.charged for one in under)
        assert approval.used == charged, f"approval {approval.id} is used {approval.used} times by {charged} operations"
        assert approval.max_uses is None or approval.used <= approval.max_uses
        for one in under:
            assert one.charged == (one.attempts > 0), f"{one.id} has {one.attempts} attempts, and charged is {one.charged}"


def attempts_are_pinned(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """Every attempt has the operation's own key, a token of its own and the next number."""
    for operation, attempts in now.attempts.items():
        fences = [attempt.fence for attempt in attempts]
        assert sorted(set(fences)) == fences, f"{operation} has attempts with the tokens {fences}"
        assert {attempt.provider_key for attempt in attempts} == {f"op_{operation.hex}"}
        for number, attempt in enumerate(attempts, 1):
            assert attempt.number == number


def a_window_belongs_to_the_first_send(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """Until when a key may be used counts from the first send that is in doubt, however often it was sent since."""
    for one in now.operations.values():
        if one.retry_until is not None:
            assert one.first_sent_at is not None
            until = key_usable_until(CONTRACTS[one.action], one.first_sent_at)
            assert one.retry_until == until, f"{one.id} may be repeated until {one.retry_until}, its key is good until {until}"


def one_operation_per_intent(before: Snapshot, now: Snapshot, truth: Truth) -> None:
    """An effect key stands for one operation a generation, and a generation only follows a rejected one."""
    known: dict[tuple[str, str, int], Operation] = {}
    for one in now.operations.values():
        assert (one.tenant, one.effect_key, one.generation) not in known
        known[one.tenant, one.effect_key, one.generation] = one
    for (tenant, key, generation), one in known.items():
        if generation:
            assert known[tenant, key, generation - 1].status == "rejected", f"{one.id} follows what is not rejected"


Invariant = Callable[[Snapshot, Snapshot, Truth], None]

INVARIANTS: tuple[Invariant, ...] = (
    the_ledger_explains_the_state,
    nothing_is_taken_back,
    no_effect_happens_twice,
    nothing_stands_behind_prepared_and_rejected,
    confirmed_has_happened,
    nothing_is_lost,
    doubts_are_the_attempts_in_doubt,
    one_of_a_chain_is_in_the_air,
    budgets_are_kept,
    attempts_are_pinned,
    a_window_belongs_to_the_first_send,
    one_operation_per_intent,
)
