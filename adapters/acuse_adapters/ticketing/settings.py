"""Settings of the ticketing adapter, `ACUSE_TICKET_…`."""

from typing import ClassVar

from pydantic import AnyHttpUrl, Field, SecretStr
from pydantic_settings import SettingsConfigDict

from acuse_adapters.port.settings import AdapterSettings

__all__ = ["TicketSettings"]


class TicketSettings(AdapterSettings):
    """The adapter is on when `ACUSE_TICKET_URL` is set."""

    model_config = SettingsConfigDict(env_prefix="ACUSE_TICKET_")
    required: ClassVar[str] = "url"

    url: AnyHttpUrl = Field(description="base address of the ticketing system's API")
    token: SecretStr = Field(default=SecretStr(""), description="bearer token; without one no Authorization header is sent")
    key_retention_seconds: float = Field(
        default=7200.0, gt=0, description="how long the vendor remembers an Idempotency-Key; the vendor says two hours"
    )
