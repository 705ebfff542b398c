"""The email adapter: against the mail simulator for every fault, and against a scripted server for what happens on the wire."""

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from adapter_attempt import DEADLINE, Attempt, eventually, opened

from acuse.protocol import Absent, Accepted, Ambiguous, Found, NotSent, Outcome, Refused, Unavailable
from acuse_adapters.email import SendEmail
from acuse_adapters.email.adapter import EmailAdapter
from acuse_adapters.email.contract import send_contract
from acuse_adapters.email.message import Letter
from acuse_adapters.email.settings import EmailSettings
from acuse_adapters.email.smtp import Smtp
from acuse_adapters.simulators.fault import Fault
from acuse_adapters.simulators.process import SimulatorProcess

EMAIL = SendEmail(reference="case-318", to="ada@example.org", subject="Geschlossen: Fall 318", body="Grüße\n.\n..dots\nQUIT\n")
ACCEPTED = {Fault.RESET_AT_QUIT, Fault.FORGET_KEY}
REFUSED = {Fault.REFUSE, Fault.REFUSE_AT_DOT}
NOT_SENT = {Fault.UNAVAILABLE, Fault.THROTTLE, Fault.UNAUTHORIZED, Fault.LOCKED}
PATIENT = 20.0

AT_NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def kind_of(fault: Fault) -> tuple[type[Outcome], ...]:
    if fault is Fault.DROP_BEFORE:  # whether the reset is noticed before the dot leaves is a race on a loopback
        return (Ambiguous, NotSent)
    return (Accepted if fault in ACCEPTED else Refused if fault in REFUSED else NotSent if fault in NOT_SENT else Ambiguous,)


def made(host: str, port: int, **fields: Any) -> EmailAdapter:
    values = {"deadline_seconds": DEADLINE, "smtp_starttls": False, "sender": "Acme <no-reply@acme.example>", **fields}
    return EmailAdapter(EmailSettings(smtp_host=host, smtp_port=port, **values), now=lambda: AT_NOON)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorProcess]:
    with SimulatorProcess("email", tmp_path_factory.mktemp("email")) as running:
        yield running


@pytest.fixture
def mail(process: SimulatorProcess) -> SimulatorProcess:
    process.plan()
    process.release(disarm=True)
    return process


def journaled(mail: SimulatorProcess, **fields: Any) -> EmailAdapter:
    journal = {"imap_host": mail.host, "imap_port": mail.imap_port, "imap_username": "journal", "imap_tls": False}
    return made(mail.host, mail.smtp_port, **{"smtp_username": "acme", "smtp_password": "x", **journal, **fields})


@pytest.fixture
def adapter(mail: SimulatorProcess) -> EmailAdapter:
    return journaled(mail)


def stored(mail: SimulatorProcess, attempt: Attempt) -> list[bytes]:
    rows = mail.table("messages").values()
    return [base64.b64decode(row["raw_base64"]) for row in rows if attempt.id in row["message_id"]]


async def test_a_letter_is_taken_once_and_found_by_its_message_id(mail: SimulatorProcess, adapter: EmailAdapter) -> None:
    attempt = Attempt(adapter, EMAIL)
    outcome = await attempt.send()
    message_id = f"<{attempt.id}@acme.example>"
    assert isinstance(outcome, Accepted)
    assert outcome.receipt.result_id == message_id
    assert (outcome.receipt.provider_request_id or "").startswith("2.0.0 queued as")
    assert attempt.pin == {
        "date": "Mon, 30 Nov 2026 12:00:00 +0000",
        "message_id": message_id,
        "from": "Acme <no-reply@acme.example>",
    }
    assert await attempt.look_up() == Found(message_id)
    [effect] = mail.effects(attempt.id)
    assert (effect["account"], effect["target"]) == ("acme", "ada@example.org")


@pytest.mark.parametrize("fault", list(Fault))
async def test_each_fault_is_told_apart_and_found_out(mail: SimulatorProcess, adapter: EmailAdapter, fault: Fault) -> None:
    # Given a plan that gives this operation this fault once
    attempt = Attempt(adapter, EMAIL)
    mail.plan(script=[{"marker": attempt.id, "faults": [fault]}], late_seconds=3600, unauthorized_seconds=0)
    # When it is sent
    outcome = await attempt.send()
    # Then the outcome says no more than is known
    assert isinstance(outcome, kind_of(fault)), outcome
    assert getattr(outcome, "account_fault", False) == (fault is Fault.UNAUTHORIZED)
    # And the mailbox knows what the store knows
    message_id = f"<{attempt.id}@acme.example>"
    applied = len(mail.effects(attempt.id)) == 1
    assert await attempt.look_up() == (Found(message_id) if applied else Absent())
    if fault is Fault.APPLY_LATE:
        mail.advance(3601)
        eventually(lambda: mail.effects(attempt.id))
        assert await attempt.look_up() == Found(message_id)
    if isinstance(outcome, Refused | NotSent):
        assert not applied
    assert len(mail.requests(attempt.id)) == 1


