"""How the mail server reads what clients say: IMAP searches and sets, SMTP envelopes, markers."""

from __future__ import annotations

import pytest

from acuse_adapters.simulators.imap_query import Refusal, criteria, expanded, in_set, item, tokens
from acuse_adapters.simulators.mail import Message, marker_of
from acuse_adapters.simulators.smtp_reply import early_marker

RAW = b"Message-ID: <op_1@acuse.test>\r\nSubject: Case closed\r\nTo: a@example.org\r\n\r\nhello\r\n"
SHOWN = [
    Message(1, "2026-11-30T06:00:00+00:00", RAW),
    Message(5, "2026-11-30T06:00:01+00:00", RAW.replace(b"op_1@", b"op_2@")),
]


def search(text: str) -> list[int]:
    wanted = criteria(tokens(text), SHOWN)
    return [message.uid for number, message in enumerate(SHOWN, 1) if all(accepts(number, message) for accepts in wanted)]


@pytest.mark.parametrize(
    ("text", "uids"),
    [
        ('HEADER Message-ID "<op_1@acuse.test>"', [1]),
        ("(HEADER MESSAGE-ID <op_2@acuse.test>)", [5]),
        ('HEADER Message-ID "<op_3@acuse.test>"', []),
        ("ALL", [1, 5]),
        ("UID 5:*", [5]),
        ("2 SUBJECT closed", [5]),
        ("CHARSET UTF-8 TEXT hello", [1, 5]),
    ],
)
def test_a_search_finds_what_all_its_keys_accept(text: str, uids: list[int]) -> None:
    assert search(text) == uids


@pytest.mark.parametrize("text", ["NEVERHEARD", "HEADER Message-ID", "UID x"])
def test_a_search_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="BAD"):
        search(text)


def test_quoted_strings_keep_their_spaces_and_items_their_brackets() -> None:
    assert tokens(r'FETCH 1 (UID BODY.PEEK[HEADER.FIELDS (To Cc)]) "a \"b\" c"') == [
        "FETCH",
        "1",
        "(",
        "UID",
        "BODY.PEEK[HEADER.FIELDS (To Cc)]",
        ")",
        'a "b" c',
    ]


def test_a_set_may_be_open_at_its_end() -> None:
    chosen = in_set("2:*", SHOWN, by_uid=False)
    assert [chosen(number, message) for number, message in enumerate(SHOWN, 1)] == [False, True]


def test_items_of_a_message() -> None:
    assert item("BODY.PEEK[]", SHOWN[0]) == b"BODY[] {%d}\r\n%s" % (len(RAW), RAW)
    assert item("BODY.PEEK[TEXT]", SHOWN[0]) == b"BODY[TEXT] {7}\r\nhello\r\n"
    assert item("INTERNALDATE", SHOWN[0]) == b'INTERNALDATE "30-Nov-2026 06:00:00 +0000"'
    assert item("BODY.PEEK[HEADER.FIELDS (Subject)]", SHOWN[0]).endswith(b"Subject: Case closed\r\n\r\n")
    assert expanded("FAST") == ["FLAGS", "INTERNALDATE", "RFC822.SIZE"]
    with pytest.raises(Refusal, match="BODYSTRUCTURE"):
        item("BODYSTRUCTURE", SHOWN[0])


def test_the_marker_is_the_left_part_of_the_message_id() -> None:
    assert marker_of(RAW) == "op_1"
    assert marker_of(b"Subject: none\r\n\r\n<op_9@x>") is None


def test_the_envelope_can_show_the_marker_before_the_message() -> None:
    assert early_marker("a@example.org", "SIZE=10 ENVID=op_7") == "op_7"
    assert early_marker("a@example.org", "ENVID=op_7+40acuse.test") == "op_7"
    assert early_marker("bounce+op_8@example.org", "") == "op_8"
    assert early_marker("a@example.org", "BODY=8BITMIME") is None
