"""Three checkpoints at which an agent's process is killed, and what the next start does about each.

    python examples/three_checkpoints.py

nothing dangles: it goes on and asks the model for the next turn. A read dangles: it runs again, since reading changes nothing.
An email dangles: the model is told that its outcome is unknown, and the real tool is called 0 times. Here `send_email` is a tool
that the process runs itself and that no ledger knows of; `crash_windows.py` shows what an operation of the ledger adds.
"""

import argparse
import json
import os
from pathlib import Path

from ground import FLOW_VERSION, LEASE, database, die, killed, played, resumed, servers

from acuse import Ledger, Outbox
from acuse.agents import Journal, Risk, ToolCall, ToolGate, Tools

READ = ToolCall("toolu_01A", "read_file", {"path": "notes.md"})
SEND = ToolCall("toolu_01B", "send_email", {"to": "team@example.org", "subject": "What we decided this week"})
CHECKPOINTS = {"A": ("nothing dangles", READ), "B": ("a read dangles", READ), "C": ("an email dangles", SEND)}

journal = Journal()
tools = Tools()
mailbox = Path(os.environ.get("EXAMPLE_MAILBOX", "mailbox"))
really_ran: list[str] = []


def ran(tool: str) -> None:
    """Every real run of a tool comes by here, after it has done what it does."""
    really_ran.append(tool)
    if "EXAMPLE_DIES_IN_TOOL" in os.environ:
        die("after the tool had run and before its result was stored")


@tools.read_only(risk=Risk.LOW, why="reading twice is reading once, whatever the file holds")
def read_file(path: str) -> str:
    """Read a file."""
    ran("read_file")
    return f"the words of {path}"


@tools.appends(risk=Risk.HIGH, why="nobody can take an email back, and every run sends one more")
def send_email(to: str, subject: str) -> str:
    """Send an email, into a file of ours."""
    with mailbox.open("a") as box:
        box.write(f"{to}: {subject}\n")
    ran("send_email")
    return "sent"


def model(messages: int) -> str:
    """The model, which costs money and may say something else each time."""
    print(f"  the model is asked, with {messages} messages")
    return json.dumps({"role": "assistant", "content": "It is done."})


def first_start(checkpoint: str) -> None:
    """A run that is killed at a checkpoint."""
    if checkpoint in "BC":
        os.environ["EXAMPLE_DIES_IN_TOOL"] = "yes"
    engine, call = database(), CHECKPOINTS[checkpoint][1]
    with engine.begin() as session:
        run = journal.start(session, checkpoint, flow_version=FLOW_VERSION, task="Tell the team", owner="start 1", lease=LEASE)
        # The model has decided: that is stored before any tool runs.
        run = journal.decide(session, run, json.dumps({"role": "assistant", "content": [call.name]}), [call])
    ToolGate(engine.begin, tools, journal, Outbox(), Ledger(engine)).call(run, call)
    die("after the result was stored and before the next turn")


def second_start(checkpoint: str) -> None:
    """The next owner of the run."""
    engine = database()
    found = resumed(engine, journal, checkpoint)
    print(f"  resumed: {found.next}, turn {found.turns}, dangling: {[call.name for call in found.dangling]}")
    gate = ToolGate(engine.begin, tools, journal, Outbox(), Ledger(engine))
    for answer in gate.answers(found.run, found.calls):
        print(f"  tool_result, is_error={str(answer.is_error).lower()}: {answer.content}")
    with engine.begin() as session:
        messages = journal.read(session, checkpoint).messages
        run = journal.decide(session, found.run, model(len(messages)))
        journal.finish(session, run)
    print(f"  the real tool was called {len(really_ran)} time(s) by this start")


def main() -> None:
    """All three, one after another."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", nargs=2, metavar=("START", "CHECKPOINT"), help="used by the script itself")
    words = parser.parse_args().part
    if words is not None:
        (first_start if words[0] == "first" else second_start)(words[1])
        return
    with servers() as folder:
        os.environ["EXAMPLE_MAILBOX"] = str(folder / "mailbox")
        for checkpoint, (what, _) in CHECKPOINTS.items():
            print(f"checkpoint {checkpoint}: {what}", flush=True)
            killed("first", checkpoint)
            played("second", checkpoint)
        print(f"emails in the mailbox: {len(Path(os.environ['EXAMPLE_MAILBOX']).read_text().splitlines())}")


if __name__ == "__main__":
    main()
