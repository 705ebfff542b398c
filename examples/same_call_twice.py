"""The same tool-use id twice, with a kill in between: the real tool is called once.

    python examples/same_call_twice.py

The helpdesk makes the ticket, the receipt is on record, and the agent's process is killed before the model hears of it. The next
start gives the very same call to the gate. So does a framework that repeats the call under a new id.
"""

import argparse
import json

from ground import FLOW_VERSION, LEASE, database, die, killed, played, relay_and_worker, resumed, world

from acuse import Ledger, Outbox, State
from acuse.agents import Journal, Need, Risk, ToolCall, ToolGate, Tools
from acuse_adapters.ticketing.action import CreateTicket

RUN = "incident-12"
CALL = ToolCall("toolu_01abc", "create_ticket", {"reference": RUN, "subject": "The site is down", "requester": "user-7"})

journal = Journal()
tools = Tools()
tools.effect(
    "create_ticket",
    action=CreateTicket,
    risk=Risk.MEDIUM,
    why="a second ticket sends a second person after the same fault",
    approval=Need.NOT_NEEDED,
)


def first_start() -> None:
    """Killed between the receipt and the model."""
    engine = database()
    ledger = Ledger(engine)
    with engine.begin() as session:
        run = journal.start(session, RUN, flow_version=FLOW_VERSION, task="Open a ticket", owner="start 1", lease=LEASE)
        run = journal.decide(session, run, json.dumps({"role": "assistant", "content": "…"}), [CALL])
    with relay_and_worker():
        staged = ToolGate(engine.begin, tools, journal, Outbox(), ledger).call(run, CALL, wait=LEASE * 0)
        assert staged.operation_id is not None
        assert ledger.wait(staged.operation_id, timeout=30).state is State.CONFIRMED
        die("with the receipt on record, before the model was told")


def second_start() -> None:
    """The same call again, and once more under another id."""
    engine = database()
    found = resumed(engine, journal, RUN)
    with relay_and_worker():
        gate = ToolGate(engine.begin, tools, journal, Outbox(), Ledger(engine))
        for call in (*found.calls, ToolCall("toolu_09xyz", CALL.name, CALL.arguments)):
            answer = gate.call(found.run, call)
            print(f"  {answer.call_id}: {answer.outcome}. {answer.content}", flush=True)


def main() -> None:
    """Two starts, and what the helpdesk saw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("first", "second"), help="used by the script itself")
    start = parser.parse_args().part
    if start is not None:
        (first_start if start == "first" else second_start)()
        return
    with world() as providers:
        killed("first")
        played("second")
        print(f"requests that reached the helpdesk: {len(providers.helpdesk.requests())}, tickets: {providers.tickets()}")


if __name__ == "__main__":
    main()