@pytest.mark.case("R002")
async def test_a_message_stored_at_the_dot_without_an_answer_is_in_doubt_until_it_is_found(
    mail: SimulatorProcess, adapter: EmailAdapter
) -> None:
    # Given a server that stores the message at the final dot and then stays silent
    attempt = Attempt(adapter, EMAIL)
    mail.plan(script=[{"marker": attempt.id, "faults": ["stall_applied"]}])
    # When our deadline passes
    outcome = await attempt.send()
    # Then it is ambiguous, and the mailbox holds one copy, which the look-up finds
    assert outcome == Ambiguous("the deadline passed after the final dot may have left")
    assert len(stored(mail, attempt)) == 1
    assert await attempt.look_up() == Found(f"<{attempt.id}@acme.example>")
    # And without a journal there is no look-up at all: a person decides
    blind = Attempt(made(mail.host, mail.smtp_port), EMAIL)
    assert isinstance(await blind.look_up(), Unavailable)
    assert blind.declared.contract.lookup is None


@pytest.mark.case("R070")
async def test_a_goodbye_that_fails_takes_nothing_back(mail: SimulatorProcess, adapter: EmailAdapter) -> None:
    attempt = Attempt(adapter, EMAIL)
    mail.plan(script=[{"marker": attempt.id, "faults": ["reset_at_quit"]}])
    assert isinstance(await attempt.send(), Accepted)
    assert len(stored(mail, attempt)) == 1


@pytest.mark.case("R071")
async def test_an_answer_that_comes_too_late_is_read_by_nobody(mail: SimulatorProcess, adapter: EmailAdapter) -> None:
    # Given a first message whose 250 is held beyond our deadline
    first, second = Attempt(adapter, EMAIL), Attempt(adapter, EMAIL)
    mail.hold("after_apply", marker=first.id)
    assert isinstance(await first.send(), Ambiguous)
    mail.wait_held()
    # When it comes, and a second message is refused
    mail.plan(script=[{"marker": second.id, "faults": ["refuse_at_dot"]}])
    mail.release()
    outcome = await second.send()
    # Then each has its own answer
    assert isinstance(outcome, Refused)
    assert isinstance(await first.look_up(), Found)
    assert await second.look_up() == Absent()


@pytest.mark.case("R029")
async def test_both_attempts_hand_in_the_same_bytes(mail: SimulatorProcess, adapter: EmailAdapter) -> None:
    # Given an attempt that is in doubt, and a worker with another clock and another sender that repeats it
    attempt = Attempt(adapter, EMAIL)
    mail.plan(script=[{"marker": attempt.id, "faults": ["drop_reply"]}])
    await attempt.send()
    attempt.adapter = journaled(mail, sender="other@elsewhere.example", domain="elsewhere.example")
    await attempt.send()
    # Then what was pinned is what was sent
    first, second = stored(mail, attempt)
    assert first == second
    # And the look-up counts both
    assert await attempt.look_up() == Found(f"<{attempt.id}@acme.example>", copies=2)


async def test_a_journal_that_lags_finds_nothing_yet(mail: SimulatorProcess, adapter: EmailAdapter) -> None:
    attempt = Attempt(adapter, EMAIL)
    mail.plan(journal_lag_seconds=600)
    await attempt.send()
    assert await attempt.look_up() == Absent()
    mail.advance(601)
    assert isinstance(await attempt.look_up(), Found)


async def test_other_content_under_our_message_id_is_seen(mail: SimulatorProcess, adapter: EmailAdapter) -> None:
    attempt = Attempt(adapter, EMAIL)
    await attempt.send()
    attempt.payload = EMAIL.model_copy(update={"body": "Something else"})
    assert await attempt.look_up() == Found(f"<{attempt.id}@acme.example>", content_matches=False)


async def test_a_journal_that_cannot_be_asked_says_nothing(mail: SimulatorProcess, adapter: EmailAdapter) -> None:
    attempt = Attempt(adapter, EMAIL)
    await attempt.prepare()
    mail.plan(lookup_down=True)
    assert isinstance(await attempt.look_up(), Unavailable)
    mail.plan()
    for elsewhere in (journaled(mail, imap_mailbox='No "such" box'), journaled(mail, imap_port=closed_port())):
        attempt.adapter = elsewhere
        assert isinstance(await attempt.look_up(), Unavailable)


