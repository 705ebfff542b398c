"""The adapter for email: `email.send.v1`, over SMTP, with a look-up in a journal mailbox where there is one."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, ClassVar, Self

from acuse.protocol import Absent, Finding, Found, Outcome
from acuse_adapters.email.action import SendEmail
from acuse_adapters.email.contract import VERIFIED_ON, send_contract
from acuse_adapters.email.journal import Journal, JournalServer
from acuse_adapters.email.message import agrees, letter
from acuse_adapters.email.settings import EmailSettings
from acuse_adapters.email.smtp import Smtp, SmtpServer
from acuse_adapters.port import Adapter, AdapterAction, Operation, Phase, Pin, action

__all__ = ["EmailAdapter"]


def _now() -> datetime:
    return datetime.now(UTC)


class EmailAdapter(Adapter):
    """Sends each letter over a connection of its own. `now` gives the date that a message bears."""

    provider: ClassVar[str] = "email"

    def __init__(self, settings: EmailSettings, *, now: Callable[[], datetime] = _now) -> None:
        self._sender = settings.sender
        self._domain = settings.message_domain
        self._now = now
        self._smtp = _smtp_server(settings)
        self._journal = _journal_server(settings)
        flight = settings.figure("max_in_flight_seconds", on=VERIFIED_ON)
        contract = send_contract(
            settings.deadline,
            **({} if flight is None else {"max_in_flight": flight}),
            journal=self._journal is not None,
            visible_within=settings.figure("imap_visible_within_seconds", on=VERIFIED_ON) if self._journal else None,
            not_executed_at_dot=settings.not_executed_at_dot,
        )
        self.promise(EmailAdapter.send_email, contract)

    @classmethod
    def from_environment(cls) -> Self | None:
        """Return the adapter if `ACUSE_EMAIL_SMTP_HOST` is set. Raises `ConfigurationError`."""
        settings = EmailSettings.read()
        return None if settings is None else cls(settings)

    def channel(
        self, operation: Operation[Any], declared: AdapterAction[Any], phase: Phase, seconds: float
    ) -> AbstractAsyncContextManager[Any]:
        """Return an `Smtp` to send with, a `Journal` to look up with; `prepare` needs nobody."""
        if phase is Phase.SEND:
            return Smtp(self._smtp, declared.contract, seconds)
        if phase is Phase.LOOK_UP and self._journal is not None:
            return nullcontext(Journal(self._journal, seconds))
        return AsyncExitStack()

    @action(SendEmail, contract=send_contract())
    async def send_email(self, op: Operation[SendEmail], smtp: Smtp) -> Outcome:
        """Hand the letter in."""
        return await smtp.deliver(letter(op.payload, op.pin), envelope_id=op.id)

    @send_email.prepare
    async def compose(self, op: Operation[SendEmail], _: AsyncExitStack) -> Pin:
        """Pin what else would differ between attempts, and compose the letter once, so that a mistake in it shows here."""
        pin = {
            "date": format_datetime(self._now()),
            "message_id": f"<{op.id}@{self._domain}>",
            "from": self._sender,
        }
        letter(op.payload, pin)
        return pin

    @send_email.look_up
    async def find_message(self, op: Operation[SendEmail], journal: Journal) -> Finding:
        """Look for our Message-ID in the journal mailbox."""
        message_id = str(op.pin["message_id"])
        verdicts = [agrees(raw, op.payload, message_id) for raw in await journal.messages(message_id)]
        ours = [verdict for verdict in verdicts if verdict is not None]
        return Found(message_id, content_matches=all(ours), copies=len(ours)) if ours else Absent()


def _smtp_server(settings: EmailSettings) -> SmtpServer:
    return SmtpServer(
        host=settings.smtp_host,
        port=settings.smtp_port,
        helo=settings.message_domain,
        starttls=settings.smtp_starttls,
        username=settings.smtp_username,
        password=settings.smtp_password.get_secret_value(),
    )


def _journal_server(settings: EmailSettings) -> JournalServer | None:
    if settings.imap_host is None:
        return None
    return JournalServer(
        host=settings.imap_host,
        port=settings.imap_port,
        username=settings.imap_username,
        mailbox=settings.imap_mailbox,
        tls=settings.imap_tls,
        password=settings.imap_password.get_secret_value(),
    )
