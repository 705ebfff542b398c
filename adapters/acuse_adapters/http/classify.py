"""What an answer or a failure over HTTP means. Pure: the one place where statuses and exceptions become outcomes.

phase    | a failure, or a status that is no success
---------|------------------------------------------------------------------------------------------------
prepare  | not sent, whatever it is: nothing of the effect has left
send     | by the contract, and by how far the request came; whatever nobody promises is ambiguous
look_up  | not sent, which the engine reads as "unavailable": a failed look-up says nothing
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import IntEnum
from typing import Final

import httpx

from acuse.protocol import Ambiguous, Concerns, NotSent, Outcome, Refused, RetryContract
from acuse_adapters.port import Phase, storable

__all__ = ["LONGEST_RETRY_AFTER", "Wire", "concerns", "failure", "refusal", "retry_after", "trouble", "unreadable"]

LONGEST_RETRY_AFTER: Final = timedelta(hours=1)
"""A provider's wish to be left alone counts up to here; beyond, the account would stand still on one header's word."""


class Wire(IntEnum):
    """How far a request came."""

    IDLE = 0  # no byte was handed to the network
    BEGUN = 1  # its head is being written
    WRITTEN = 2  # its head has left, or nobody can tell


_REQUEST_TIMEOUT: Final = 408
_TOO_MANY_REQUESTS: Final = 429

_NEVER_CONNECTED: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


def failure(phase: Phase, error: BaseException, wire: Wire) -> Outcome:
    """Return what a transport error or the end of the deadline (`TimeoutError`) means.

    A connection that the server closed while it was idle shows only when the next request is written into it: then nobody
    knows whether the request was read, and it is ambiguous.
    """
    name = "the deadline passed" if type(error) is TimeoutError else type(error).__name__
    if phase is not Phase.SEND:
        return NotSent(f"{name}{_said(error)}")
    if wire is Wire.IDLE or isinstance(error, _NEVER_CONNECTED):
        return NotSent(f"{name} before anything was sent{_said(error)}")
    if isinstance(error, httpx.LocalProtocolError) and wire is not Wire.WRITTEN:
        return NotSent(f"{name}: the request could not be written{_said(error)}")
    return Ambiguous(f"{name} after the request may have left{_said(error)}")


def refusal(contract: RetryContract, status: int, reason: str, headers: Mapping[str, str]) -> Outcome:
    """Return what a status other than 2xx means for a request that was sent once.

    reason: what the provider said, fit to be stored. `headers` with names in lower case.
    """
    key, code = contract.key, str(status)
    if key is not None and status == key.on_concurrent:
        still_running = f"{code}: the first request with this key is still running"
        return NotSent(still_running, retry_after(headers), concerns=Concerns.OPERATION)
    if key is not None and status == key.on_other_body:
        return Ambiguous(f"{code}: the key was used with another body. {reason}", review=True)
    if status in contract.account_faults:
        return NotSent(f"{code}: {reason}", retry_after(headers), account_fault=True)
    if status in contract.not_executed:
        return NotSent(f"{code}: {reason}", retry_after(headers), concerns=concerns(status))
    if status in contract.refused:
        return Refused(code, reason, covers_key=status in contract.refusals_cover_key)
    if 300 <= status < 400:
        return Ambiguous(f"{code}: a redirect, which is not followed: the request may have been carried out")
    return Ambiguous(f"{code}: the contract does not say what this means. {reason}")


def trouble(contract: RetryContract, status: int, reason: str, headers: Mapping[str, str]) -> NotSent:
    """Return what a status other than 2xx means before anything was sent, or in a look-up."""
    fault = status in contract.account_faults
    return NotSent(f"{status}: {reason}", retry_after(headers), account_fault=fault, concerns=concerns(status))


def concerns(status: int) -> Concerns:
    """Return whose trouble a status is under which nothing was done."""
    if status == _TOO_MANY_REQUESTS:
        return Concerns.ACCOUNT
    return Concerns.OPERATION if 400 <= status < 500 and status != _REQUEST_TIMEOUT else Concerns.PROVIDER


def unreadable(phase: Phase, why: str) -> Outcome:
    """Return what a success means whose content is not what was expected: it was accepted, but nobody knows as what."""
    reason = f"unparsable answer: {why}"
    return Ambiguous(reason) if phase is Phase.SEND else NotSent(reason)


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return the pause that `retry-after` asks for, in 0..1 h; None without it, or if it cannot be read.

    A date (RFC 9110, 10.2.3) is compared with the answer's own `date`, since the provider's clock is not ours.
    """
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return min(timedelta(seconds=int(text[:9])), LONGEST_RETRY_AFTER)
    at = _moment(text)
    if at is None:
        return None
    now = _moment(headers.get("date", "")) or datetime.now(UTC)
    return min(max(at - now, timedelta(0)), LONGEST_RETRY_AFTER)


def _moment(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _said(error: BaseException) -> str:
    # What h11 says about a request that it will not write repeats the header, and that may be a token.
    text = "" if isinstance(error, httpx.LocalProtocolError) else storable(str(error), 120)
    return f" ({text})" if text else ""
