"""What a second execution of a tool would mean, and what the gate does about it. Pure."""

from enum import StrEnum
from typing import Literal

__all__ = ["Begun", "Nature", "Need", "Next", "Risk", "next_step"]


class Nature(StrEnum):
    """What a tool does to the world, and with it what a call that may have run before means."""

    READ_ONLY = "read_only"  # changes nothing: it runs again
    OVERWRITES = "overwrites"  # leaves the same state however often: it runs again, if nobody wrote there since
    ENSURES = "ensures"  # looks first and makes what is missing: it looks again
    APPENDS = "appends"  # adds something each time: it does not run again, unless a check of its own says that it has not run
    EFFECT = "effect"  # an operation of the ledger, which knows


class Risk(StrEnum):
    """What a wrong or a second execution costs. Declared with a sentence that says why."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Need(StrEnum):
    """Whether a person has to approve a call before it is carried out."""

    NOT_NEEDED = "not_needed"
    REQUIRED = "required"


Begun = Literal["none", "same_owner", "earlier_owner"]
"""Who has begun the call already: nobody, this owner of the run, or one that is gone."""

Next = Literal["run", "look", "in_progress", "unknown"]


def next_step(nature: Nature, begun: Begun, *, has_check: bool, superseded: bool = False) -> Next:
    """What to do with a call of a tool that the host runs itself, and that has no answer.

    has_check: the tool can say whether it has run. superseded: a later call wrote to the same target.
    run: it is safe to. look: ask the tool's own look-up first. unknown: it may have run, and running it again may do harm.
    """
    if nature is Nature.READ_ONLY:
        return "run"
    if begun == "same_owner":
        return "in_progress"  # of the same owner: it runs at this moment, or its end was never heard of
    if nature is Nature.ENSURES:
        return "look"
    if begun == "none":
        return "run"
    if nature is Nature.OVERWRITES:
        return "unknown" if superseded else "run"
    return "look" if has_check else "unknown"
