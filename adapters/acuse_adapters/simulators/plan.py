"""The plan of faults: what to do to which write, as data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, model_validator

from acuse_adapters.simulators.fault import Fault

__all__ = ["FaultPlan", "ScriptEntry", "demo_plan", "load_plan"]


def _none_is_no_fault(value: Any) -> Any:  # noqa: ANN401  (a validator sees whatever the JSON holds)
    return None if value == "none" else value


Step = Annotated[Fault | None, BeforeValidator(_none_is_no_fault)]
Share = Annotated[float, Field(ge=0, le=1)]


class ScriptEntry(BaseModel):
    """A list of faults that matching writes walk through, one step per write; `"none"` or null is a healthy step.

    `marker` must equal the write's marker; `match` must occur in its method, path, target, subject or payload; without
    either every write matches. `per="marker"` (the default): each marker walks the list on its own, so that the outcome
    does not depend on concurrency. `per="entry"`: all matching writes share one walk.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    marker: str | None = None
    match: str | None = None
    faults: tuple[Step, ...]
    per: Literal["marker", "entry"] = "marker"

    def matches(self, marker: str | None, text: str) -> bool:
        """Whether a write with this marker and this text walks the list."""
        return (self.marker is None or self.marker == marker) and (self.match is None or self.match in text)

    def walk_key(self, marker: str | None) -> str:
        """Who walks: the marker, or everybody together."""
        return "" if self.per == "entry" else (marker or "")


class FaultPlan(BaseModel):
    """Rates, script and knobs. The first script entry that matches and is not used up decides; else the rates do.

    Times are in seconds of the simulator's clock, which tests may move.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = 0
    rates: dict[Fault, Share] = Field(default_factory=dict)
    script: tuple[ScriptEntry, ...] = ()
    late_seconds: NonNegativeFloat = 1.0
    late_silent: bool = False
    retry_after_seconds: NonNegativeInt = 1
    unauthorized_seconds: NonNegativeFloat = 1.0
    search_lag_seconds: NonNegativeFloat = 0.0
    journal_lag_seconds: NonNegativeFloat = 0.0
    key_retention_seconds: NonNegativeFloat = 7200.0
    stall_seconds: NonNegativeFloat = 60.0
    lookup_down: bool = False
    """Look-ups fail: HTTP reads answer 503, IMAP LOGIN answers NO."""

    @model_validator(mode="after")
    def _rates_leave_room(self) -> FaultPlan:
        if sum(self.rates.values()) > 1 + 1e-9:
            raise ValueError("rates: they add up to more than 1; lower some of them")
        return self


DEMO_RATES: dict[Fault, float] = {
    Fault.DROP_REPLY: 0.020,
    Fault.APPLY_LATE: 0.010,
    Fault.STALL: 0.008,
    Fault.STALL_APPLIED: 0.010,
    Fault.ERROR_AFTER_APPLY: 0.012,
    Fault.HALF_ANSWER: 0.008,
    Fault.RESET_AT_QUIT: 0.006,
    Fault.REFUSE_REPEAT: 0.004,
    Fault.UNAVAILABLE: 0.010,
    Fault.THROTTLE: 0.012,
    Fault.UNAUTHORIZED: 0.002,
    Fault.REFUSE: 0.004,
    Fault.REFUSE_AT_DOT: 0.002,
    Fault.DROP_BEFORE: 0.008,
    Fault.LOCKED: 0.006,
}


def demo_plan(seed: int) -> FaultPlan:
    """The plan of the demonstration: about 12 % of the writes go wrong, a few in a thousand are refused.

    `forget_key` is left out: a provider that breaks its promise about keys makes doubles that no client can prevent.
    The lags stay under what a contract could promise, so that a look-up can become conclusive within the demo.
    """
    return FaultPlan(
        seed=seed,
        rates=DEMO_RATES,
        late_seconds=1.0,
        unauthorized_seconds=0.5,
        search_lag_seconds=0.5,
        journal_lag_seconds=0.3,
        stall_seconds=20.0,
    )


def load_plan(text: str | None, seed: int) -> FaultPlan:
    """The plan from a command line: nothing, the word `demo`, JSON, or the path of a JSON file.

    `seed` counts unless the plan names its own. Raises pydantic's ValidationError, which names the field, or OSError.
    """
    if text is None:
        return FaultPlan(seed=seed)
    if text == "demo":
        return demo_plan(seed)
    source = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
    return with_seed(FaultPlan.model_validate_json(source), seed)


def with_seed(plan: FaultPlan, seed: int) -> FaultPlan:
    """The plan with this seed, unless it names its own."""
    return plan if "seed" in plan.model_fields_set else plan.model_copy(update={"seed": seed})
