"""What a person reads about an operation: every line says one thing, and none says it twice."""

from datetime import timedelta
from typing import Any

import pytest
from recorded import NOW, OPERATION, SENT, bare_contract, contract, read, record, tried, upsert_contract

from acuse.command.explain import explain
from acuse.protocol import State
from acuse.store.behind import Waiting

MINUTE = timedelta(minutes=1)
LOOKED = [read(SENT + MINUTE * n) for n in (3, 5, 9)]


def open_window(**given: Any) -> dict[str, Any]:
    return {"retry_until": NOW + MINUTE * 103, "due_at": NOW + MINUTE * 2, **given}


def test_an_unknown_says_what_was_tried_and_found_and_until_when_a_repeat_is_safe() -> None:
    behind = [Waiting("op_1", "email.send.v1", "owner"), Waiting("op_2", "crm.log_note.v1", "case-318")]
    lines = explain(record(**open_window(approval_id="apr_9f2")), [tried(1, SENT), *LOOKED], behind, contract())
    assert lines == [
        f"{OPERATION} · ticket.create.v1 · case-318 · ticket/default · unknown for 12 min",
        "Sent once at 10:41:07 UTC; the connection closed before an answer.",
        "Looked up 3 times by external_id: not found. This search may lag and nobody states by how much, so that is no proof.",
        (
            "Repeating with the same key is safe until 12:36:07 UTC (1 h 43 min). After that a repeat may do it twice: "
            "the customer gets a second ticket."
        ),
        "2 operations wait behind it: email.send.v1 (owner), crm.log_note.v1 (case-318).",
        (
            "Next automatic step: look it up again at 10:55:07 UTC, then repeat it with the same key if that is still needed "
            "(under apr_9f2, if that still stands then)."
        ),
    ]


def test_a_window_that_is_closed_is_said_to_be_and_nothing_is_promised_any_more() -> None:
    seen = record(retry_until=NOW - MINUTE * 2, due_at=NOW + MINUTE)
    lines = explain(seen, [tried(1, SENT), *LOOKED], (), contract())
    assert lines[3] == (
        "Repeating with the same key was safe until 10:51:07 UTC (2 min ago). Now a repeat may do it twice: "
        "the customer gets a second ticket."
    )
    assert lines[-1] == "Next automatic step: look it up again at 10:54:07 UTC."


def test_a_look_up_that_comes_after_the_window_promises_no_repeat() -> None:
    seen = record(retry_until=NOW + MINUTE, due_at=NOW + MINUTE * 5)
    assert (
        explain(seen, [tried(1, SENT), *LOOKED], (), contract())[-1] == "Next automatic step: look it up again at 10:58:07 UTC."
    )


@pytest.mark.parametrize("state", [State.PREPARED, State.CONFIRMED, State.REJECTED, State.DISPATCHING])
def test_what_is_not_unknown_has_no_word_on_repeating(state: State) -> None:
    seen = record(state=state, retry_until=NOW + MINUTE, result_id="T-81", claim_until=NOW + MINUTE, settled_at=NOW, attempts=1)
    text = "\n".join(explain(seen, [tried(1, SENT)], (), contract()))
    assert "epeat" not in text.replace("Repeating", "Repeat")
    assert "unknown for" not in text


def test_a_confirmed_operation_names_what_it_made() -> None:
    seen = record(state=State.CONFIRMED, result_id="T-81", result_version="4", doubts=0, settled_at=NOW)
    lines = explain(seen, [tried(1, SENT, "accepted", None)], (), contract())
    assert lines == [
        f"{OPERATION} · ticket.create.v1 · case-318 · ticket/default · confirmed",
        "It happened: T-81 at the provider, version 4.",
        "Nothing: it is settled.",
    ]


def test_a_prepared_operation_says_what_it_waits_for() -> None:
    seen = record(
        state=State.PREPARED, attempts=0, doubts=0, first_sent_at=None, waiting="dependency", waits_for=("op_1", "op_2")
    )
    lines = explain(seen, (), (), contract())
    assert lines[1:] == ["Nothing was sent: it waits for others.", "It is sent when op_1 and op_2 are confirmed."]


def test_one_that_waits_is_counted_as_one_and_many_are_not_all_named() -> None:
    waiting = [Waiting(f"op_{n}", "email.send.v1", f"case-{n}") for n in range(8)]
    history = [tried(1, SENT), *LOOKED]
    one = explain(record(**open_window()), history, waiting[:1], contract())
    many = explain(record(**open_window()), history, waiting, contract())
    assert "1 operation waits behind it: email.send.v1 (case-0)." in one
    assert any(line.startswith("8 operations wait behind it: ") and line.endswith(" and 3 more.") for line in many)