async def test_a_login_that_is_refused_is_a_fault_of_the_account(mail: SimulatorProcess, adapter: EmailAdapter) -> None:
    first = Attempt(adapter, EMAIL)
    mail.plan(script=[{"marker": first.id, "faults": ["unauthorized"]}], unauthorized_seconds=3600)
    await first.send()
    outcome = await Attempt(adapter, EMAIL).send()
    assert outcome == NotSent("connecting: 535 5.7.8 authentication credentials invalid", account_fault=True)
    mail.advance(3601)
    assert isinstance(await Attempt(adapter, EMAIL).send(), Accepted)


# --- on the wire ---


def closed_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


class Script:
    """A server that says what a test tells it to, and keeps every byte it read."""

    def __init__(self, **says: bytes | None) -> None:
        self.says: dict[str, bytes | None] = {
            "hello": b"220 hi\r\n",
            "EHLO": b"250-hi\r\n250 DSN\r\n",
            "MAIL": b"250 ok\r\n",
            "RCPT": b"250 ok\r\n",
            "DATA": b"354 go on\r\n",
            "dot": b"250 queued\r\n",
            "QUIT": b"221 bye\r\n",
            **says,
        }
        self.closes_after: str | None = None
        self.resets_after: str | None = None
        self.lines: list[bytes] = []
        self.sessions = 0
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sessions += 1
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._talk(reader, writer)
        self.gone.set()
        writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await self._say("hello", reader, writer):
            return
        in_data = False
        while line := await reader.readline():
            self.lines.append(line)
            verb = line[:4].decode("ascii").strip()
            if in_data and line != b".\r\n":
                continue
            step, in_data = ("dot" if in_data else verb), verb == "DATA" and not in_data
            if not await self._say(step, reader, writer):
                return

    async def _say(self, step: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        said = self.says[step]
        if said is None:  # silence, without reading any further
            await self._until_gone(writer)
            return False
        writer.write(said)
        await writer.drain()
        if step == self.resets_after:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            writer.transport.abort()
        return step not in {self.closes_after, self.resets_after}

    async def _until_gone(self, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            writer.write(b"")
            await asyncio.sleep(0.01)
            if writer.get_extra_info("socket").getsockopt(socket.SOL_TCP, socket.TCP_INFO, 1)[0] != 1:  # 1: established
                return


@contextlib.asynccontextmanager
async def scripted(script: Script, **fields: Any) -> AsyncIterator[EmailAdapter]:
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that a server that does not read is felt soon
    raw.bind(("127.0.0.1", 0))
    listener = await asyncio.start_server(script.serve, sock=raw, limit=4096)
    try:
        async with opened(made("127.0.0.1", raw.getsockname()[1], **fields)) as adapter:
            assert isinstance(adapter, EmailAdapter)
            yield adapter
    finally:
        listener.close()


async def outcome_of(script: Script, payload: SendEmail = EMAIL, **fields: Any) -> Outcome:
    """What comes of a conversation. It ends long before the deadline, also on a slow machine, unless a test says otherwise."""
    async with scripted(script, **{"deadline_seconds": PATIENT, **fields}) as adapter:
        return await Attempt(adapter, payload).send()


@pytest.mark.parametrize("step", ["hello", "EHLO", "MAIL", "RCPT", "DATA"])
async def test_silence_before_the_message_means_not_sent(step: str) -> None:
    script = Script(**{step: None})
    outcome = await outcome_of(script, deadline_seconds=DEADLINE)
    assert isinstance(outcome, NotSent)
    assert "the deadline passed" in outcome.reason
    assert b".\r\n" not in script.lines


@pytest.mark.parametrize("step", ["hello", "EHLO", "MAIL", "RCPT"])
async def test_a_connection_lost_before_the_message_means_not_sent(step: str) -> None:
    script = Script(**{step: b""})
    script.closes_after = step
    assert isinstance(await outcome_of(script), NotSent)


async def test_a_server_that_leaves_after_354_got_no_dot() -> None:
    script = Script()
    script.resets_after = "DATA"
    outcome = await outcome_of(script, EMAIL.model_copy(update={"body": "ü" * 90_000}))
    assert isinstance(outcome, NotSent), outcome
    assert outcome.reason.endswith("at DATA, before the final dot")


class Deaf(Script):
    """Says 354 and reads no further until the client is gone; then what is still there."""

    async def _say(self, step: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        going_on = await super()._say(step, reader, writer)
        if step == "DATA":
            await self._until_gone(writer)
            self.lines.append(await reader.read())
        return going_on and step != "DATA"


async def test_a_message_that_the_server_does_not_read_is_not_sent_and_never_leaves_afterwards() -> None:
    # Given a message that fits into no buffer on the way
    letter = Letter("no-reply@acme.example", "ada@example.org", "<op_1@acme.example>", b"x" * (16 << 20))
    script = Deaf()
    async with scripted(script) as adapter:
        # When the deadline passes while it is still being handed to the network
        async with Smtp(adapter._smtp, send_contract(), DEADLINE) as smtp:
            outcome = await smtp.deliver(letter, envelope_id="op_1")
        # Then nothing was sent, for sure: the dot never left, not even after we had gone
        assert outcome == NotSent("the deadline passed at DATA, before the final dot")
        await asyncio.wait_for(script.gone.wait(), 5)
    assert not any(line.endswith(b"\r\n.\r\n") for line in script.lines)


@pytest.mark.case("R070")
@pytest.mark.parametrize("how", ["resets_after", "closes_after"])
async def test_a_250_that_comes_together_with_the_end_counts(how: str) -> None:
    script = Script()
    setattr(script, how, "dot")
    assert isinstance(await outcome_of(script), Accepted)


@pytest.mark.case("R070")
@pytest.mark.parametrize("goodbye", [b"500 what?\r\n", b"garbage\r\n", b"", None])
async def test_whatever_the_goodbye_is_the_message_was_taken(goodbye: bytes | None) -> None:
    script = Script(QUIT=goodbye)
    script.closes_after = "QUIT"
    assert isinstance(await outcome_of(script), Accepted)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"250 ok\r\n", Accepted),
        (b"250-first\r\n250 second\r\n", Accepted),
        (b"451 later\r\n", Ambiguous),
        (b"550 no\r\n", Refused),
        (b"2", Ambiguous),
        (b"rubbish\r\n", Ambiguous),
        (b"354 again\r\n", Ambiguous),
        (b"", Ambiguous),
    ],
)
async def test_only_a_whole_reply_to_the_dot_decides(said: bytes, expected: type[Outcome]) -> None:
    script = Script(dot=said)
    script.closes_after = "dot"
    assert isinstance(await outcome_of(script), expected)


