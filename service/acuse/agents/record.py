"""What the database says of runs, as values; and what it refused, as errors."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NoReturn
from uuid import UUID

from acuse.agents.answer import Outcome, ToolAnswer
from acuse.agents.call import ToolCall
from acuse.agents.errors import (
    CallAnswered,
    CallsUnanswered,
    FlowVersionMismatch,
    RunEnded,
    RunExists,
    RunLost,
    RunOwned,
    StaleRun,
    TurnsExhausted,
)
from acuse.agents.nature import Begun
from acuse.agents.resumed import Fact, Message, Resumed, StoredCall
from acuse.agents.run import Run, RunStatus
from acuse.errors import ConfigurationError, InvalidField, NotFound
from acuse.identifier import operation_id
from acuse.protocol import State

__all__ = ["Looked", "answer_from", "fact_from", "looked_from", "lost", "refuse", "resumed_from", "run_from", "stored_call_from"]

_LOOKED: Final = frozenset({"done", "answered", "superseded", "cancelled", "withdrawn", "no_call"})


@dataclass(frozen=True, slots=True)
class Looked:
    """A call before anything is done about it.

    how: `done` (go on), `answered`, `superseded` (a later call wrote to its target), `cancelled` or `withdrawn` (the run must not
    act any more), `no_call` (the last turn has none of this id). begun: who has begun it.
    """

    how: str
    begun: Begun
    stored: StoredCall | None


def looked_from(said: dict[str, Any], run: Run) -> Looked:
    """What stands about a call. Raises `StaleRun` and `RunEnded`."""
    if said["outcome"] not in _LOOKED:
        refuse(said, run_id=run.run_id, run=run)
    stored = stored_call_from(said["call"]) if "call" in said else None
    return Looked(said["outcome"], said.get("begun", "none"), stored)


def run_from(said: dict[str, Any]) -> Run:
    """A handle."""
    return Run(
        id=said["id"],
        tenant=said["tenant"],
        run_id=said["run_id"],
        workflow=said["workflow"],
        flow_version=said["flow_version"],
        status=RunStatus(said["status"]),
        turns=said["turns"],
        max_turns=said["max_turns"],
        step=said["step"],
        deaths=said["deaths"],
        tokens_used=said["tokens_used"],
        state_version=said["state_version"],
        owner=said["owner"],
        fence=said["fence"],
        lease=float(said["lease"]),
        lease_until=_moment(said["lease_until"]),
    )


def stored_call_from(said: dict[str, Any]) -> StoredCall:
    """A call with what is on record of it."""
    operation = None if said["operation_id"] is None else operation_id(UUID(said["operation_id"]))
    state = said.get("state")
    return StoredCall(
        call=ToolCall(said["id"], said["tool"], said["arguments"]),
        turn=said["turn"],
        step=said["step"],
        position=said["position"],
        nature=said["nature"],
        begun=said["begun"],
        operation_id=operation,
        state=None if state is None else State(state),
        answer=answer_from(said),
    )


def answer_from(said: dict[str, Any]) -> ToolAnswer | None:
    """The answer of a call, if it has one."""
    if said["outcome"] is None:
        return None
    operation = None if said["operation_id"] is None else operation_id(UUID(said["operation_id"]))
    return ToolAnswer(said["id"], Outcome(said["outcome"]), said["content"], said["is_error"], operation)


def resumed_from(run: Run, said: dict[str, Any]) -> Resumed:
    """The conversation: each decision is followed by the answers to its calls, and these by what was told after it."""
    calls = tuple(stored_call_from(one) for one in said["calls"])
    messages: list[Message] = []
    for one in said["messages"]:
        messages.append(Message(one["role"], one["body"], one["step"]))
        if one["role"] == "assistant":
            messages.extend(_answers([call for call in calls if call.step == one["step"]]))
    return Resumed(run, tuple(messages), calls)


def fact_from(said: dict[str, Any]) -> Fact:
    """An operation that the conversation does not tell of."""
    return Fact(operation_id(UUID(said["operation_id"])), said["action"], said["target"], State(said["state"]), said["result_id"])


def refuse(said: dict[str, Any] | None, *, run_id: str, run: Run | None = None, given: str | None = None) -> NoReturn:
    """Raise what a refusal means. run: the handle that was used. given: the version of the flow that was."""
    outcome = "missing" if said is None else said["outcome"]
    if said is None or outcome == "missing":
        raise NotFound(what="run", id=run_id)
    _refuse_owner(outcome, said, run_id, given)
    match outcome:
        case "exhausted":
            raise TurnsExhausted(run_id=run_id, turns=said["turns"], max_turns=said["max_turns"], deaths=said["deaths"])
        case "unanswered":
            raise CallsUnanswered(run_id=run_id, calls=said["calls"])
        case "answered":
            raise CallAnswered(run_id=run_id, call=said["call"]["id"], outcome=said["call"]["outcome"])
        case "no_call":
            raise InvalidField(field="call", reason="is none of the run's last turn; store the decision with its calls first")
        case "no_step":
            raise InvalidField(field="step", reason=f"must be from 0 to {said['step']}, the steps of this conversation")
        case "lost" | "stale" if run is not None:
            raise StaleRun(
                run_id=run_id,
                fence=run.fence,
                state_version=run.state_version,
                found_fence=said["fence"],
                found_version=said["state_version"],
            )
    raise ConfigurationError(f"the database answered {outcome!r}, which this version does not know; compare the schema's version")


def _refuse_owner(outcome: str, said: dict[str, Any], run_id: str, given: str | None) -> None:
    match outcome:
        case "exists":
            raise RunExists(run_id=run_id, status=said["status"])
        case "ended":
            raise RunEnded(run_id=run_id, status=said["status"])
        case "cancelled" | "withdrawn":
            raise RunEnded(run_id=run_id, status=outcome)
        case "owned":
            raise RunOwned(run_id=run_id, owner=said["owner"], until=datetime.fromisoformat(said["lease_until"]))
        case "other_version":
            raise FlowVersionMismatch(run_id=run_id, stored=said["flow_version"], given=given or "")


def lost(said: dict[str, Any], run: Run) -> RunLost:
    """The error for an owner that wants to keep a run which is another's."""
    return RunLost(run_id=run.run_id, fence=run.fence, taken_by=said["owner"])


def _answers(calls: list[StoredCall]) -> list[Message]:
    answers = [call.answer for call in calls if call.answer is not None]
    if len(answers) < len(calls):
        return []  # a model takes all of them together, or none
    return [Message("tool", one.content, call.step, one.call_id, one.is_error) for call, one in zip(calls, answers, strict=True)]


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
