"""The retry contract: what a provider promises about repeating a call and finding out what happened. It is data.

A contract that is half-true cannot be constructed: every promise that a decision rests on needs the figures of that decision.
"""

from datetime import date, timedelta
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from acuse.protocol.duration import Figure

__all__ = ["LONGEST_DEADLINE", "Consistency", "Key", "Lookup", "Marker", "NaturalUpsert", "Replays", "RetryContract"]

LONGEST_DEADLINE = timedelta(seconds=45)
"""The longest total deadline of a send. A send does not renew its claim, so it must end well inside the lease of 60 s."""


class Replays(StrEnum):
    """What a provider answers when a key comes again."""

    FIRST_ANSWER = "first_answer"  # whatever it said first, errors included
    SUCCESS_ONLY = "success_only"  # a stored success; a failure runs again
    NOTHING = "nothing"  # the repeat has no effect, and says nothing about the first


class Consistency(StrEnum):
    """What a look-up sees."""

    STRONG = "strong"  # every change that was answered or applied before the look-up started
    EVENTUAL = "eventual"  # it lags


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Key(_Part):
    """An idempotency key: where it is sent, how long it is remembered, what a repeat is answered."""

    header: str = Field(min_length=1)
    max_length: int = Field(ge=35)  # the key is the operation id, and that has 35 characters
    scope: str = Field(default="account", min_length=1)
    retention: Figure
    margin: timedelta  # taken off the retention: clocks, queues at the provider
    replays: Replays
    on_other_body: int | None = None  # status for the same key with another body
    on_concurrent: int | None = None  # status while the first request still runs; None: undocumented


class NaturalUpsert(_Part):
    """Repeating the call leaves the same thing: it is addressed by `by`. `precondition` names the provider's own guard."""

    by: str = Field(min_length=1)
    precondition: str | None = None


class Marker(_Part):
    """Where the operation id is written into the effect, and whether it can be read back."""

    where: str = Field(min_length=1)
    readable_back: bool = True


class Lookup(_Part):
    """How the effect can be found without another change."""

    by: str = Field(min_length=1)
    consistency: Consistency
    visible_within: Figure | None = None  # a stated bound on the lag; None: nobody states one
    needs_provider_id: bool = False

    @model_validator(mode="after")
    def _a_strong_look_up_has_no_lag(self) -> Self:
        if self.consistency is Consistency.STRONG and self.visible_within is not None:
            raise ValueError("a strongly consistent look-up has no lag: leave visible_within out")
        return self


class RetryContract(_Part):
    """What one action of one provider promises. Frozen, dated, sourced; stored by `version` on each attempt.

    Raises `pydantic.ValidationError` for a contract that promises less than a decision needs, naming the field.
    """

    version: str = Field(min_length=1, max_length=40)
    verified_on: date
    source: str = Field(min_length=1)
    deadline: timedelta  # total for one send, connect included
    again_means: str = Field(min_length=10)  # what a second execution does to a person, in one sentence
    key: Key | None = None
    natural_upsert: NaturalUpsert | None = None
    marker: Marker | None = None
    lookup: Lookup | None = None
    max_in_flight: Figure | None = None  # how long after our deadline the provider may still act; None: nobody says
    token_spent_before_effect: bool = False
    refused: frozenset[int] = frozenset()
    refusals_cover_key: frozenset[int] = frozenset()
    not_executed: frozenset[int] = frozenset()
    account_faults: frozenset[int] = frozenset()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for problem in (
            self._deadline_problem(),
            self._status_problem(),
            self._key_problem(),
            self._lookup_problem(),
            self._upsert_problem(),
        ):
            if problem is not None:
                raise ValueError(problem)
        return self

    def _deadline_problem(self) -> str | None:
        if not timedelta(0) < self.deadline <= LONGEST_DEADLINE:
            return f"deadline must be above 0 and at most {LONGEST_DEADLINE.total_seconds():.0f} s, inside the lease"
        return None

    def _status_problem(self) -> str | None:
        groups = {"refused": self.refused, "not_executed": self.not_executed, "account_faults": self.account_faults}
        seen: dict[int, str] = {}
        for name, statuses in groups.items():
            for status in sorted(statuses):
                if status < 300:
                    return f"{name} contains {status}, which is an acceptance"
                if status in seen:
                    return f"status {status} is in {seen[status]} and in {name}: it can mean one thing only"
                seen[status] = name
        if server_errors := sorted(s for s in self.refused if s >= 500):
            return f"refused contains {server_errors[0]}: a server error does not promise that nothing was done"
        if self.refusals_cover_key - self.refused:
            return "refusals_cover_key must be a part of refused"
        if self.refusals_cover_key and self.key is None:
            return "refusals_cover_key needs a key to cover"
        return self._repeat_status_problem()

    def _repeat_status_problem(self) -> str | None:
        if self.key is None:
            return None
        if self.refusals_cover_key and self.key.replays is not Replays.FIRST_ANSWER:
            # Else the refusal is forgotten, and the first request, arriving late, is carried out after all.
            return "refusals_cover_key needs key.replays to be first_answer: only a stored refusal speaks for every attempt"
        if self.key.on_concurrent in self.refused:
            return f"key.on_concurrent is {self.key.on_concurrent}, which is in refused: the first request may still succeed"
        if self.key.on_other_body in self.refusals_cover_key:
            return f"key.on_other_body is {self.key.on_other_body}, which is in refusals_cover_key: the key is known, not refused"
        return None

    def _key_problem(self) -> str | None:
        if self.key is None:
            return None
        if self.max_in_flight is None:
            return "key needs max_in_flight: without it nobody can say until when a repeat is safe"
        if self.key.margin < timedelta(0):
            return "key.margin cannot be negative"
        if self.key.retention.value <= self.key.margin + self.max_in_flight.value + self.deadline:
            return "key.retention is not longer than margin + max_in_flight + deadline: its window would never be open"
        return None

    def _lookup_problem(self) -> str | None:
        if self.lookup is None:
            return None
        if self.marker is None or not self.marker.readable_back:
            return "lookup needs a marker with readable_back: a matching end state without our marker proves nothing"
        return None

    def _upsert_problem(self) -> str | None:
        if self.natural_upsert is not None and self.lookup is None:
            return "natural_upsert needs a lookup: it is repeated only after the target was seen unchanged"
        return None
