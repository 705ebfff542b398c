"""Durations as a contract writes them, each with the basis on which it is believed."""

from datetime import date, timedelta
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

__all__ = ["Figure", "Hours", "Minutes", "Seconds", "measured", "team", "vendor"]


def Seconds(value: float) -> timedelta:  # noqa: N802  # reads like the unit that it is in a contract
    """Return a duration of `value` seconds."""
    return timedelta(seconds=value)


def Minutes(value: float) -> timedelta:  # noqa: N802
    """Return a duration of `value` minutes."""
    return timedelta(minutes=value)


def Hours(value: float) -> timedelta:  # noqa: N802
    """Return a duration of `value` hours."""
    return timedelta(hours=value)


class Figure(BaseModel):
    """A duration that somebody vouches for: the vendor's page, a measurement, or the team with a name and a reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: timedelta
    basis: Literal["vendor", "measured", "team"]
    by: str | None = None
    on: date | None = None
    because: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_duration_is_the_vendors(cls, data: object) -> object:
        # A contract carries its source and date, so a bare duration is what that source says.
        return {"value": data, "basis": "vendor"} if isinstance(data, timedelta) else data

    @model_validator(mode="after")
    def _vouched_for(self) -> Self:
        if self.value < timedelta(0):
            raise ValueError("a duration cannot be negative")
        if self.basis != "vendor" and not (self.by and self.on and self.because):
            raise ValueError(f"a figure on the basis '{self.basis}' needs by, on and because")
        return self


def vendor(value: timedelta) -> Figure:
    """Return a figure that the vendor's documentation states."""
    return Figure(value=value, basis="vendor")


def measured(value: timedelta, *, by: str, on: date, because: str) -> Figure:
    """Return a figure that was measured: by which run, when, and what was seen."""
    return Figure(value=value, basis="measured", by=by, on=on, because=because)


def team(value: timedelta, *, by: str, on: date, because: str) -> Figure:
    """Return a figure that the team answers for, since no vendor publishes it."""
    return Figure(value=value, basis="team", by=by, on=on, because=because)
