"""A letter's bytes, what is refused at intake, and what replies over SMTP mean before and after the final dot."""

import email
import email.policy
from typing import Any

import pytest
from pydantic import ValidationError

from acuse.errors import ConfigurationError
from acuse.protocol import Accepted, Ambiguous, Concerns, NotSent, Outcome, Receipt, Refused
from acuse_adapters.email import SendEmail
from acuse_adapters.email.adapter import EmailAdapter
from acuse_adapters.email.classify import Step, at_dot, before_dot, lost
from acuse_adapters.email.contract import send_contract
from acuse_adapters.email.message import agrees, letter
from acuse_adapters.email.settings import EmailSettings

MESSAGE_ID = f"<op_{7:032x}@example.org>"
PIN = {"date": "Mon, 30 Nov 2026 10:41:07 +0000", "message_id": MESSAGE_ID, "from": "Acmé <no-reply@example.org>"}


def mail(**fields: Any) -> SendEmail:
    return SendEmail(**{"reference": "case-1", "to": "ada@example.org", "subject": "Grüße", "body": "Hallo\nWelt\n", **fields})


def test_a_letter_is_a_function_of_payload_and_pin() -> None:
    first, second = letter(mail(template="case-closed"), PIN), letter(mail(template="case-closed"), dict(reversed(PIN.items())))
    assert first == second
    assert (first.sender, first.recipient, first.message_id) == ("no-reply@example.org", "ada@example.org", MESSAGE_ID)
    read = email.message_from_bytes(first.content, policy=email.policy.default)
    assert dict(read.items()) == {
        "From": "Acmé <no-reply@example.org>",
        "To": "ada@example.org",
        "Subject": "Grüße",
        "Date": PIN["date"],
        "Message-ID": MESSAGE_ID,
        "X-Acuse-Template": "case-closed",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "quoted-printable",
        "MIME-Version": "1.0",
    }
    assert read.get_content() == "Hallo\r\nWelt\r\n"


@pytest.mark.parametrize("body", ["", ".", "\n.\n.\nQUIT\n", "x" * 5000, "a\r\nb\rc", "ä" * 3000 + " \t", "\u2028\x0b\x00"])
def test_whatever_the_text_its_bytes_are_short_lines_of_seven_bits(body: str) -> None:
    content = letter(mail(body=body), {**PIN, "message_id": f"<op_{7:032x}@{'a' * 50}.{'b' * 50}.example>"}).content
    assert content.isascii()
    lines = content.split(b"\r\n")
    assert all(b"\n" not in line and b"\r" not in line for line in lines)
    assert all(len(line) <= 76 for line in lines if not line.startswith(b"Message-ID:"))
    assert f"Message-ID: <op_{7:032x}@{'a' * 50}.{'b' * 50}.example>".encode() in lines
    read = email.message_from_bytes(content, policy=email.policy.default).get_content()
    assert read.replace("\r\n", "\n").rstrip("\n") == body.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subject", "Hello\r\nBcc: eve@example.org"),
        ("subject", "Hello\nX: y"),
        ("subject", "Hello\x00"),
        ("subject", ""),
        ("subject", "a\u2028b"),
        ("to", "ada@example.org, eve@example.org"),
        ("to", "ada@example.org> SIZE=1\r\nRCPT TO:<eve@example.org"),
        ("to", "<ada@example.org>"),
        ("to", "Ada <ada@example.org>"),
        ("to", "ada"),
        ("to", "@example.org"),
        ("to", "ädä@example.org"),
        ("to", "ada@ex ample.org"),
        ("to", "ada@"),
        ("template", "a\nb"),
        ("template", "a\n"),
    ],
)
def test_nothing_that_could_become_another_header_or_recipient_is_taken_in(field: str, value: str) -> None:
    with pytest.raises(ValidationError):
        mail(**{field: value})


def test_a_payload_that_went_past_validation_still_makes_no_second_header() -> None:
    with pytest.raises(ValueError):
        letter(mail().model_copy(update={"subject": "Hello\r\nBcc: eve@example.org"}), PIN)


def test_a_message_is_ours_by_its_exact_id_and_agrees_though_servers_add_to_it() -> None:
    raw = b"Received: from x\r\n" + letter(mail(), PIN).content + b"\r\n-- \r\nsent by Acme\r\n"
    assert agrees(raw, mail(), MESSAGE_ID) is True
    assert agrees(raw, mail(), MESSAGE_ID.replace("7@", "8@")) is None
    assert agrees(raw, mail(body="Other"), MESSAGE_ID) is False
    assert agrees(raw, mail(subject="Other"), MESSAGE_ID) is False
    assert agrees(raw, mail(to="eve@example.org"), MESSAGE_ID) is False
    assert agrees(b"Message-ID: " + MESSAGE_ID.encode() + b"\r\nContent-Type: image/png\r\n\r\nx", mail(), MESSAGE_ID) is False


