"""Settings of the email adapter, `ACUSE_EMAIL_…`."""

import re
from email.utils import parseaddr
from typing import ClassVar, Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from acuse_adapters.port.settings import AdapterSettings

__all__ = ["EmailSettings"]

_DOMAIN: Final = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_LONGEST_DOMAIN: Final = 200
"""Characters: with the marker before it, a Message-ID must fit into one line."""


class EmailSettings(AdapterSettings):
    """The adapter is on when `ACUSE_EMAIL_SMTP_HOST` is set; its look-up, when `ACUSE_EMAIL_IMAP_HOST` is too."""

    model_config = SettingsConfigDict(env_prefix="ACUSE_EMAIL_")
    required: ClassVar[str] = "smtp_host"

    deadline_seconds: float = Field(default=40.0, gt=0, le=45, description="total for one message, connect included")

    smtp_host: str = Field(min_length=1, description="submission server")
    smtp_port: int = Field(default=587, ge=1, le=65535)
    smtp_username: str | None = Field(default=None, description="without one, no AUTH")
    smtp_password: SecretStr = SecretStr("")
    smtp_starttls: bool = Field(default=True, description="insist on STARTTLS; false only for a server on the same machine")
    sender: str = Field(description="address in From, with a name or without: Acme <no-reply@example.org>")
    domain: str | None = Field(default=None, description="right side of our Message-IDs; left out, the sender's domain")
    not_executed_at_dot: frozenset[int] = Field(
        default=frozenset(),
        description="4yz codes after the final dot with which this server surely stores nothing, as JSON: [451]",
    )

    imap_host: str | None = Field(default=None, description="server of a journal mailbox that gets a copy of everything")
    imap_port: int = Field(default=993, ge=1, le=65535)
    imap_username: str = ""
    imap_password: SecretStr = SecretStr("")
    imap_mailbox: str = Field(default="Journal", min_length=1, max_length=200)
    imap_tls: bool = Field(default=True, description="TLS from the start; false only for a server on the same machine")
    imap_visible_within_seconds: float | None = Field(
        default=None, ge=0, description="how soon a sent message is in the journal, if the team vouches for a figure"
    )

    @field_validator("sender")
    @classmethod
    def _sender_is_an_address(cls, value: str) -> str:
        local, _, domain = parseaddr(value)[1].rpartition("@")
        if not (value.isprintable() and local.isascii() and local and _DOMAIN.fullmatch(domain)):
            raise ValueError("must be an address with a domain, or Name <address>")
        return value

    @field_validator("domain")
    @classmethod
    def _domain_is_one(cls, value: str | None) -> str | None:
        if value is not None and (not _DOMAIN.fullmatch(value) or len(value) > _LONGEST_DOMAIN):
            raise ValueError(f"must be a domain in ASCII of at most {_LONGEST_DOMAIN} characters")
        return value

    @field_validator("not_executed_at_dot")
    @classmethod
    def _temporary_only(cls, value: frozenset[int]) -> frozenset[int]:
        if any(not 400 <= code <= 499 for code in value):
            raise ValueError("may contain codes from 400 to 499 only; others have one meaning already")
        return value

    @field_validator("imap_mailbox", "imap_username")
    @classmethod
    def _ascii(cls, value: str) -> str:
        if not (value.isascii() and value.isprintable()):
            raise ValueError("must be printable ASCII; write another alphabet in modified UTF-7 (RFC 3501, 5.1.3)")
        return value

    @model_validator(mode="after")
    def _journal_has_a_login(self) -> Self:
        if self.imap_host is not None and not self.imap_username:
            raise ValueError("ACUSE_EMAIL_IMAP_HOST is set without ACUSE_EMAIL_IMAP_USERNAME; set both or none")
        return self

    @property
    def message_domain(self) -> str:
        """The right side of Message-IDs, and our name in EHLO."""
        return self.domain or parseaddr(self.sender)[1].rpartition("@")[2]
