"""Settings of the CRM adapter, `ACUSE_CRM_…`."""

from typing import ClassVar

from pydantic import AnyHttpUrl, Field, SecretStr
from pydantic_settings import SettingsConfigDict

from acuse_adapters.port.settings import AdapterSettings

__all__ = ["CrmSettings"]


class CrmSettings(AdapterSettings):
    """The adapter is on when `ACUSE_CRM_URL` is set."""

    model_config = SettingsConfigDict(env_prefix="ACUSE_CRM_")
    required: ClassVar[str] = "url"

    url: AnyHttpUrl = Field(description="base address of the CRM's API")
    token: SecretStr = Field(default=SecretStr(""), description="bearer token; without one no Authorization header is sent")
