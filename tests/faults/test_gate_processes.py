"""Two real processes in the gate for the same calls at the same moment."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine

from acuse import Ledger
from acuse.agents import Journal, ToolCall

SCRIPT = Path(__file__).with_name("gate_process.py")
CALLS = 20


@pytest.mark.case("R086")
def test_two_processes_in_the_gate_for_the_same_calls_make_one_operation_of_each(
    engine: Engine, database_url: str, tenant: str
) -> None:
    journal = Journal(tenant)
    calls = [ToolCall(f"toolu_{n}", "send_email", {"case": f"case-{n}"}) for n in range(CALLS)]
    with engine.begin() as connection:
        run = journal.start(connection, "run-1", flow_version="1", task="x", owner="pod-1")
        run = journal.decide(connection, run, "{}", calls)
    said = json.dumps({"database": database_url, "run": dataclasses.asdict(run), "calls": CALLS}, default=str)
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), said], env=dict(os.environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        first, second = (process.communicate(timeout=60)[0].split() for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait(20)
    assert first == second
    assert len(set(first)) == CALLS
    assert len(Ledger(engine).find(tenant=tenant, limit=500).operations) == CALLS
