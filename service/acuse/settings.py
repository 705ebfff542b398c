"""Settings from the environment, `ACUSE_…`. Needs the extra `worker` (pydantic-settings)."""

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from acuse.errors import ConfigurationError

__all__ = ["Settings", "load_settings"]


class Settings(BaseSettings):
    """What the processes of Acuse need to know. Every field is an environment variable `ACUSE_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="ACUSE_", extra="ignore", frozen=True)

    database_url: str = Field(description="postgresql+psycopg://user:password@host:port/database")
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", description="where Dramatiq keeps its queues")
    redis_namespace: str = Field(default="dramatiq", min_length=1, description="Dramatiq's key prefix")
    queue_bound: int = Field(default=200, ge=1, le=10_000, description="messages of one queue that may wait in the broker")
    batch_size: int = Field(default=50, ge=1, le=500, description="operations that one message may carry")
    relay_idle_milliseconds: int = Field(default=20, ge=1, le=10_000, description="longest pause of an idle relay between polls")
    recover_seconds: float = Field(default=1.0, gt=0, le=3600, description="pause between rounds of the recover loop")
    lost_after_seconds: float = Field(
        default=30.0, gt=0, description="handed to the broker this long ago: ask whether it still is there"
    )
    worker_dead_after_seconds: float = Field(
        default=15.0,
        ge=2,
        le=600,
        description="a worker that was not heard of for so long is dead, and what it fetched goes to others",
    )
    worker_threads: int = Field(default=8, ge=1, le=64, description="messages that one worker process handles at once")
    worker_concurrency: int = Field(
        default=64, ge=1, le=1000, description="provider calls that one worker process has in the air"
    )
    lease_seconds: float = Field(
        default=60.0, ge=1, le=3600, description="how long a claim lasts; longer than any adapter's deadline"
    )
    grace_seconds: float = Field(
        default=20.0, ge=0, le=600, description="after SIGTERM, how long calls in the air may take to end"
    )
    metrics_port: int | None = Field(default=None, ge=0, le=65535, description="serve /metrics on this port; none: do not serve")
    metrics_host: str = Field(default="127.0.0.1", description="address for /metrics")
    log_format: str = Field(default="json", pattern="^(json|console)$", description="json or console")
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$", description="debug, info, warning or error")


def load_settings(**overrides: object) -> Settings:
    """Read the settings. Raises `ConfigurationError` with one line per wrong field, naming its variable, never its value."""
    try:
        return Settings(**{key: value for key, value in overrides.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        lines = [
            f"ACUSE_{'_'.join(str(part) for part in problem['loc']).upper()}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        ]
        raise ConfigurationError("settings are wrong:\n  " + "\n  ".join(lines)) from None
