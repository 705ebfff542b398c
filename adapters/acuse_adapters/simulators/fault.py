"""Every way in which a simulated provider misbehaves on a write, one member each."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Fault"]


class Fault(StrEnum):
    """What happens to one write. "Applied" means that the effect is in the store, whatever the client is told.

    Reads are never given a fault; they only feel a suspended account (`unauthorized`), the lags and `lookup_down`.
    """

    DROP_REPLY = "drop_reply"
    """Applied; the connection closes without an answer. SMTP: taken at the final dot, closed without a reply."""

    APPLY_LATE = "apply_late"
    """The connection closes (or stays silent, with `late_silent`); applied `late_seconds` later, client or no client.
    Preconditions and keys are judged at that later moment. SMTP: the message is stored later."""

    STALL = "stall"
    """Read, never answered, never applied. Ends when the client leaves or after `stall_seconds`."""

    STALL_APPLIED = "stall_applied"
    """Applied, never answered. SMTP: stored at the final dot, then silence."""

    ERROR_AFTER_APPLY = "error_after_apply"
    """Applied, answered 500. SMTP: stored, answered 451 at the final dot, as some servers do."""

    HALF_ANSWER = "half_answer"
    """Applied; half of the announced body arrives, then the connection closes. SMTP: stored, `25` and then closed."""

    RESET_AT_QUIT = "reset_at_quit"
    """Applied and answered in full, then the connection breaks. SMTP: 250, then a reset instead of the answer to QUIT."""

    REFUSE_REPEAT = "refuse_repeat"
    """On a marker that was never applied: applied, closed without an answer. On one that was: refused (CRM 409,
    ticketing 422, SMTP 554 at the dot), and so is every later repetition, although the first took effect."""

    FORGET_KEY = "forget_key"
    """The idempotency key is forgotten before the request is handled, so that a repetition makes a second object.
    A breach of the provider's promise; without keys (CRM, SMTP) it changes nothing."""

    UNAVAILABLE = "unavailable"
    """Not applied, 503. SMTP: 421 at MAIL, closed."""

    THROTTLE = "throttle"
    """Not applied, 429 with `Retry-After`. SMTP: 451 at MAIL."""

    UNAUTHORIZED = "unauthorized"
    """Not applied, 401, and so is everything of that account for `unauthorized_seconds`. SMTP: 530 at MAIL, 535 at AUTH."""

    REFUSE = "refuse"
    """Not applied, 422 with a reason. SMTP: 550 at RCPT."""

    REFUSE_AT_DOT = "refuse_at_dot"
    """Not applied, SMTP: 554 after the final dot. HTTP: the same as `refuse`."""

    DROP_BEFORE = "drop_before"
    """Not applied, the connection is reset. HTTP: once the request is known (the marker is in its body).
    SMTP: in the middle of DATA, after the headers."""

    LOCKED = "locked"
    """Not applied, 423: the row is in use. SMTP: 450 at RCPT."""
