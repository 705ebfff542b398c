"""The examples of agents that are killed: each runs as its reader runs it, with real kills, and says what it should."""

import re
from pathlib import Path

import pytest
from processes import leftovers, started

EXAMPLES = Path(__file__).parents[2] / "examples"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
OP = "op_[0-9a-f]{32}"

# A world of servers, providers and four starts of Python: seconds on a quiet machine, and it is not always quiet.
pytestmark = pytest.mark.timeout(600)


def said(example: str, *words: str) -> list[str]:
    """What an example says from its start to its end; nothing of it is left behind."""
    assert f"examples/{example}.py`" in README
    with started(*words, script=EXAMPLES / f"{example}.py") as one:
        code = one.ends(580)
    assert (code, one.err) == (0, ""), one.err
    assert leftovers(one) == []
    return [line.strip() for line in one.lines["out"]]


@pytest.mark.case("R089")
def test_three_checkpoints_go_on_run_again_and_say_unknown() -> None:
    lines = said("three_checkpoints")
    nothing, read, email = (
        lines.index(f"checkpoint {name}") for name in ("A: nothing dangles", "B: a read dangles", "C: an email dangles")
    )
    asked, once, never = (
        "the model is asked, with 3 messages",
        *(f"the real tool was called {n} time(s) by this start" for n in (1, 0)),
    )
    killed = "killed (SIGKILL) after the tool had run and before its result was stored"
    assert lines[nothing + 1 : read] == [
        "killed (SIGKILL) after the result was stored and before the next turn",
        "resumed: ask, turn 1, dangling: []",
        asked,
        never,
    ]
    assert lines[read + 1 : email] == [
        killed,
        "resumed: answer, turn 1, dangling: ['read_file']",
        "tool_result, is_error=false: the words of notes.md",
        asked,
        once,
    ]
    assert lines[email + 1 : email + 3] == [killed, "resumed: answer, turn 1, dangling: ['send_email']"]
    assert lines[email + 3].startswith("tool_result, is_error=true: Outcome unknown: send_email may or may not have taken effect")
    assert lines[email + 4 :] == [asked, never, "emails in the mailbox: 1"]


@pytest.mark.case("R082")
def test_the_same_call_twice_calls_the_real_tool_once() -> None:
    killed, first, second, seen = said("same_call_twice")
    assert killed == "killed (SIGKILL) with the receipt on record, before the model was told"
    answer = rf"confirmed\. Done: ticket\.create\.v1 for incident-12 is confirmed\. Receipt: (\S+)\. \({OP}\)"
    receipts = [re.fullmatch(f"{call}: {answer}", line) for call, line in (("toolu_01abc", first), ("toolu_09xyz", second))]
    assert all(receipts), (first, second)
    assert first.split(": ", 1)[1] == second.split(": ", 1)[1]
    assert seen == "requests that reached the helpdesk: 1, tickets: 1"


def test_did_it_happen_is_asked_before_should_it_and_nobody_is_asked_twice() -> None:
    lines = said("two_gates")
    patterns = [
        "start 1: did it happen\\? no\\. should it\\? somebody has to say",
        (
            "waiting_for_approval: Not sent yet: email\\.send\\.v1 for mail-9 waits for a person's approval\\. "
            f"Do not call again\\. It is kept as {OP}\\."
        ),
        "killed \\(SIGKILL\\) while nobody had decided",
        "ann says yes to email\\.send\\.v1 for mail-9: granted",
        "start 2: it was asked for already, and approved",
        "killed \\(SIGKILL\\) with the receipt on record, before the model was told",
        "start 3: did it happen\\? yes",
        f"confirmed: Done: email\\.send\\.v1 for mail-9 is confirmed\\. Receipt: \\S+\\. \\({OP}\\)",
        "questions to a person: 1, emails sent: 1",
    ]
    assert len(lines) == len(patterns), lines
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)


@pytest.mark.case("R089")
def test_every_crash_window_ends_in_what_is_true_of_it() -> None:
    lines = said("crash_windows")
    windows = {
        "before-sending": "killed (SIGKILL) before anything was sent",
        "no-answer": "killed (SIGKILL) after it had sent the request, while the helpdesk was silent",
        "before-checkpoint": "killed (SIGKILL) with the provider's answer in hand, before it was saved",
        "after-receipt": "killed (SIGKILL) with the receipt on record, before the model was told",
    }
    at = iter(lines)
    for window, killed in windows.items():
        assert (next(at), next(at)) == (window, killed)
        answer = next(at)
        expected = rf"confirmed: Done: ticket\.create\.v1 for {window} is confirmed\. Receipt: \S+\. \({OP}\)"
        assert re.fullmatch(expected, answer), answer
    assert (next(at), next(at)) == ("no-look-up", windows["before-checkpoint"])
    answer = next(at)
    assert answer.startswith(
        "unknown: Outcome unknown: email.send.v1 for no-look-up may or may not have happened. Do not repeat it."
    )
    # One object each, as the providers count: nothing was lost, nothing doubled, and what nobody can look up was not sent again
    assert list(at) == ["tickets at the helpdesk: 4, emails sent: 1"]


def test_a_window_that_does_not_exist_is_named() -> None:
    with started("no-such", script=EXAMPLES / "crash_windows.py") as one:
        assert one.ends(120) == 1
    assert "no such window: no-such; there are before-sending," in one.err