@pytest.mark.case("R071")
async def test_after_a_timeout_the_connection_is_dropped_and_the_next_letter_gets_its_own() -> None:
    script = Script(dot=None)
    async with scripted(script) as adapter:
        assert isinstance(await Attempt(adapter, EMAIL).send(), Ambiguous)
        await asyncio.wait_for(script.gone.wait(), 5)
        script.says["dot"] = b"250 queued\r\n"
        assert isinstance(await Attempt(adapter, EMAIL).send(), Accepted)
    assert script.sessions == 2


@pytest.mark.case("R029")
@pytest.mark.invariant(4)
async def test_one_attempt_is_one_letter_and_two_attempts_are_the_same_commands() -> None:
    script = Script()
    async with scripted(script) as adapter:
        attempt = Attempt(adapter, EMAIL)
        await attempt.send()
        first, script.lines = script.lines, []
        await attempt.send()
    assert first == script.lines
    assert first[:4] == [
        b"EHLO acme.example\r\n",
        b"MAIL FROM:<no-reply@acme.example> ENVID=%s\r\n" % attempt.id.encode(),
        b"RCPT TO:<ada@example.org>\r\n",
        b"DATA\r\n",
    ]
    assert first.count(b".\r\n") == 1
    assert first[-3:] == [b"QUIT\r\n", b".\r\n", b"QUIT\r\n"]  # a line of the text, the final dot, and our goodbye
    assert {b"..\r\n", b"...dots\r\n"} < set(first)


async def test_a_second_letter_in_one_send_is_refused() -> None:
    script = Script()
    async with scripted(script) as adapter:
        attempt = Attempt(adapter, EMAIL)
        send: Callable[..., Any] = attempt.declared.send

        async def twice(self: EmailAdapter, op: Any, smtp: Any) -> Outcome:
            await send(self, op, smtp)
            return await send(self, op, smtp)  # type: ignore[no-any-return]

        attempt.declared.send = twice
        assert await attempt.send() == Ambiguous("the adapter failed during the call: RuntimeError")
        attempt.declared.send = send
    assert script.lines.count(b".\r\n") == 1


async def test_nobody_at_the_door_means_not_sent() -> None:
    outcome = await Attempt(made("127.0.0.1", closed_port()), EMAIL).send()
    assert isinstance(outcome, NotSent)
    assert not outcome.account_fault


async def test_a_server_without_the_encryption_that_is_wanted_never_sees_the_letter() -> None:
    script = Script()
    outcome = await outcome_of(script, smtp_starttls=True)
    assert isinstance(outcome, NotSent)
    assert outcome.account_fault
    assert not any(line.startswith(b"MAIL") for line in script.lines)


async def test_a_shutdown_during_the_call_is_ambiguous_and_drops_the_connection() -> None:
    script = Script(dot=None)
    async with scripted(script, deadline_seconds=20) as adapter:
        running = asyncio.create_task(Attempt(adapter, EMAIL).send())
        async with asyncio.timeout(5):
            while b".\r\n" not in script.lines:
                await asyncio.sleep(0.005)
        running.cancel()
        assert isinstance(await running, Ambiguous)
        await asyncio.wait_for(script.gone.wait(), 5)
