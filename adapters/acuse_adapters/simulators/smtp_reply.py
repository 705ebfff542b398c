"""The words of SMTP: which fault answers at which command and with which code; how commands are read. No I/O."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from acuse_adapters.simulators.fault import Fault

__all__ = ["AT_MAIL", "AT_RCPT", "NOT_STORED", "PATH", "REPLIES", "decoded", "early_marker"]

PATH = re.compile(r"(?i)(?:FROM|TO):\s*<([^>]*)>\s*(.*)")
_MARKER = re.compile(r"op_[0-9a-zA-Z]+")
_XTEXT = re.compile(r"\+([0-9A-F]{2})")

REPLIES: Mapping[Fault | None, str] = {
    Fault.THROTTLE: "451 4.7.1 too many messages, try again later",
    Fault.UNAVAILABLE: "421 4.3.2 service not available",
    Fault.UNAUTHORIZED: "530 5.7.0 authentication required",
    Fault.LOCKED: "450 4.2.0 mailbox busy",
    Fault.REFUSE: "550 5.1.1 mailbox unavailable",
    Fault.REFUSE_AT_DOT: "554 5.6.0 message refused",
    Fault.REFUSE_REPEAT: "554 5.7.1 duplicate message refused",
    Fault.ERROR_AFTER_APPLY: "451 4.3.0 local error in processing",
}
AT_MAIL = frozenset({Fault.THROTTLE, Fault.UNAVAILABLE, Fault.UNAUTHORIZED})
AT_RCPT = frozenset({Fault.LOCKED, Fault.REFUSE})
NOT_STORED = AT_MAIL | AT_RCPT | {Fault.REFUSE_AT_DOT}


def decoded(token: str) -> str:
    """A base64 token of AUTH as text; empty when it is none."""
    try:
        return base64.b64decode(token, validate=True).decode("utf-8", "replace")
    except ValueError:
        return ""


def early_marker(sender: str, parameters: str) -> str | None:
    """The marker that MAIL shows already: its ENVID, or `op_…` in the sender's address."""
    for parameter in parameters.split():
        name, _, value = parameter.partition("=")
        if name.upper() == "ENVID" and value:
            return _XTEXT.sub(lambda found: chr(int(found[1], 16)), value).partition("@")[0]
    found = _MARKER.search(sender)
    return found[0] if found else None
