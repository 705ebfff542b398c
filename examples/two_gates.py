"""The order of the two gates: did it happen? comes before should it happen? No question is asked about what happened.

    python examples/two_gates.py

An email needs a person's approval. Three starts of the agent, two of them killed: while nobody has decided, and after the
receipt, before the model was told. The third looks what it finds. The person is asked once.
"""

import argparse
import json

from ground import FLOW_VERSION, LEASE, Providers, database, die, killed, played, relay_and_worker, resumed, world

from acuse import Approvals, Ledger, Outbox, State
from acuse.agents import Journal, Need, Risk, ToolCall, ToolGate, Tools
from acuse_adapters.email.action import SendEmail

RUN = "mail-9"
LETTER = {"reference": RUN, "to": "team@example.org", "subject": "What we decided", "body": "We ship on Friday."}
CALL = ToolCall("toolu_01", "send_email", LETTER)

journal = Journal()
approvals = Approvals()
tools = Tools()
tools.effect("send_email", action=SendEmail, risk=Risk.HIGH, why="nobody can take an email back", approval=Need.REQUIRED)


def first_start() -> None:
    """Asks for the approval, and is killed while nobody has answered."""
    engine = database()
    with engine.begin() as session:
        run = journal.start(session, RUN, flow_version=FLOW_VERSION, task="Tell the team", owner="start 1", lease=LEASE)
        run = journal.decide(session, run, json.dumps({"role": "assistant", "content": "…"}), [CALL])
    answer = ToolGate(engine.begin, tools, journal, Outbox(), Ledger(engine), approvals).call(run, CALL)
    print(f"  {answer.outcome}: {answer.content}", flush=True)
    die("while nobody had decided")


def second_start() -> None:
    """By now it is approved: a worker sends it. Killed before the model is told."""
    engine = database()
    found = resumed(engine, journal, RUN)
    ledger = Ledger(engine)
    with relay_and_worker():
        answer = ToolGate(engine.begin, tools, journal, Outbox(), ledger, approvals).call(found.run, CALL, wait=LEASE * 0)
        assert answer.operation_id is not None
        assert ledger.wait(answer.operation_id, timeout=60).state is State.CONFIRMED
        die("with the receipt on record, before the model was told")


def third_start() -> None:
    """Looks what happened, and asks nobody."""
    engine = database()
    found = resumed(engine, journal, RUN)
    gate = ToolGate(engine.begin, tools, journal, Outbox(), Ledger(engine), approvals)
    for answer in gate.answers(found.run, found.calls):
        print(f"  {answer.outcome}: {answer.content}", flush=True)


def person() -> None:
    """Somebody says yes to everything that waits."""
    engine = database()
    with engine.begin() as session:
        for asked in approvals.pending(session):
            decided = approvals.decide(session, asked.approval_id, approve=True, by="ann", reason="the date is right")
            print(f"  ann says yes to {asked.action} for {asked.target}: {decided.state}")
    engine.dispose()


def questions() -> int:
    """How many approvals anybody was ever asked for."""
    engine = database()
    with engine.connect() as connection:
        count: int = connection.exec_driver_sql("select count(*) from acuse.approval").scalar_one()
    engine.dispose()
    return count


def all_starts(providers: Providers) -> None:
    """One after another."""
    print("start 1: did it happen? no. should it? somebody has to say", flush=True)
    killed("first")
    person()
    print("start 2: it was asked for already, and approved", flush=True)
    killed("second")
    print("start 3: did it happen? yes", flush=True)
    played("third")
    print(f"questions to a person: {questions()}, emails sent: {providers.emails()}")


def main() -> None:
    """All starts, or one as a part of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("first", "second", "third"), help="used by the script itself")
    start = parser.parse_args().part
    if start is not None:
        {"first": first_start, "second": second_start, "third": third_start}[start]()
        return
    with world() as providers:
        all_starts(providers)


if __name__ == "__main__":
    main()
