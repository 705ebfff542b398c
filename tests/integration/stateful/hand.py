"""What one worker has in its hands: a claim, and how far it came with it."""

from dataclasses import dataclass
from uuid import UUID

from acuse.protocol import Retry, RetryContract, State, Verdict
from acuse.store.claim import Claimed
from acuse.store.dispatch import Dispatched
from acuse.store.evidence import View
from stateful.contracts import CONTRACTS
from stateful.provider import Request

__all__ = ["Hand"]


@dataclass(slots=True)
class Hand:
    """One claim of one worker. `asked`: when it asked to dispatch, from which on its deadline runs."""

    claimed: Claimed
    view: View | None = None
    verdict: Verdict | None = None
    asked: float = 0.0
    dispatched: Dispatched | None = None
    request: Request | None = None
    settled: bool = False

    @property
    def id(self) -> UUID:
        return self.claimed.id

    @property
    def contract(self) -> RetryContract:
        return CONTRACTS[self.claimed.action]

    @property
    def place(self) -> tuple[str, str]:
        return self.claimed.account, self.claimed.target

    @property
    def next(self) -> str:
        """What comes next: look, judge, dispatch, send, settle."""
        if self.dispatched is not None:
            return "settle" if self.request is not None else "send"
        if self.claimed.state is State.PREPARED or isinstance(self.verdict, Retry):
            return "dispatch"
        return "look" if self.verdict is None else "judge"

    def too_late(self, now: float) -> bool:
        """Whether the deadline is over, so that nothing may be sent any more."""
        return now - self.asked >= self.contract.deadline.total_seconds()
