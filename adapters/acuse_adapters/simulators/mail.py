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
from itertools import islice

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

    @cached_property
    def searchable(self) -> dict[str, str]:
        """Its headers as SEARCH compares them: names and values in lower case, the lines of one name below one another.

        Python reads a header anew whenever it is asked for, which would make a search of a few thousand messages take a second.
        """
        found: dict[str, str] = {}
        for name, value in self.parsed.items():
            found[name.lower()] = f"{found.get(name.lower(), '')}{str(value).lower()}\n"
        return found


class Mail:
    """The store that SMTP fills and IMAP shows; on HTTP it has only the control interface."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._messages: list[Message] = []
        self._lag = 0.0
        self._visible = 0

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
        if lag != self._lag:
            self._lag, self._visible = lag, 0
        # Messages never change, and appear in the order in which they came: each is looked at once, or the look-ups of a full
        # mailbox would hold up deliveries.
        for row in islice(self._simulation.truth.table("messages").values(), len(self._messages), None):
            self._messages.append(Message(row["uid"], row["at"], base64.b64decode(row["raw_base64"])))
        while self._visible < len(self._messages) and self._simulation.clock.passed(self._messages[self._visible].at, lag):
            self._visible += 1
        return self._messages[: self._visible]

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
