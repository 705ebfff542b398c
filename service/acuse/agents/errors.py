"""Why a run does not go on, or not by this owner.

    RunError (an AcuseError)
    ├── RunExists              this id was used by a run before
    ├── RunOwned               another owner's lease lasts
    ├── RunLost                another owner has taken the run
    ├── StaleRun               the handle is older than what is stored; nothing was written
    ├── RunEnded               it is finished, cancelled or exhausted, or its version of the flow was withdrawn
    ├── TurnsExhausted         it has used the turns, or lost the owners, that it may
    ├── FlowVersionMismatch    it was begun by another version of the flow
    ├── CallsUnanswered        calls of the last turn have no answer yet
    └── CallAnswered           the call has another answer already

Nothing was written when one of these is raised, and your transaction is still usable.
"""
# ruff: noqa: N818 - names state the fact, the tree says that they are errors

from collections.abc import Sequence
from datetime import datetime

from acuse.errors import AcuseError

__all__ = [
    "CallAnswered",
    "CallsUnanswered",
    "FlowVersionMismatch",
    "RunEnded",
    "RunError",
    "RunExists",
    "RunLost",
    "RunOwned",
    "StaleRun",
    "TurnsExhausted",
]


class RunError(AcuseError):
    """Base of what can stand between an owner and its run. Field: `run_id`."""

    def __init__(self, run_id: str, text: str) -> None:
        super().__init__(f"run {run_id!a} {text}")
        self.run_id = run_id


class RunExists(RunError):
    """A run of this id was begun before. Field: `status`."""

    def __init__(self, *, run_id: str, status: str) -> None:
        super().__init__(run_id, f"was begun before and is {status}; resume it, or choose another id")
        self.status = status


class RunOwned(RunError):
    """Another owner holds it. Fields: `owner`, `until` (the end of its lease, unless it renews it)."""

    def __init__(self, *, run_id: str, owner: str, until: datetime) -> None:
        super().__init__(run_id, f"is owned by {owner!a} until {until.isoformat()}; wait for that, or let it give the run back")
        self.owner = owner
        self.until = until


class RunLost(RunError):
    """Somebody else has taken the run: stop at once. Fields: `fence` (yours), `taken_by`."""

    def __init__(self, *, run_id: str, fence: int, taken_by: str | None) -> None:
        who = f"by {taken_by!a} " if taken_by else ""
        super().__init__(run_id, f"was taken over {who}after fencing token {fence}; stop working on it")
        self.fence = fence
        self.taken_by = taken_by


class StaleRun(RunError):
    """The handle is not the newest. Fields: `fence`, `state_version` (yours), `found_fence`, `found_version`."""

    def __init__(self, *, run_id: str, fence: int, state_version: int, found_fence: int, found_version: int) -> None:
        super().__init__(
            run_id,
            f"is at token {found_fence}, version {found_version}; this handle has token {fence}, version {state_version}: "
            "go on with the handle that the last write returned, or stop if another owner has taken the run",
        )
        self.fence = fence
        self.state_version = state_version
        self.found_fence = found_fence
        self.found_version = found_version


class RunEnded(RunError):
    """It goes no further. Field: `status` (finished, cancelled, exhausted; withdrawn: its version of the flow was)."""

    def __init__(self, *, run_id: str, status: str) -> None:
        super().__init__(run_id, f"is {status}; start another one, or fork it where that helps")
        self.status = status


class TurnsExhausted(RunError):
    """Fields: `turns` and `max_turns`, `deaths` (owners lost in a row, each without storing anything)."""

    def __init__(self, *, run_id: str, turns: int, max_turns: int, deaths: int) -> None:
        super().__init__(
            run_id,
            f"has used {turns} of {max_turns} turns and lost {deaths} owners since it last came forward; "
            "end it with finish(exhausted=True) or cancel it",
        )
        self.turns = turns
        self.max_turns = max_turns
        self.deaths = deaths


class FlowVersionMismatch(RunError):
    """The run was begun by another version of the flow. Fields: `stored`, `given`."""

    def __init__(self, *, run_id: str, stored: str, given: str) -> None:
        super().__init__(
            run_id,
            f"was begun by flow version {stored!a}, this code is {given!a}; resume it with that one, or fork it on purpose",
        )
        self.stored = stored
        self.given = given


class CallsUnanswered(RunError):
    """Calls of the last turn have no answer, and a model takes nothing else before it has them. Field: `calls` (their ids)."""

    def __init__(self, *, run_id: str, calls: Sequence[str]) -> None:
        super().__init__(run_id, f"has calls without an answer: {', '.join(map(ascii, calls))}; answer them all first")
        self.calls = tuple(calls)


class CallAnswered(RunError):
    """The call was given another answer before, and that one is what is told. Fields: `call`, `outcome` (the stored one's)."""

    def __init__(self, *, run_id: str, call: str, outcome: str) -> None:
        super().__init__(run_id, f"has an answer for {call!a} already ({outcome}); what was told to a model never changes")
        self.call = call
        self.outcome = outcome
