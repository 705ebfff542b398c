"""Steps of a run's life as values: a statement, what goes into it, what its answer means. Both faces run the same ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from acuse.agents.answer import ToolAnswer
from acuse.agents.call import ToolCall
from acuse.agents.intake import MAX_OWNER, MAX_RUN, answer_values, call_values, check_lease, check_number, check_words
from acuse.agents.record import Looked, fact_from, looked_from, lost, refuse, resumed_from, run_from
from acuse.agents.resumed import Fact, Resumed
from acuse.agents.run import Run
from acuse.errors import InvalidField, NotFound
from acuse.identifier import operation_id
from acuse.intent import MAX_FLOW_VERSION, MAX_TENANT, MAX_WORKFLOW, check_text
from acuse.store import run as store
from acuse.store.caller import Row
from acuse.store.cancel import MAX_NAME, MAX_REASON
from acuse.store.statement import Statement

__all__ = ["Step", "Writing", "same_answer"]

_T = TypeVar("_T")

MAX_TOKENS = 2**53


@dataclass(frozen=True, slots=True)
class Step(Generic[_T]):
    """What is run, and how its answer is read; `read` raises what a refusal means. raw: it reads rows, not one JSON object."""

    statement: Statement
    values: Mapping[str, Any]
    read: Callable[[Any], _T]
    raw: bool = False

    def told(self, rows: Sequence[Row]) -> _T:
        """What the rows of the statement mean."""
        return self.read(rows if self.raw else store.answer_of(rows))


class Writing:
    """What both faces of the journal share: everything but running the statement."""

    def __init__(self, tenant: str = "default") -> None:
        """Make a journal of one tenant's runs."""
        self._tenant = check_text("tenant", tenant, MAX_TENANT)

    @property
    def tenant(self) -> str:
        """Whose runs these are."""
        return self._tenant

    def _start(
        self, run_id: str, flow_version: str, task: str, owner: str, lease: timedelta, max_turns: int, workflow: str | None
    ) -> Step[Run]:
        values = store.request(
            tenant=self._tenant,
            run_id=check_text("run_id", run_id, MAX_RUN),
            workflow=check_text("workflow", run_id if workflow is None else workflow, MAX_WORKFLOW),
            flow_version=check_text("flow_version", flow_version, MAX_FLOW_VERSION),
            task=check_words("task", task),
            owner=check_text("owner", owner, MAX_OWNER),
            lease=check_lease(lease),
            max_turns=check_number("max_turns", max_turns, 1),
        )
        return Step(store.START, values, _run_or_error(run_id))

    def _take(self, run_id: str, flow_version: str, owner: str, lease: timedelta) -> Step[Run]:
        values = store.request(
            tenant=self._tenant,
            run_id=check_text("run_id", run_id, MAX_RUN),
            flow_version=check_text("flow_version", flow_version, MAX_FLOW_VERSION),
            owner=check_text("owner", owner, MAX_OWNER),
            lease=check_lease(lease),
        )
        return Step(store.TAKE, values, _run_or_error(run_id, given=flow_version))

    def _read(self, run_id: str, run: Run | None, facts: tuple[Fact, ...] = ()) -> Step[Resumed]:
        def read(said: Any) -> Resumed:  # noqa: ANN401 - JSON
            if said is None:
                raise NotFound(what="run", id=run_id)
            return replace(resumed_from(run_from(said) if run is None else run, said), facts=facts)

        return Step(store.READ, {"tenant": self._tenant, "run_id": check_text("run_id", run_id, MAX_RUN)}, read)

    def _renew(self, run: Run) -> Step[Run]:
        def read(said: Any) -> Run:  # noqa: ANN401 - JSON
            if said["outcome"] == "lost":
                raise lost(said, run)
            return _run_or_error(run.run_id, run=run)(said)

        # Without the state version: it is renewed beside whatever else its owner writes.
        return Step(store.KEEP, store.request(act="renew", id=run.id, fence=run.fence), read)

    def _keep(self, act: str, run: Run) -> Step[Run]:
        return Step(store.KEEP, store.request(act=act, **_held(run)), _run_or_error(run.run_id, run=run))

    def _decide(self, run: Run, message: str, calls: Sequence[ToolCall], tokens_used: int | None) -> Step[Run]:
        values = store.request(
            **_held(run),
            message=check_words("message", message),
            calls=call_values(calls),
            tokens_used=None if tokens_used is None else check_number("tokens_used", tokens_used, 0, MAX_TOKENS),
        )
        return Step(store.DECIDE, values, _run_or_error(run.run_id, run=run))

    def _tell(self, run: Run, message: str) -> Step[Run]:
        values = store.request(**_held(run), message=check_words("message", message))
        return Step(store.TELL, values, _run_or_error(run.run_id, run=run))

    def _begin(self, run: Run, call_id: str, token: str, *, look: bool = False, **record: str | None) -> Step[Looked]:
        """Look at a call before anything is done about it, or write down that it begins. For the gate."""
        values = store.request(**_held(run), call_id=call_id, token=token, look=look, **record)
        return Step(store.BEGIN, values, lambda said: looked_from(said, run))

    def _answer(self, run: Run, call: ToolCall, answer: ToolAnswer) -> Step[Run]:
        told = answer_values(answer)

        def read(said: Any) -> Run:  # noqa: ANN401 - JSON
            if said["outcome"] == "answered" and same_answer(said["call"], told):
                return run_from(said)
            return _run_or_error(run.run_id, run=run)(said)

        return Step(store.ANSWER, store.request(**_held(run), call_id=call.id, **told), read)

    def _cancel(self, run_id: str, by: str, reason: str) -> Step[tuple[str, ...]]:
        values = store.request(
            tenant=self._tenant,
            run_id=check_text("run_id", run_id, MAX_RUN),
            by=check_text("by", by, MAX_NAME),
            reason=check_text("reason", reason, MAX_REASON),
        )

        def read(said: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
            if said["outcome"] != "done":
                refuse(said, run_id=run_id)
            return tuple(operation_id(UUID(one)) for one in said["in_the_air"])

        return Step(store.CANCEL, values, read)

    def _fork(
        self,
        run_id: str,
        at_step: int,
        new_run_id: str,
        owner: str,
        lease: timedelta,
        flow_version: str | None,
        max_turns: int | None,
    ) -> Step[Run]:
        values = store.request(
            tenant=self._tenant,
            run_id=check_text("run_id", run_id, MAX_RUN),
            new_run_id=check_text("new_run_id", new_run_id, MAX_RUN),
            at_step=check_number("at_step", at_step, 0),
            owner=check_text("owner", owner, MAX_OWNER),
            lease=check_lease(lease),
            flow_version=None if flow_version is None else check_text("flow_version", flow_version, MAX_FLOW_VERSION),
            max_turns=None if max_turns is None else check_number("max_turns", max_turns, 1),
        )

        def read(said: Any) -> Run:  # noqa: ANN401 - JSON
            return _run_or_error(new_run_id if said["outcome"] == "exists" else run_id)(said)

        return Step(store.FORK, values, read)

    def _rewind(self, run: Run, to_step: int) -> Step[Run]:
        values = store.request(**_held(run), to_step=check_number("to_step", to_step, 0))
        return Step(store.REWIND, values, _run_or_error(run.run_id, run=run))

    def _untold(self, run: Run) -> Step[tuple[Fact, ...]]:
        return Step(store.UNTOLD, {"id": run.id}, lambda said: tuple(map(fact_from, said)))

    def _forget(self, run_id: str) -> Step[None]:
        def read(said: Any) -> None:  # noqa: ANN401 - JSON
            if said["outcome"] == "running":
                raise InvalidField(field="run_id", reason="names a run that has not ended; finish or cancel it first")
            if said["outcome"] != "done":
                refuse(said, run_id=run_id)

        return Step(store.FORGET, {"tenant": self._tenant, "run_id": check_text("run_id", run_id, MAX_RUN)}, read)


def same_answer(stored: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Whether a call was told the same before."""
    return all(stored[name] == told[name] for name in ("outcome", "content", "is_error"))


def _held(run: Run) -> dict[str, Any]:
    return {"id": run.id, "fence": run.fence, "state_version": run.state_version}


def _run_or_error(run_id: str, *, run: Run | None = None, given: str | None = None) -> Callable[[Any], Run]:
    def read(said: Any) -> Run:  # noqa: ANN401 - JSON
        if said["outcome"] != "done":
            refuse(said, run_id=run_id, run=run, given=given)
        return run_from(said)

    return read
