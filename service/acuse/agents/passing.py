"""What the gate does with a call, whichever face runs it."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

import structlog

from acuse.agents import words
from acuse.agents.answer import Outcome, ToolAnswer
from acuse.agents.asking import GRANTED, PENDING, refusal
from acuse.agents.call import ToolCall
from acuse.agents.nature import Begun, Nature, Need, Next, next_step
from acuse.agents.placing import Placed, Placing
from acuse.agents.record import Looked
from acuse.agents.resumed import StoredCall
from acuse.agents.run import Run
from acuse.agents.script import Invoke, Script, Transact, Wait, step
from acuse.agents.step import given_key, intent_key
from acuse.agents.tool import NotDone, Tool, Tools, text_of
from acuse.errors import IntakeError, InvalidField
from acuse.intent import Effect
from acuse.protocol import State
from acuse.record import OperationRecord
from acuse.store.storable import storable

__all__ = ["Passing"]

_LONGEST_ANSWER: Final = 4_000_000  # characters, as the journal keeps them
_LOOK_AGAIN: Final = 1.0  # seconds; whether it is a person's by now shows in the record, for which the ledger does not wait
_log = structlog.get_logger("acuse.agents")


@dataclass(frozen=True, slots=True)
class _Started:
    """A tool of the host that may be run now, or whose trace has to be looked for first."""

    stored: StoredCall
    begun: Begun
    next: Next


class Passing:
    """Both faces' way through the gate."""

    def __init__(self, tools: Tools, placing: Placing, wait: timedelta) -> None:
        if wait < timedelta(0):
            raise InvalidField(field="wait", reason="must not be negative; zero returns at once")
        self._tools = tools
        self._placing = placing
        self._wait = wait.total_seconds()

    def _one(
        self, run: Run, call: ToolCall, *, wait: timedelta | None, approval: str | None, distinct: bool
    ) -> Script[ToolAnswer]:
        opened = yield from self._open(run, call, approval, distinct)
        answer = opened
        if isinstance(opened, Placed):
            answer = yield from self._settled(opened, time.monotonic() + self._seconds(wait))
            if answer.outcome.final:
                answer = yield from self._stored(run, call, answer)
        assert isinstance(answer, ToolAnswer)
        return answer

    def _all(
        self, run: Run, calls: Sequence[ToolCall], *, wait: timedelta | None, approvals: Mapping[str, str], store_pending: bool
    ) -> Script[list[ToolAnswer]]:
        # All effects are staged before the first one is waited for: together they take as long as the slowest.
        opened: list[ToolAnswer | Placed] = []
        for call in calls:
            opened += [(yield from self._open(run, call, approvals.get(call.id), distinct=False))]
        deadline = time.monotonic() + self._seconds(wait)
        answers = []
        for one in opened:
            answer = one
            if isinstance(one, Placed):
                answer = yield from self._settled(one, deadline)
            assert isinstance(answer, ToolAnswer)
            answers.append(answer)
        for at, (call, answer) in enumerate(zip(calls, answers, strict=True)):
            if (isinstance(opened[at], Placed) and answer.outcome.final) or (not answer.outcome.final and store_pending):
                answers[at] = yield from self._stored(run, call, answer)
        return answers

    def _seconds(self, wait: timedelta | None) -> float:
        return self._wait if wait is None else wait.total_seconds()

    def _open(self, run: Run, call: ToolCall, approval: str | None, distinct: bool) -> Script[ToolAnswer | Placed]:
        """Stage an effect, or carry a tool of the host out to its end."""
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(sorted(one.name for one in self._tools))
            return (yield from self._refused(run, call, f"there is no tool {call.name!a}; there are {names or 'none'}"))
        try:
            effect = tool.effect_of(call) if tool.nature is Nature.EFFECT else None
            if effect is not None:
                _check(effect, run)
            arguments = tool.arguments_of(call)
            target = tool.target_of(arguments)
        except IntakeError as error:
            return (yield from self._refused(run, call, str(error)))
        token = secrets.token_hex(16)
        if effect is not None:
            placing = partial(self._placing.place, run, call, tool, effect, token, approval, distinct)
            placed: ToolAnswer | Placed = yield Transact(placing)
            if isinstance(placed, ToolAnswer):
                return (yield from self._stored(run, call, placed))
            return placed
        started: ToolAnswer | _Started = yield Transact(partial(self._begin, run, call, tool, target, token))
        answer = started if isinstance(started, ToolAnswer) else (yield from self._carried_out(tool, started, arguments))
        answer = replace(answer, call_id=call.id)
        if answer.outcome in (Outcome.WAITING_FOR_APPROVAL, Outcome.IN_PROGRESS):
            return answer  # not stored: it will be something else
        # Also an unknown: no ledger will ever know more of a tool of the host.
        return (yield from self._stored(run, call, answer))

    def _refused(self, run: Run, call: ToolCall, why: str) -> Script[ToolAnswer]:
        def look() -> Script[ToolAnswer | None]:
            _, stored = yield from self._placing.look(run, call, secrets.token_hex(16))
            return stored.answer

        known: ToolAnswer | None = yield Transact(look)
        if known is not None:
            return replace(known, call_id=call.id)
        return (yield from self._stored(run, call, words.not_sent(call.id, why.rstrip("."))))

    def _begin(self, run: Run, call: ToolCall, tool: Tool, target: str | None, token: str) -> Script[ToolAnswer | _Started]:
        """Write down that a tool begins, before it does; or why it must not. In one transaction."""
        looked, stored = yield from self._placing.look(run, call, token)
        if stored.answer is not None:
            return replace(stored.answer, call_id=call.id)
        if looked.how in ("cancelled", "withdrawn"):
            return _stopped(call.id, tool, looked)
        if tool.approval is Need.REQUIRED and looked.begun == "none":
            held = yield from self._held_back(run, call, stored, tool)
            if held is not None:
                return held
        if tool.nature is Nature.READ_ONLY:
            return _Started(stored, looked.begun, "run")
        next_one = next_step(tool.nature, looked.begun, has_check=tool.check is not None)
        if next_one in ("run", "look"):
            begun = self._placing.journal._begin(run, stored.call.id, token, nature=tool.nature.value, target=target)
            looked = replace((yield from step(begun)), begun=looked.begun)
            if looked.how == "superseded":
                next_one = next_step(tool.nature, looked.begun, has_check=False, superseded=True)
        return _Started(stored, looked.begun, next_one)

    def _held_back(self, run: Run, call: ToolCall, stored: StoredCall, tool: Tool) -> Script[ToolAnswer | None]:
        effect = tool.effect_of(stored.call)
        given = given_key(effect, run.workflow, stored.step, stored.position)
        _, state = yield from self._placing.ask(run, stored, tool, effect, given)
        if state == GRANTED:
            return None
        return words.held_back(call.id, tool.name) if state == PENDING else words.not_sent(call.id, refusal(state))

    def _carried_out(self, tool: Tool, started: _Started, arguments: dict[str, Any]) -> Script[ToolAnswer]:
        call = started.stored.call
        match started.next:
            case "in_progress":
                return words.in_progress_here(call.id, tool.name)
            case "unknown":
                return words.unknown_here(call.id, tool.name, _why_unknown(tool))
            case "look":
                try:
                    found = yield from self._found(tool, call, arguments)
                except Exception as error:  # noqa: BLE001 - whatever it is, nothing was found out
                    why = f"its look-up raised {_said(error)}"
                    if started.begun == "none":
                        return words.not_done(call.id, why)
                    return words.unknown_here(call.id, tool.name, why)
                if found is not None:
                    return _done(call.id, found)
        return (yield from self._run(tool, call, arguments))

    def _run(self, tool: Tool, call: ToolCall, arguments: dict[str, Any]) -> Script[ToolAnswer]:
        assert tool.function is not None
        try:
            value = yield Invoke(tool.function, (), arguments)
        except NotDone as error:
            return words.not_done(call.id, str(error) or f"{tool.name} said so")
        except Exception as error:  # noqa: BLE001 - a tool that raised may have acted before
            return (yield from self._after_raising(tool, call, arguments, error))
        return _done(call.id, text_of(value))

    def _after_raising(self, tool: Tool, call: ToolCall, arguments: dict[str, Any], error: Exception) -> Script[ToolAnswer]:
        why = f"it raised {_said(error)}"
        if tool.nature is Nature.READ_ONLY:
            return words.not_done(call.id, why)
        if tool.check is not None:
            try:
                found = yield from self._found(tool, call, arguments)
            except Exception as second:  # noqa: BLE001 - see above
                return words.unknown_here(call.id, tool.name, f"{why}, and its look-up raised {_said(second)}")
            if found is not None:
                return _done(call.id, found)
        safe = tool.nature in (Nature.OVERWRITES, Nature.ENSURES)
        return words.unknown_here(call.id, tool.name, why, safe_again=safe)

    def _found(self, tool: Tool, call: ToolCall, arguments: dict[str, Any]) -> Script[str | None]:
        """The trace of a call, as its answer; None if there is none."""
        assert tool.check is not None
        if tool.nature is Nature.ENSURES:
            value = yield Invoke(tool.check, (), arguments)
            return None if value is None else text_of(value)
        value = yield Invoke(tool.check, (call,), {})
        return None if not value else "It had been done already." if value is True else text_of(value)

    def _settled(self, placed: Placed, deadline: float) -> Script[ToolAnswer]:
        try:
            record: OperationRecord = yield Wait(placed.operation, 0)
            while (left := deadline - time.monotonic()) > 0 and not _stands_still(record):
                record = yield Wait(placed.operation, min(left, _LOOK_AGAIN))
        except Exception as error:  # noqa: BLE001 - it is staged, whatever keeps us from reading it
            _log.warning("operation_not_readable", operation_id=placed.operation, error=type(error).__name__)
            return words.unreadable(placed.call.id, placed.operation)
        if not placed.same_content and record.state is State.CONFIRMED:
            return words.other_content(placed.call.id, record, placed.how)
        return words.of_operation(placed.call.id, record, how=placed.how)

    def _stored(self, run: Run, call: ToolCall, answer: ToolAnswer) -> Script[ToolAnswer]:
        """Write an answer down. If that fails it is the truth all the same, and is never turned into a failure."""
        answer = replace(answer, content=storable(answer.content, _LONGEST_ANSWER))

        def write() -> Script[ToolAnswer]:
            _, stored = yield from self._placing.look(run, call, secrets.token_hex(16))
            if stored.answer is not None:
                return stored.answer
            yield from step(self._placing.journal._answer(run, stored.call, answer))
            return answer

        try:
            kept: ToolAnswer = yield Transact(write)
        except Exception as error:  # noqa: BLE001 - what happened has happened
            _log.error(
                "answer_not_recorded", run_id=run.run_id, tool=call.name, outcome=answer.outcome, error=type(error).__name__
            )
            return replace(answer, recorded=False)
        return replace(kept, call_id=call.id)


def _check(effect: Effect, run: Run) -> None:
    """What the model wrote must be something that can be staged; it is told so, and no transaction is begun for it."""
    effect.body()
    intent_key(effect, run.workflow, run.step, 0)


def _done(call_id: str, content: str) -> ToolAnswer:
    return ToolAnswer(call_id, Outcome.DONE, content, is_error=False)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": .")


def _why_unknown(tool: Tool) -> str:
    if tool.nature is Nature.OVERWRITES:
        return "it was begun before a crash, and a later call wrote to the same place since, so it was not run again"
    return "it was begun before a crash, and nothing tells whether it came to its end, so it was not run again"


def _stopped(call_id: str, tool: Tool, looked: Looked) -> ToolAnswer:
    if looked.begun == "none" or tool.nature is Nature.READ_ONLY:
        return words.cancelled(call_id, looked.how)
    return words.unknown_here(call_id, tool.name, f"it was begun before the run was {looked.how}")


def _stands_still(record: OperationRecord) -> bool:
    """Whether waiting some seconds more would show nothing else: it is settled, or a person has to act."""
    return record.state.final or record.held is not None or record.waiting == "approval"
