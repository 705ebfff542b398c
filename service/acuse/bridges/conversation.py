"""What the bridges for agents do alike with a run: take it, read it, store what the model is told, give it back."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from acuse.agents import Journal, Resumed, Run, RunExists, ToolAnswer, ToolCall
from acuse.store.caller import Caller

__all__ = ["Conversation"]


class Conversation:
    """A journal with transactions of its own, as `engine.begin` gives them."""

    def __init__(self, sessions: Callable[[], AbstractContextManager[Caller]], journal: Journal) -> None:
        self._sessions = sessions
        self._journal = journal

    def take(
        self,
        run_id: str,
        task: str,
        *,
        flow_version: str,
        owner: str,
        lease: timedelta,
        max_turns: int,
        workflow: str | None = None,
    ) -> Resumed:
        """Begin a run, or go on with it where it is. Raises as `Journal.start` and `Journal.resume` do."""
        try:
            with self._sessions() as session:
                self._journal.start(
                    session,
                    run_id,
                    flow_version=flow_version,
                    task=task,
                    owner=owner,
                    lease=lease,
                    max_turns=max_turns,
                    workflow=workflow,
                )
        except RunExists:
            with self._sessions() as session:
                return self._journal.resume(session, run_id, flow_version=flow_version, owner=owner, lease=lease)
        return self.read(run_id)

    def read(self, run_id: str) -> Resumed:
        """Read it as it is now."""
        with self._sessions() as session:
            return self._journal.read(session, run_id)

    def tell(self, run: Run, calls: Sequence[ToolCall], answers: Sequence[ToolAnswer]) -> Run:
        """Store the answers that the gate has not: what is still in progress or in doubt is told as that.

        The model must not wait for ever, and must not repeat it.
        """
        with self._sessions() as session:
            for call, answer in zip(calls, answers, strict=True):
                if not answer.outcome.final or not answer.recorded:
                    run = self._journal.answer(session, run, call, answer)
        return run

    def give_back(self, run: Run) -> None:
        """Let anybody take it at once."""
        with self._sessions() as session:
            self._journal.release(session, run)
