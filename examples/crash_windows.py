"""Where a process can die around an effect, and what the next start does about it.

    python examples/crash_windows.py            # all of them
    python examples/crash_windows.py no-answer  # one

| killed                                     | what is known                 | what the next start does                        |
| ------------------------------------------ | ----------------------------- | ----------------------------------------------- |
| before-sending                             | nothing was asked for         | sends it, under the same operation              |
| no-answer: sent, and no answer came        | it may have happened          | looks it up by its marker: it did               |
| before-checkpoint: with the answer in hand | it happened, nobody wrote so  | looks it up, and does not send it again         |
| after-receipt                              | it happened, and is on record | tells the model the receipt                     |
| no-look-up: as no-answer, and nobody knows | it may have happened          | says unknown, sends nothing, leaves it to review |
"""

import argparse
import json
import sys

from ground import FLOW_VERSION, LEASE, Providers, database, die, killed, part, played, relay_and_worker, resumed, world

from acuse import Ledger, Outbox, State
from acuse.agents import Journal, Need, Risk, ToolCall, ToolGate, Tools
from acuse_adapters.email.action import SendEmail
from acuse_adapters.engine import Moment
from acuse_adapters.ticketing.action import CreateTicket

WINDOWS = ("before-sending", "no-answer", "before-checkpoint", "after-receipt", "no-look-up")

journal = Journal()
tools = Tools()
tools.effect(
    "create_ticket",
    action=CreateTicket,
    risk=Risk.MEDIUM,
    why="a second ticket sends a second person after the same fault",
    approval=Need.NOT_NEEDED,
)
tools.effect(
    "send_email",
    action=SendEmail,
    risk=Risk.HIGH,
    why="nobody can take an email back; no journal mailbox is configured here, so nobody can look it up either",
    approval=Need.NOT_NEEDED,
)


def call_of(window: str) -> ToolCall:
    """What the model asks for: an email where nobody can look it up, else a ticket."""
    if window == "no-look-up":
        letter = {"reference": window, "to": "dana@example.org", "subject": "We are on it", "body": "A ticket is open."}
        return ToolCall("toolu_01", "send_email", letter)
    return ToolCall("toolu_01", "create_ticket", {"reference": window, "subject": "The login fails", "requester": "user-7"})


def first_start(window: str) -> None:
    """Decides, then is killed in its window."""
    engine, call = database(), call_of(window)
    ledger = Ledger(engine)
    with engine.begin() as session:
        run = journal.start(session, window, flow_version=FLOW_VERSION, task="Help Dana", owner="start 1", lease=LEASE)
        run = journal.decide(session, run, json.dumps({"role": "assistant", "content": "…"}), [call])

    async def moment(now: Moment, _what: object) -> None:
        if window == "before-sending" and now is Moment.PREPARED:
            die("before anything was sent")
        if window in ("before-checkpoint", "no-look-up") and now is Moment.ANSWERED:
            die("with the provider's answer in hand, before it was saved")

    with relay_and_worker(moment):
        answer = ToolGate(engine.begin, tools, journal, Outbox(), ledger).call(run, call, wait=LEASE * 0)
        assert answer.operation_id is not None
        settled = ledger.wait(answer.operation_id, timeout=60)
        assert settled.state is State.CONFIRMED, settled
        die("with the receipt on record, before the model was told")


def second_start(window: str) -> None:
    """Resumes, and answers what dangles."""
    engine = database()
    found = resumed(engine, journal, window)
    with relay_and_worker():
        # Some seconds more than a claim lasts: the dead worker's must end before its operation is looked for.
        gate = ToolGate(engine.begin, tools, journal, Outbox(), Ledger(engine), wait=LEASE * 15)
        [answer] = gate.answers(found.run, found.calls)
        print(f"  {answer.outcome}: {answer.content}", flush=True)
        with engine.begin() as session:
            journal.decide(session, found.run, json.dumps({"role": "assistant", "content": "Told Dana."}))


def crash(window: str, providers: Providers) -> None:
    """One window: a start that is killed there, and the next one."""
    print(window, flush=True)
    if window == "no-answer":
        # Killed from outside, at the moment at which the helpdesk has made the ticket and says nothing yet.
        providers.helpdesk.hold("after_apply")
        start = part("first", window)
        providers.helpdesk.wait_held(30)
        start.kill()
        start.wait()
        print("  killed (SIGKILL) after it had sent the request, while the helpdesk was silent", flush=True)
        providers.helpdesk.release()
    else:
        killed("first", window)
    played("second", window)


def main() -> None:
    """All windows, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("windows", nargs="*", help=f"some of {', '.join(WINDOWS)}")
    parser.add_argument("--part", nargs=2, metavar=("START", "WINDOW"), help="used by the script itself")
    arguments = parser.parse_args()
    if arguments.part is not None:
        start, window = arguments.part
        (first_start if start == "first" else second_start)(window)
        return
    windows = arguments.windows or WINDOWS
    if unknown := sorted(set(windows) - set(WINDOWS)):
        sys.exit(f"no such window: {', '.join(unknown)}; there are {', '.join(WINDOWS)}")
    with world() as providers:
        for window in windows:
            crash(window, providers)
        print(f"tickets at the helpdesk: {providers.tickets()}, emails sent: {providers.emails()}")


if __name__ == "__main__":
    main()
