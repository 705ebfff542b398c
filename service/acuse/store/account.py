"""Provider accounts: pausing, resuming, limits, and what the breaker says of them.

An account that is paused, or whose breaker is open, starts no first send and no repeat; what is in the air ends.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, text

from acuse.errors import InvalidField
from acuse.intent import MAX_ACCOUNT, check_moment, check_text
from acuse.store.cancel import MAX_NAME, MAX_REASON
from acuse.store.moment import in_utc

__all__ = ["AccountRecord", "accounts", "limit", "pause", "resume"]

_MAX_PROVIDER: Final = 100
_MOST_CONCURRENT: Final = 100_000
_LEAST_PER_SECOND: Final = 0.001
_MOST_PER_SECOND: Final = 100_000

_PAUSE = text("select acuse.pause_account(:provider, :account, cast(:until as timestamptz), :by, :reason)")
_RESUME = text("select acuse.resume_account(:provider, :account)")
_LIMIT = text("select acuse.limit_account(:provider, :account, :concurrent, :per_second, :by, :reason)")
_LIST = text(
    """
    select provider, account, paused_at, paused_until, paused_by, pause_reason, failures, opened_at, open_until, max_concurrent,
           max_per_second, limited_by, limit_reason, updated_at,
           paused_at is not null and (paused_until is null or paused_until > clock_timestamp()) as paused
      from acuse.account order by provider, account
    """
)


@dataclass(frozen=True, slots=True)
class AccountRecord:
    """An account that was ever paused, limited or had failures. paused_until: None while paused is until a person resumes it.

    failures: in a row. opened_at: since when the breaker is open, None while it is closed; open_until: from when on a probe is
    let through. max_concurrent: calls at the same time; max_per_second: calls; None: as many as come.
    """

    provider: str
    account: str
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    pause_reason: str | None
    failures: int
    opened_at: datetime | None
    open_until: datetime | None
    max_concurrent: int | None
    max_per_second: float | None
    limited_by: str | None
    limit_reason: str | None
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
    """Let an account go on, and an open breaker's probe at once. False: neither stood in its way. The caller commits.

    Raises `InvalidField`.
    """
    return bool(connection.execute(_RESUME, _which(provider, account)).scalar_one())


def limit(
    connection: Connection,
    provider: str,
    account: str,
    *,
    by: str,
    reason: str,
    concurrent: int | None = None,
    per_second: float | None = None,
) -> None:
    """Set how many calls an account takes at the same time and per second, for all workers together; None: no limit.

    What was set before is replaced. The caller commits. Raises `InvalidField`.
    """
    if concurrent is not None and not 1 <= concurrent <= _MOST_CONCURRENT:
        raise InvalidField(field="concurrent", reason=f"must be 1 to {_MOST_CONCURRENT}")
    if per_second is not None and not _LEAST_PER_SECOND <= per_second <= _MOST_PER_SECOND:
        raise InvalidField(field="per_second", reason=f"must be {_LEAST_PER_SECOND} to {_MOST_PER_SECOND}")
    values = _which(provider, account) | {
        "concurrent": concurrent,
        "per_second": per_second,
        "by": check_text("by", by, MAX_NAME),
        "reason": check_text("reason", reason, MAX_REASON),
    }
    connection.execute(_LIMIT, values)


def accounts(connection: Connection) -> tuple[AccountRecord, ...]:
    """The accounts that are on record, in order."""
    rows = connection.execute(_LIST)
    return tuple(AccountRecord(*map(in_utc, row)) for row in rows)


def _which(provider: str, account: str) -> dict[str, object]:
    return {
        "provider": check_text("provider", provider, _MAX_PROVIDER),
        "account": check_text("account", account, MAX_ACCOUNT),
    }
