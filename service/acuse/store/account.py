"""Provider accounts: pausing and resuming. A paused account starts no first send and no repeat; what is in the air ends."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, text

from acuse.intent import MAX_ACCOUNT, check_moment, check_text
from acuse.store.cancel import MAX_NAME, MAX_REASON
from acuse.store.moment import in_utc

__all__ = ["AccountRecord", "accounts", "pause", "resume"]

_MAX_PROVIDER: Final = 100

_PAUSE = text("select acuse.pause_account(:provider, :account, cast(:until as timestamptz), :by, :reason)")
_RESUME = text("select acuse.resume_account(:provider, :account)")
_LIST = text(
    """
    select provider, account, paused_at, paused_until, paused_by, pause_reason, failures, opened_at, updated_at,
           paused_at is not null and (paused_until is null or paused_until > clock_timestamp()) as paused
      from acuse.account order by provider, account
    """
)


@dataclass(frozen=True, slots=True)
class AccountRecord:
    """An account that was ever paused or had failures. paused_until: None while paused is until a person resumes it.

    failures: in a row. opened_at: since when the breaker is open.
    """

    provider: str
    account: str
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    pause_reason: str | None
    failures: int
    opened_at: datetime | None
    updated_at: datetime
    paused: bool


def pause(connection: Connection, provider: str, account: str, *, by: str, reason: str, until: datetime | None = None) -> None:
    """Pause an account, until a moment or until a person resumes it. The caller commits. Raises `InvalidField`."""
    values = _which(provider, account) | {
        "by": check_text("by", by, MAX_NAME),
        "reason": check_text("reason", reason, MAX_REASON),
        "until": None if until is None else check_moment("until", until),
    }
    connection.execute(_PAUSE, values)


def resume(connection: Connection, provider: str, account: str) -> bool:
    """Let an account go on. False: it was not paused. The caller commits. Raises `InvalidField`."""
    return bool(connection.execute(_RESUME, _which(provider, account)).scalar_one())


def accounts(connection: Connection) -> tuple[AccountRecord, ...]:
    """The accounts that are on record, in order."""
    rows = connection.execute(_LIST)
    return tuple(AccountRecord(*map(in_utc, row)) for row in rows)


def _which(provider: str, account: str) -> dict[str, object]:
    return {
        "provider": check_text("provider", provider, _MAX_PROVIDER),
        "account": check_text("account", account, MAX_ACCOUNT),
    }
