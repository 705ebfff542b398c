"""The agent's runs: asked for in a request, carried on by a thread of whichever process lives."""

import logging
import threading
import time
import uuid
from contextlib import suppress
from datetime import timedelta
from typing import Final

from sqlalchemy import Engine, select
from sqlalchemy.orm import sessionmaker

from acuse import Approvals, Ledger, Outbox
from acuse.agents import Journal, RunEnded, RunOwned, ToolGate, TurnsExhausted
from acuse.bridges.loop import AgentLoop, End
from acuse.errors import NotFound
from examples.backend.model import Ask, words_of
from examples.backend.tables import AgentRun
from examples.backend.toolbox import make_tools

__all__ = ["Runs"]

FLOW_VERSION: Final = "1"
LEASE: Final = timedelta(seconds=5)
"""How long a run stands still when its process was killed."""

_ROUND_SECONDS: Final = 0.3
_log = logging.getLogger(__name__)


class Runs:
    """Carries on every run that has not ended. Several processes may do so: a run's lease says whose it is."""

    def __init__(self, engine: Engine, ask: Ask, approvals: Approvals) -> None:
        self._sessions = sessionmaker(engine)
        self._journal = Journal()
        self._approvals = approvals
        tools = make_tools(self._sessions)
        # Longer than a provider takes: the model should hear of receipts rather than of work in progress.
        wait = timedelta(seconds=30)
        gate = ToolGate(engine.begin, tools, self._journal, Outbox(), Ledger(engine), approvals, wait=wait)
        self._loop = AgentLoop(engine.begin, self._journal, gate, ask)
        self._owner = f"backend {uuid.uuid4().hex}"

    def start(self) -> None:
        """Carry runs on from now on. The thread needs no end of its own: it may be killed at any moment."""
        threading.Thread(target=self._work, name="runs", daemon=True).start()

    def carry_on(self) -> None:
        """Go once through all runs that are to be carried on."""
        with self._sessions() as session:
            runs = session.scalars(select(AgentRun).where(AgentRun.ended.is_(None)).order_by(AgentRun.id)).all()
            ready = [run for run in runs if not self._approvals.pending(session, workflow=run.case_id, limit=1)]
        for run in ready:  # one after another; a bigger backend has more threads
            try:
                self._carry_on(run)
            except Exception:  # noqa: BLE001 - the model was away, say; the next round may do better
                _log.exception("run %s could not be carried on now", run.id)

    def _work(self) -> None:
        while True:
            try:
                self.carry_on()
            except Exception:  # noqa: BLE001 - the database was away, say
                _log.exception("runs could not be read now")
            time.sleep(_ROUND_SECONDS)

    def _carry_on(self, run: AgentRun) -> None:
        try:
            # The case is the workflow, as it is where a person closes it: whoever asks for it, it is the same closing.
            ended = self._loop.run(
                run.id, run.task, flow_version=FLOW_VERSION, owner=self._owner, lease=LEASE, workflow=run.case_id
            )
        except RunOwned:
            return  # another process has it, or had it until it was killed: its lease will end
        except RunEnded as error:  # somebody cancelled it, or its process was killed before it could write down how it ended
            self._write_down(run.id, error.status)
        except TurnsExhausted:  # it has killed whoever carried it on, again and again
            with self._sessions.begin() as session:
                self._journal.finish(session, self._journal.read(session, run.id).run, exhausted=True)
        else:
            if ended.end is not End.WAITING:
                self._write_down(run.id, ended.end)

    def _write_down(self, run_id: str, ended: str) -> None:
        with self._sessions.begin() as session:
            run = session.get_one(AgentRun, run_id)
            run.ended = ended
            with suppress(NotFound):  # it was cancelled before it began
                messages = self._journal.read(session, run_id).messages
                run.said = next((words_of(one.text) for one in reversed(messages) if one.role == "assistant"), None)
