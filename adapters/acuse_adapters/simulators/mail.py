"""The mailbox behind the mail server: every accepted message, whole, with its envelope; readable as `Journal`.

Two sessions that speak to clients use it: `smtp` writes, `imap` reads. Rows are in table `messages`, keyed by their UID.
"""

from __future__ import annotations

import base64
import email
import email.policy
from dataclasses import dataclass
from email.message import EmailMessage
from functools import cached_property
from typing import Any

from acuse_adapters.simulators.simulation import Simulation
from acuse_adapters.simulators.wire import Answer, Reply, Request

__all__ = ["Envelope", "Mail", "Message", "marker_of"]


@dataclass(frozen=True)
class Envelope:
    """Who sent it to whom, and under which login (`""` without one)."""

    account: str
    sender: str
    recipients: tuple[str, ...]


@dataclass(frozen=True)
class Message:
    """A stored message as a mailbox shows it."""

    uid: int
    at: str
    raw: bytes

    @cached_property
    def parsed(self) -> EmailMessage:
        """The message with readable headers."""
        return email.message_from_bytes(self.raw, policy=email.policy.default)


class Mail:
    """The store that SMTP fills and IMAP shows; on HTTP it has only the control interface."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._messages: dict[int, Message] = {}

    def store(self, number: int, envelope: Envelope, raw: bytes) -> None:
        """One accepted message is one effect, however many recipients it has."""
        messages = self._simulation.truth.table("messages")
        uid = len(messages) + 1
        headers = Message(uid, "", raw).parsed
        row = {
            "uid": uid,
            "message_id": str(headers.get("Message-ID", "")).strip(),
            "subject": str(headers.get("Subject", "")),
            "account": envelope.account,
            "sender": envelope.sender,
            "recipients": envelope.recipients,
            "raw_base64": base64.b64encode(raw).decode("ascii"),
            "at": self._simulation.clock.stamp(),
        }
        self._simulation.record(
            request=number,
            marker=marker_of(raw),
            kind="email",
            id=str(uid),
            account=envelope.account,
            target=",".join(envelope.recipients),
            rows=(("messages", str(uid), row),),
        )

    def journal(self) -> list[Message]:
        """What the mailbox shows now: messages appear `journal_lag_seconds` after they were stored."""
        lag = self._simulation.plan.journal_lag_seconds
        rows = self._simulation.truth.table("messages").values()
        return [self._message(row) for row in rows if self._simulation.clock.passed(row["at"], lag)]

    def _message(self, row: dict[str, Any]) -> Message:
        """Messages never change: each is decoded and parsed once, or look-ups would hold up deliveries."""
        uid: int = row["uid"]
        if uid not in self._messages:
            self._messages[uid] = Message(uid, row["at"], base64.b64decode(row["raw_base64"]))
        return self._messages[uid]

    async def serve(self, _: Request) -> Reply:
        """There is no HTTP for clients here."""
        return Answer(404, {"error": "not_found", "reason": "this simulator speaks SMTP and IMAP"})

    def interfere(self, _: Request) -> Answer | None:
        """Nothing of its own."""
        return None


def marker_of(raw: bytes) -> str | None:
    """The left part of the Message-ID: `op_…` of `<op_…@domain>`. None without the header."""
    head = raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    message_id = str(email.message_from_bytes(head).get("Message-ID", "")).strip().strip("<>")
    return message_id.partition("@")[0] or None
