"""The run journal: a decision is stored before any tool runs, each result before the next step, and a crash forgets neither.

Both faces are stateless and safe to share. Each method runs on the connection that it is given, in your transaction, and never
commits: what it returns is true once you have.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar

from acuse.agents.answer import ToolAnswer
from acuse.agents.call import ToolCall
from acuse.agents.resumed import Fact, Resumed
from acuse.agents.run import Run
from acuse.agents.writing import Step, Writing
from acuse.store.caller import AsyncCaller, Caller, run_async
from acuse.store.caller import run as run_sync

__all__ = ["LEASE", "MAX_TURNS", "AsyncJournal", "Journal"]

_T = TypeVar("_T")

LEASE: Final = timedelta(seconds=60)
"""A dead owner's run stands still for as long; a living one renews it three times in between."""

MAX_TURNS: Final = 40
"""A run that has not come to an end by then goes in circles more often than not."""


class Journal(Writing):
    """For the connections that `Outbox` takes.

    Every write names the fencing token and the state version of its handle: an older one raises `StaleRun` and changes nothing.
    All methods raise `InvalidField` for what cannot be stored, and `NotFound` for a run that is none of this tenant's.
    """

    def start(
        self,
        session: Caller,
        run_id: str,
        *,
        flow_version: str,
        task: str,
        owner: str,
        lease: timedelta = LEASE,
        max_turns: int = MAX_TURNS,
        workflow: str | None = None,
    ) -> Run:
        """Begin a run. task: the first message. workflow: what its operations belong to; the run's id if left out.

        Raises `RunExists`, and `RunEnded` when the workflow was cancelled or the version of the flow withdrawn.
        """
        return _do(session, self._start(run_id, flow_version, task, owner, lease, max_turns, workflow))

    def resume(self, session: Caller, run_id: str, *, flow_version: str, owner: str, lease: timedelta = LEASE) -> Resumed:
        """Take over a run that nobody holds, and read where it goes on.

        Raises `FlowVersionMismatch`, `RunOwned` while another lease lasts (also one of your own name: it may be alive),
        `RunEnded`, and `TurnsExhausted` when `max_turns` owners in a row were lost without storing anything.
        """
        run = _do(session, self._take(run_id, flow_version, owner, lease))
        return _do(session, self._read(run_id, run))

    def read(self, session: Caller, run_id: str) -> Resumed:
        """Look at a run, whoever holds it. Its handle is the holder's: write nothing with it."""
        return _do(session, self._read(run_id, None))

    def renew(self, session: Caller, run: Run) -> Run:
        """Make the lease last as long again. Raises `RunLost` when another owner has taken the run, and `RunEnded`."""
        return _do(session, self._renew(run))

    def release(self, session: Caller, run: Run) -> Run:
        """Give the run back, in good order: anybody may resume it at once, and no death is counted."""
        return _do(session, self._keep("release", run))

    def decide(
        self, session: Caller, run: Run, message: str, calls: Sequence[ToolCall] = (), *, tokens_used: int | None = None
    ) -> Run:
        """Store one turn: the model's message, byte for byte as it goes back to it, and its calls. Before any of them runs.

        tokens_used: of the context window now; it replaces what was stored, None leaves that as it is.
        Raises `TurnsExhausted`, `CallsUnanswered` and `RunEnded`. Saying the same again after a lost reply is no second turn.
        """
        return _do(session, self._decide(run, message, calls, tokens_used))

    def answer(self, session: Caller, run: Run, call: ToolCall, answer: ToolAnswer) -> Run:
        """Store what a call of the last turn came to, before the next step. Raises `CallAnswered` if it was something else."""
        return _do(session, self._answer(run, call, answer))

    def tell(self, session: Caller, run: Run, message: str) -> Run:
        """Store what else is said to the model, after the answers to its last calls."""
        return _do(session, self._tell(run, message))

    def finish(self, session: Caller, run: Run, *, exhausted: bool = False) -> Run:
        """End the run. exhausted: because it has no turns left. Its operations go on."""
        return _do(session, self._keep("exhausted" if exhausted else "finished", run))

    def cancel(self, session: Caller, run_id: str, *, by: str, reason: str) -> tuple[str, ...]:
        """Let nothing of its workflow be sent any more, whoever holds the run; returns the operations already in the air.

        The operations are the workflow's, so this stops those of its forks, too. A run that has ended stays as it ended.
        """
        return _do(session, self._cancel(run_id, by, reason))

    def fork(
        self,
        session: Caller,
        run_id: str,
        *,
        at_step: int,
        new_run_id: str,
        owner: str,
        lease: timedelta = LEASE,
        flow_version: str | None = None,
        max_turns: int | None = None,
    ) -> Resumed:
        """Let another run go on from a step of this one, in the same workflow: its effects keep their keys, they are facts.

        at_step: how many decisions it takes over, with their answers. facts: what has been staged since. Raises `RunExists`.
        """
        run = _do(session, self._fork(run_id, at_step, new_run_id, owner, lease, flow_version, max_turns))
        return _do(session, self._read(new_run_id, run, _do(session, self._untold(run))))

    def rewind(self, session: Caller, run: Run, *, to_step: int) -> Resumed:
        """Take the conversation back behind a step. No turn is given back, and no effect undone: see `Resumed.facts`."""
        rewound = _do(session, self._rewind(run, to_step))
        return _do(session, self._read(run.run_id, rewound, _do(session, self._untold(rewound))))

    def facts(self, session: Caller, run: Run) -> tuple[Fact, ...]:
        """The workflow's operations of which no call in the conversation tells; say them to the model with `tell`."""
        return _do(session, self._untold(run))

    def forget(self, session: Caller, run_id: str) -> None:
        """Delete the words of a run that has ended; its row stays, and so do its operations with their keys."""
        _do(session, self._forget(run_id))