@pytest.mark.parametrize(
    ("step", "code", "expected"),
    [
        (Step.CONNECT, 421, NotSent("connecting: 421 no")),
        (Step.CONNECT, 554, NotSent("connecting: 554 no", account_fault=True)),
        (Step.CONNECT, 535, NotSent("connecting: 535 no", account_fault=True)),
        (Step.CONNECT, 454, NotSent("connecting: 454 no")),
        (Step.MAIL, 530, NotSent("MAIL: 530 no", account_fault=True)),
        (Step.MAIL, 451, NotSent("MAIL: 451 no")),
        (Step.MAIL, 552, Refused("552", "MAIL: 552 no")),
        (Step.RCPT, 450, NotSent("RCPT: 450 no", concerns=Concerns.OPERATION)),
        (Step.RCPT, 550, Refused("550", "RCPT: 550 no")),
        (Step.RCPT, -1, NotSent("RCPT: -1 no")),
        (Step.DATA, 451, NotSent("DATA: 451 no")),
        (Step.DATA, 554, Refused("554", "DATA: 554 no")),
        (Step.DATA, 250, NotSent("DATA: 250 no")),
    ],
)
def test_before_the_final_dot_nothing_was_done(step: Step, code: int, expected: Outcome) -> None:
    assert before_dot(send_contract(), step, code, "no") == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (250, Accepted(Receipt(MESSAGE_ID, provider_request_id="said"))),
        (252, Accepted(Receipt(MESSAGE_ID, provider_request_id="said"))),
        (550, Refused("550", "the final dot: 550 said")),
        (554, Refused("554", "the final dot: 554 said")),
        (530, NotSent("the final dot: 530 said", account_fault=True)),
        (421, Ambiguous("the final dot: 421 said")),
        (451, Ambiguous("the final dot: 451 said")),
        (354, Ambiguous("the final dot: 354 said")),
        (-1, Ambiguous("the final dot: -1 said")),
    ],
)
def test_after_the_final_dot_only_a_definite_reply_is_believed(code: int, expected: Outcome) -> None:
    assert at_dot(send_contract(), code, "said", MESSAGE_ID) == expected


def test_a_temporary_refusal_of_the_dot_is_believed_where_the_team_vouches_for_it() -> None:
    contract = send_contract(not_executed_at_dot={451})
    assert at_dot(contract, 451, "said", MESSAGE_ID) == NotSent("the final dot: 451 said")
    assert isinstance(at_dot(contract, 452, "said", MESSAGE_ID), Ambiguous)


@pytest.mark.parametrize("step", list(Step))
def test_a_lost_connection_leaves_doubt_only_once_the_dot_may_have_left(step: Step) -> None:
    for error in (ConnectionResetError(), TimeoutError()):
        assert isinstance(lost(step, error), Ambiguous if step is Step.DOT else NotSent)


# --- settings and contracts ---


def configured(monkeypatch: pytest.MonkeyPatch, **values: str) -> EmailAdapter | None:
    for name, value in {"SMTP_HOST": "mail.example", "SENDER": "Acme <no-reply@example.org>", **values}.items():
        monkeypatch.setenv(f"ACUSE_EMAIL_{name}", value)
    return EmailAdapter.from_environment()


def test_without_a_journal_there_is_no_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = configured(monkeypatch)
    assert adapter is not None
    declared = adapter.actions["email.send.v1"]
    assert (declared.contract.lookup, declared.look_up_step) == (None, None)
    assert declared.contract.version == "2026-11 deadline40 flight600"
    assert adapter.problems() == []


def test_with_a_journal_the_look_up_lags_by_what_the_team_says(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = configured(monkeypatch, IMAP_HOST="mail.example", IMAP_USERNAME="journal")
    assert adapter is not None
    declared = adapter.actions["email.send.v1"]
    assert declared.contract.lookup is not None
    assert declared.contract.lookup.visible_within is None
    assert declared.look_up_step is not None
    adapter = configured(monkeypatch, IMAP_VISIBLE_WITHIN_SECONDS="60", DEADLINE_SECONDS="30", MAX_IN_FLIGHT_SECONDS="90")
    assert adapter is not None
    contract = adapter.actions["email.send.v1"].contract
    assert contract.lookup is not None
    assert contract.lookup.visible_within is not None
    assert contract.lookup.visible_within.because == "set by ACUSE_EMAIL_IMAP_VISIBLE_WITHIN_SECONDS"
    assert contract.version == "2026-11 imap deadline30 flight90 seen60"
    assert adapter.problems() == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("SENDER", "", "ACUSE_EMAIL_SENDER"),
        ("SENDER", "nobody", "ACUSE_EMAIL_SENDER"),
        ("SENDER", "a@example.org\r\nBcc: b@example.org", "ACUSE_EMAIL_SENDER"),
        ("DOMAIN", "exa mple", "ACUSE_EMAIL_DOMAIN"),
        ("DOMAIN", "a" * 201, "ACUSE_EMAIL_DOMAIN"),
        ("SMTP_PORT", "0", "ACUSE_EMAIL_SMTP_PORT"),
        ("NOT_EXECUTED_AT_DOT", "[550]", "ACUSE_EMAIL_NOT_EXECUTED_AT_DOT"),
        ("NOT_EXECUTED_AT_DOT", "451,452", "ACUSE_EMAIL_NOT_EXECUTED_AT_DOT: must be JSON"),
        ("IMAP_HOST", "mail.example", "ACUSE_EMAIL_IMAP_USERNAME"),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        configured(monkeypatch, **{name: value})


def test_email_is_off_without_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configured(monkeypatch, SMTP_HOST="") is None


def test_passwords_stay_out_of_sight() -> None:
    settings = EmailSettings(
        smtp_host="mail.example",
        sender="a@example.org",
        smtp_username="u",
        smtp_password="secret",
        imap_password="secret",  # type: ignore[arg-type]
    )
    assert "secret" not in repr(settings)
    assert "secret" not in repr(vars(EmailAdapter(settings)))