def test_a_worker_that_died_in_the_call_is_said_to_have_and_said_once() -> None:
    seen = record(**open_window(reason="the worker did not come back: it may have been sent", outcome_code="claim_expired"))
    lines = explain(seen, [tried(1, SENT, "sent", None)], (), contract())
    assert lines[1] == "Sent once at 10:41:07 UTC; the worker never came back, so nobody knows whether it was answered."
    assert lines[2] == "Not looked up by external_id yet."
    assert "did not come back" not in "\n".join(lines)


def test_several_attempts_are_told_with_their_times_and_a_refusal_of_the_last_settles_nothing() -> None:
    history = [tried(1, SENT), tried(2, SENT + MINUTE, "refused", "422: no"), *LOOKED]
    lines = explain(record(attempts=2, **open_window()), history, (), contract())
    assert lines[1] == "Sent 2 times, first at 10:41:07 UTC, last at 10:42:07 UTC; the connection closed before an answer."
    assert lines[2] == "The last attempt was refused (422: no), which says nothing about the one before it."


def test_an_attempt_that_sent_nothing_is_not_counted_as_sent() -> None:
    history = [tried(1, SENT), tried(2, SENT + MINUTE, "not_sent", "429: slow down")]
    lines = explain(record(attempts=2, **open_window()), history, (), contract())
    assert lines[1].startswith("Sent once at 10:41:07 UTC; ")
    assert lines[2] == "Tried again at 10:42:07 UTC, and nothing was sent then: 429: slow down."


def test_a_day_that_is_not_today_is_named() -> None:
    seen = record(read_at=NOW + timedelta(days=3), retry_until=NOW, due_at=None)
    lines = explain(seen, [tried(1, SENT), *LOOKED], (), contract())
    assert "unknown for 3 d 0 h" in lines[0]
    assert "Sent once at 2026-11-30 10:41:07 UTC" in lines[1]
    assert lines[-1] == "Next automatic step: look it up again as soon as a worker is free."


def test_a_natural_upsert_is_repeated_only_while_its_target_is_unchanged() -> None:
    seen = record(action="crm.close_case.v1", provider="crm", due_at=NOW + MINUTE)
    history = [tried(1, SENT), read(SENT + MINUTE, "target_state")]
    lines = explain(seen, history, (), upsert_contract())
    assert "but without our marker, so somebody else may have done it" in lines[2]
    assert lines[3] == "A repeat may do it twice: the case is closed a second time."
    assert lines[-1] == "Next automatic step: look it up again at 10:54:07 UTC, then repeat it if the target is unchanged."


def test_a_provider_that_offers_nothing_leaves_it_to_a_person_who_is_told_once_why_and_how() -> None:
    # Given the words of the verdict
    held = "the provider offers neither a key nor a look-up. A repeat means: the recipient gets the same email twice"
    lines = explain(record(held=held, reason=held), [tried(1, SENT)], (), bare_contract())
    how = f"acuse operations ACT {OPERATION} --version 7"
    assert lines == [
        f"{OPERATION} · ticket.create.v1 · case-318 · ticket/default · unknown for 12 min, held for a person",
        "Sent once at 10:41:07 UTC; the connection closed before an answer.",
        "The provider offers no way to look it up.",
        "A repeat may do it twice: the recipient gets the same email twice.",
        f"Only a person can go on. Possible: confirm, reject, recheck, accept-risk ({how}).",
    ]


def test_what_was_found_and_does_not_fit_is_read_out() -> None:
    held = "T-81 carries our marker but its content differs from what was pinned"
    lines = explain(
        record(held=held, reason=held, **open_window(due_at=None)), [tried(1, SENT), read(NOW, "found")], (), contract()
    )
    assert sum(held in line for line in lines) == 1
    assert "not found" not in "\n".join(lines)


def test_without_the_adapter_the_ledgers_own_words_are_used_once() -> None:
    # Given an operation that was judged by a worker elsewhere
    said = "looked up 3 times by external_id: not found. This search may lag. The key's window closed at 2026-11-30 10:51:07 UTC"
    lines = explain(record(reason=said, retry_until=NOW - MINUTE * 2), [tried(1, SENT), *LOOKED], (), None)
    assert lines[2] == f"{said[0].upper()}{said[1:]}."
    assert lines[-1] == "Next automatic step: look it up, or repeat it where that is safe, as soon as a worker is free."


def test_an_operation_that_was_only_suspected_says_that_no_attempt_is_on_record() -> None:
    seen = record(attempts=0, reason="restored to 10:00", outcome_code=None)
    assert explain(seen, (), (), contract())[1] == "It may have been sent, but no attempt is on record: restored to 10:00."
