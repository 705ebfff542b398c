"""A process in the gate: it waits for the start, answers one call of a run whose handle it was given, and says the operation."""

import json
import sys
from datetime import datetime, timedelta

from acuse import Action, Ledger, Outbox
from acuse.agents import Journal, Need, Risk, Run, RunStatus, ToolCall, ToolGate, Tools
from acuse.store.engine import sync_engine


class SendEmail(Action, name="email.send.v1", target="case"):
    case: str


def main() -> None:
    said = json.loads(sys.argv[1])
    handle = said["run"] | {"status": RunStatus.RUNNING, "lease_until": datetime.fromisoformat(said["run"]["lease_until"])}
    run = Run(**handle)
    tools = Tools()
    tools.effect("send_email", action=SendEmail, risk=Risk.HIGH, why="an email cannot be taken back", approval=Need.NOT_NEEDED)
    engine = sync_engine(said["database"])
    gate = ToolGate(engine.begin, tools, Journal(run.tenant), Outbox(), Ledger(engine), wait=timedelta(0))
    with engine.connect():
        print("ready", flush=True)
        sys.stdin.readline()
    for position in range(said["calls"]):
        answer = gate.call(run, ToolCall(f"toolu_{position}", "send_email", {"case": f"case-{position}"}))
        print(answer.operation_id, flush=True)
    engine.dispose()


if __name__ == "__main__":
    main()
