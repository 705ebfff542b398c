"""The bytes of a message: a function of payload and pin, so that each attempt sends the very same."""

import email.policy
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import parseaddr
from typing import Final

from acuse.intent import JSON
from acuse_adapters.email.action import SendEmail

__all__ = ["Letter", "agrees", "letter"]

_POLICY: Final = email.policy.SMTP.clone(max_line_length=76)  # RFC 2045, 6.7 and RFC 2047, 2: no longer lines, CRLF between them


@dataclass(frozen=True, slots=True)
class Letter:
    """What SMTP carries: the envelope, and the message with CRLF line ends, without the final dot."""

    sender: str
    recipient: str
    message_id: str
    content: bytes


def letter(payload: SendEmail, pin: Mapping[str, JSON]) -> Letter:
    """Return the letter. pin: `date` (RFC 5322), `message_id` (in angle brackets) and `from`.

    Header values with line breaks raise `ValueError`; the action has refused them at intake.
    """
    sender, message_id = str(pin["from"]), str(pin["message_id"])
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["To"] = payload.to
    message["Subject"] = payload.subject
    message["Date"] = str(pin["date"])
    message["Message-ID"] = message_id
    if payload.template is not None:
        message["X-Acuse-Template"] = payload.template
    # A fixed encoding, whatever the text: 7 bits on the wire, and one part only, so that no boundary is drawn by lot.
    message.set_content(payload.body, charset="utf-8", cte="quoted-printable")
    return Letter(parseaddr(sender)[1], payload.to, message_id, message.as_bytes())


def agrees(raw: bytes, payload: SendEmail, message_id: str) -> bool | None:
    """Say whether a message in the journal has our content; None if it is not the one with our Message-ID.

    Mail servers add headers and footers and break lines anew: the recipient and the subject must be ours, and our text must be
    in theirs.
    """
    found = email.message_from_bytes(raw, policy=email.policy.default)
    if str(found.get("Message-ID", "")).strip() != message_id:
        return None
    part = found.get_body(("plain",))
    try:
        text = part.get_content() if part is not None else ""
    except (LookupError, ValueError, KeyError):
        text = ""
    return (
        payload.to.lower() in str(found.get("To", "")).lower()
        and _words(str(found.get("Subject", ""))) == _words(payload.subject)
        and _words(payload.body) in _words(text)
    )


def _words(text: str) -> str:
    return " ".join(text.split())
