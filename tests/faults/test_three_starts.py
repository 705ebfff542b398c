"""The example: killed between an effect and its record, started again, and again."""

import re
import signal
from pathlib import Path

import pytest
from processes import leftovers, started

SCRIPT = Path(__file__).parents[2] / "examples" / "three_starts.py"
README = (SCRIPT.parent / "README.md").read_text(encoding="utf-8")


def start(state: Path, *more: str) -> tuple[int, list[str]]:
    with started("--state", state, *more, script=SCRIPT) as one:
        code = one.ends(60)
    assert leftovers(one) == []
    assert "Traceback" not in one.err
    return code, one.lines["out"]


@pytest.mark.case("R002")
def test_the_second_start_finds_the_receipt_and_goes_on_and_the_third_does_nothing(tmp_path: Path) -> None:
    # Given the three calls as the example's README has them
    calls = re.findall(r"^\S+python examples/three_starts\.py --state \S+(.*)$", README, re.MULTILINE)
    first, second, third = (start(tmp_path, *call.split()) for call in calls)

    assert first == (-signal.SIGKILL, ["killed (SIGKILL) with the provider's answer in hand, before it was saved"])

    code, lines = second
    assert code == 0
    assert lines[2:] == ["entries at the providers: 2, one for each key", "the run is complete"]
    found = re.fullmatch(r"ticket\.create\.v1: receipt found at the provider, (\S+), after 1 attempt\(s\)", lines[0])
    sent = re.fullmatch(r"email\.send\.v1: effect applied, (\S+), after 1 attempt\(s\)", lines[1])
    assert found, lines
    assert sent, lines

    code, lines = third
    assert code == 0
    assert lines == [
        f"ticket.create.v1: nothing to do, the receipt {found[1]} is on record",
        f"email.send.v1: nothing to do, the receipt {sent[1]} is on record",
        "entries at the providers: 2, one for each key",
        "the run is complete",
    ]
