"""One state of everything: our record, the wire, the provider, and the evidence on the way. Immutable and hashable."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from acuse.protocol import RetryContract, State

__all__ = ["NEVER", "TICK", "Action", "Attempt", "Look", "Remembered", "Request", "Step", "World", "moment", "ticks"]

TICK = timedelta(seconds=5)
"""As long as two reads must be apart, and longer than the first back-offs: so each rule has its own tick."""

NEVER = -1
_START = datetime(2026, 1, 1, tzinfo=UTC)


def moment(tick: int) -> datetime:
    """Return the time of a tick, as the protocol sees it."""
    return _START + tick * TICK


def ticks(duration: timedelta) -> int:
    """Return a duration in ticks; it must be a whole number of them."""
    whole, rest = divmod(duration, TICK)
    if rest:
        raise ValueError(f"{duration} is not a whole number of ticks")
    return whole


class Attempt(NamedTuple):
    """Our own record of one try."""

    sent: int
    doubtful: bool


class Request(NamedTuple):
    """What became of the bytes of one attempt at the provider.

    `stage`: wire (may still arrive), running, done. `answer`: what the provider said and nobody has used yet.
    `target`: the target as it was when the bytes were pinned (a provider's precondition compares with it).
    """

    stage: str
    target: str
    arrived: int = NEVER
    answer: str = ""


class Remembered(NamedTuple):
    """The provider's record of a key: what it would answer again, and when it received the first request."""

    says: str  # running, accepted, refused
    since: int


class Look(NamedTuple):
    """A read: what it found, when it started, of which attempt it speaks."""

    kind: str  # found, differs, unchanged, absent, refused
    started: int
    attempt: int
    copies: int = 1


class World(NamedTuple):
    """Everything at one moment."""

    now: int = 0
    # ours
    state: State = State.PREPARED
    doubts: int = 0
    first_sent: int = NEVER
    attempts: tuple[Attempt, ...] = ()
    findings: tuple[Look, ...] = ()
    looking: Look | None = None
    plan: str = ""  # a verdict that was taken under this record version and not yet carried out
    risk_accepted: bool = False
    # theirs
    requests: tuple[Request, ...] = ()
    key: Remembered | None = None
    effects: int = 0
    applied_at: int = NEVER
    target: str = "original"  # original, ours, theirs
    changed_at: int = NEVER  # when a person changed the target
    marker_gone: bool = False
    overwrote: bool = False  # a repeat of ours undid a person's change


class Action(NamedTuple):
    """One possible next state, with what happened in words; `problem` if the step itself breaks a rule."""

    what: str
    world: World
    problem: str = ""


class Step(NamedTuple):
    """The contract in ticks."""

    deadline: int
    in_flight: int
    retention: int
    margin: int
    lag: int

    @classmethod
    def of(cls, contract: RetryContract) -> "Step":
        """Read the figures of a contract."""
        flight, key, lookup = contract.max_in_flight, contract.key, contract.lookup
        return cls(
            deadline=ticks(contract.deadline),
            in_flight=ticks(flight.value) if flight else 99,
            retention=ticks(key.retention.value) if key else 0,
            margin=ticks(key.margin) if key else 0,
            lag=ticks(lookup.visible_within.value) if lookup and lookup.visible_within else 99,
        )
