"""Settings of an adapter, from the environment. Needs the extra `worker` (pydantic-settings)."""

from datetime import date, timedelta
from typing import ClassVar, Self

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from acuse.errors import ConfigurationError
from acuse.protocol import Figure, team

__all__ = ["AdapterSettings"]


class AdapterSettings(BaseSettings):
    """Base of an adapter's settings: a subclass says its `env_prefix`, and in `required` which field turns the adapter on.

    An empty variable counts as one that is not set. Values never stand in an error.
    """

    model_config = SettingsConfigDict(extra="ignore", frozen=True, env_ignore_empty=True, hide_input_in_errors=True)

    required: ClassVar[str]

    deadline_seconds: float = Field(default=20.0, gt=0, le=45, description="total for one send, connect included")
    max_in_flight_seconds: float = Field(
        default=120.0, ge=0, description="how long after our deadline the provider may still carry out a request"
    )

    @classmethod
    def read(cls) -> Self | None:
        """Return the settings, or None if the `required` variable is not set.

        Raises `ConfigurationError` with one line per wrong variable, naming it.
        """
        try:
            return cls()
        except ValidationError as error:
            problems = error.errors(include_input=False, include_url=False)
            if any(it["loc"] == (cls.required,) and it["type"] == "missing" for it in problems):
                return None
            lines = [cls._line(str(it["loc"][0]) if it["loc"] else None, it["msg"]) for it in problems]
            raise ConfigurationError("settings are wrong:\n  " + "\n  ".join(lines)) from None
        except SettingsError as error:  # its text names the field, and nothing else that could be told apart
            field = next((name for name in cls.model_fields if f'"{name}"' in str(error)), None)
            raise ConfigurationError(f"settings are wrong:\n  {cls._line(field, 'must be JSON')}") from None

    @classmethod
    def _line(cls, field: str | None, problem: str) -> str:
        return problem if field is None else f"{cls.variable(field)}: {problem}"

    @classmethod
    def variable(cls, field: str) -> str:
        """Return the environment variable of a field."""
        return f"{cls.model_config.get('env_prefix', '')}{field}".upper()

    @property
    def deadline(self) -> timedelta:
        return timedelta(seconds=self.deadline_seconds)

    def figure(self, field: str, *, on: date) -> Figure | None:
        """Return a duration that was set on purpose as a figure of the team, with its variable as the reason; else None.

        on: the date of the contract that the figure goes into.
        """
        if field not in self.model_fields_set:
            return None
        because = f"set by {self.variable(field)}"
        return team(timedelta(seconds=getattr(self, field)), by="whoever configures this worker", on=on, because=because)