class AsyncJournal(Writing):
    """For the connections that `AsyncOutbox` takes. The methods are those of `Journal`, awaited."""

    async def start(
        self,
        session: AsyncCaller,
        run_id: str,
        *,
        flow_version: str,
        task: str,
        owner: str,
        lease: timedelta = LEASE,
        max_turns: int = MAX_TURNS,
        workflow: str | None = None,
    ) -> Run:
        """See `Journal.start`."""
        return await _await(session, self._start(run_id, flow_version, task, owner, lease, max_turns, workflow))

    async def resume(
        self, session: AsyncCaller, run_id: str, *, flow_version: str, owner: str, lease: timedelta = LEASE
    ) -> Resumed:
        """See `Journal.resume`."""
        run = await _await(session, self._take(run_id, flow_version, owner, lease))
        return await _await(session, self._read(run_id, run))

    async def read(self, session: AsyncCaller, run_id: str) -> Resumed:
        """See `Journal.read`."""
        return await _await(session, self._read(run_id, None))

    async def renew(self, session: AsyncCaller, run: Run) -> Run:
        """See `Journal.renew`."""
        return await _await(session, self._renew(run))

    async def release(self, session: AsyncCaller, run: Run) -> Run:
        """See `Journal.release`."""
        return await _await(session, self._keep("release", run))

    async def decide(
        self, session: AsyncCaller, run: Run, message: str, calls: Sequence[ToolCall] = (), *, tokens_used: int | None = None
    ) -> Run:
        """See `Journal.decide`."""
        return await _await(session, self._decide(run, message, calls, tokens_used))

    async def answer(self, session: AsyncCaller, run: Run, call: ToolCall, answer: ToolAnswer) -> Run:
        """See `Journal.answer`."""
        return await _await(session, self._answer(run, call, answer))

    async def tell(self, session: AsyncCaller, run: Run, message: str) -> Run:
        """See `Journal.tell`."""
        return await _await(session, self._tell(run, message))

    async def finish(self, session: AsyncCaller, run: Run, *, exhausted: bool = False) -> Run:
        """See `Journal.finish`."""
        return await _await(session, self._keep("exhausted" if exhausted else "finished", run))

    async def cancel(self, session: AsyncCaller, run_id: str, *, by: str, reason: str) -> tuple[str, ...]:
        """See `Journal.cancel`."""
        return await _await(session, self._cancel(run_id, by, reason))

    async def fork(
        self,
        session: AsyncCaller,
        run_id: str,
        *,
        at_step: int,
        new_run_id: str,
        owner: str,
        lease: timedelta = LEASE,
        flow_version: str | None = None,
        max_turns: int | None = None,
    ) -> Resumed:
        """See `Journal.fork`."""
        run = await _await(session, self._fork(run_id, at_step, new_run_id, owner, lease, flow_version, max_turns))
        return await _await(session, self._read(new_run_id, run, await _await(session, self._untold(run))))

    async def rewind(self, session: AsyncCaller, run: Run, *, to_step: int) -> Resumed:
        """See `Journal.rewind`."""
        rewound = await _await(session, self._rewind(run, to_step))
        return await _await(session, self._read(run.run_id, rewound, await _await(session, self._untold(rewound))))

    async def facts(self, session: AsyncCaller, run: Run) -> tuple[Fact, ...]:
        """See `Journal.facts`."""
        return await _await(session, self._untold(run))

    async def forget(self, session: AsyncCaller, run_id: str) -> None:
        """See `Journal.forget`."""
        await _await(session, self._forget(run_id))


def _do(session: Caller, step: Step[_T]) -> _T:
    return step.told(run_sync(session, step.statement, step.values))


async def _await(session: AsyncCaller, step: Step[_T]) -> _T:
    return step.told(await run_async(session, step.statement, step.values))
