"""An effect's way through both gates, in one transaction: did it happen? may it? Then it is staged, with its call's record."""

from dataclasses import dataclass, replace
from typing import Any

from acuse.agents import words
from acuse.agents.answer import ToolAnswer
from acuse.agents.asking import GRANTED, PENDING, AsksForApproval, refusal
from acuse.agents.call import ToolCall
from acuse.agents.nature import Need
from acuse.agents.record import Looked
from acuse.agents.resumed import StoredCall
from acuse.agents.run import Run
from acuse.agents.script import Do, Script, step
from acuse.agents.step import given_key, intent_key
from acuse.agents.tool import Tool
from acuse.agents.writing import Step, Writing
from acuse.errors import ConfigurationError, EffectConflict, InDoubt, InvalidField
from acuse.intent import Effect, digest
from acuse.protocol import State
from acuse.store.happened import HAPPENED, Happened, happened
from acuse.store.staged import Staged

__all__ = ["Placed", "Placing"]

_ASKED_BEFORE = "This was asked for before, and nothing was sent again."
_IN_DOUBT = "The same was asked for before and was not settled then, so nothing new was sent."
_OTHER = "Other content was asked for under the same identity before, so nothing was sent for this call."


@dataclass(frozen=True, slots=True)
class Placed:
    """The operation that stands for a call. how: why another's does. same_content: with what the call asks."""

    call: ToolCall
    operation: str
    how: str = ""
    same_content: bool = True


@dataclass(frozen=True, slots=True)
class Placing:
    """Both gates. journal, outbox, approvals: of one kind, synchronous or not; who runs the script awaits what is awaitable."""

    journal: Writing
    outbox: Any
    approvals: AsksForApproval | None

    def look(self, run: Run, call: ToolCall, token: str) -> Script[tuple[Looked, StoredCall]]:
        """What stands about a call; its stored form, also where a framework repeats it under a new id.

        Raises `InvalidField` for a call that was not decided.
        """
        looked = yield from step(self.journal._begin(run, call.id, token, look=True))
        if looked.stored is None:
            resumed = yield from step(self.journal._read(run.run_id, run))
            same = [one.call.id for one in resumed.stored_calls if one.step == run.step and one.call.asks_the_same(call)]
            if not same:
                raise InvalidField(
                    field="call", reason=f"{call.id!a} is none of the run's last turn; store the decision with its calls first"
                )
            looked = yield from step(self.journal._begin(run, same[0], token, look=True))
        assert looked.stored is not None
        if not looked.stored.call.asks_the_same(call):
            raise InvalidField(
                field="call", reason=f"{call.id!a} differs from the call that was decided; give it as it was stored"
            )
        return looked, looked.stored

    def place(
        self, run: Run, call: ToolCall, tool: Tool, effect: Effect, token: str, approval: str | None, distinct: bool
    ) -> Script[Placed | ToolAnswer]:
        """The operation that stands for a call, staged now if there is none and it may be; else why it is not."""
        looked, stored = yield from self.look(run, call, token)
        if stored.answer is not None:
            return replace(stored.answer, call_id=call.id)
        if stored.operation_id is not None:
            return Placed(call, stored.operation_id)  # staged by an earlier try of this very call
        if looked.how in ("cancelled", "withdrawn"):
            return words.cancelled(call.id, looked.how)
        key = intent_key(effect, run.workflow, stored.step, stored.position)
        there = yield from self._happened(run, effect, key)
        predecessor = None
        if there is not None and not (there.in_doubt and distinct):
            if there.in_doubt or there.state is not State.REJECTED:
                yield from self._record(run, stored, token, key, there.operation_id, None)
                return Placed(call, there.operation_id, _why_that(there), there.same_content)
            predecessor = there.operation_id  # an intent that was asked for again, after it was told that nothing was done
        given = given_key(effect, run.workflow, stored.step, stored.position)
        used_up = predecessor is not None and there is not None and there.outcome_code not in words.OURS
        allowed = yield from self._allowed(run, stored, tool, effect, given, approval, used_up)
        if isinstance(allowed, ToolAnswer):
            return replace(allowed, call_id=call.id)
        staged = yield from self._stage(run, stored, tool, effect, given, allowed, predecessor, distinct)
        if isinstance(staged, Placed):
            yield from self._record(run, stored, token, key, staged.operation, None)
            return replace(staged, call=call)
        yield from self._record(run, stored, token, key, staged.operation_id, allowed)
        return Placed(call, staged.operation_id, _IN_DOUBT if staged.in_doubt else "" if staged.created else _ASKED_BEFORE)

    def ask(
        self, run: Run, stored: StoredCall, tool: Tool, effect: Effect, given: str | None, *, anew: bool = False
    ) -> Script[tuple[str, str]]:
        """The approval of a call and its state; asked for once, however often the call is tried.

        anew: the provider refused what the one before allowed, which is used up now.
        """
        if self.approvals is None:
            raise ConfigurationError(f"tool {tool.name!a} needs an approval; give the gate approvals=Approvals(…)")
        approvals = self.approvals
        requested = yield Do(
            lambda session: approvals.request(
                session,
                effect,
                workflow=run.workflow,
                call=stored.call.id,
                effect_key=given,
                by=run.run_id,
                reason=tool.why,
                expires_in=tool.approval_expires_in,
                callback=tool.callback,
                anew=anew,
                tenant=run.tenant,
            )
        )
        return str(requested.approval_id), str(requested.state)

    def _happened(self, run: Run, effect: Effect, key: str) -> Script[Happened | None]:
        content = digest(effect.body())
        values = {
            "tenant": run.tenant,
            "key": key,
            "workflow": run.workflow,
            "action": effect.action,
            "target": effect.target,
            "digest": content.hex(),
        }
        return (yield from step(Step(HAPPENED, values, lambda rows: happened(rows, content), raw=True)))

    def _allowed(
        self,
        run: Run,
        stored: StoredCall,
        tool: Tool,
        effect: Effect,
        given: str | None,
        approval: str | None,
        used_up: bool,
    ) -> Script[str | ToolAnswer | None]:
        if approval is not None or tool.approval is Need.NOT_NEEDED:
            return approval
        asked, state = yield from self.ask(run, stored, tool, effect, given, anew=used_up)
        # While it is pending the operation is staged and dispatch holds it back: it goes out when a person says yes.
        return asked if state in (PENDING, GRANTED) else words.not_sent(stored.call.id, refusal(state))

    def _stage(
        self,
        run: Run,
        stored: StoredCall,
        tool: Tool,
        effect: Effect,
        given: str | None,
        approval: str | None,
        predecessor: str | None,
        distinct: bool,
    ) -> Script[Staged | Placed]:
        try:
            staged: Staged = yield Do(
                lambda session: self.outbox.stage(
                    session,
                    effect,
                    workflow=run.workflow,
                    flow_version=run.flow_version,
                    call=stored.call.id,
                    effect_key=None if predecessor else given,
                    approval=approval,
                    succeeds=predecessor,
                    on_settled=tool.on_settled,
                    distinct=distinct,
                    tenant=run.tenant,
                )
            )
        except (EffectConflict, InDoubt) as other:  # somebody else was faster since we looked
            return Placed(stored.call, other.operation_id, _OTHER, same_content=False)
        return staged

    def _record(self, run: Run, stored: StoredCall, token: str, key: str, operation: str, approval: str | None) -> Script[Looked]:
        return (
            yield from step(
                self.journal._begin(
                    run,
                    stored.call.id,
                    token,
                    nature="effect",
                    effect_key=key,
                    operation_id=operation.removeprefix("op_"),
                    approval=approval,
                )
            )
        )


def _why_that(there: Happened) -> str:
    if there.in_doubt:
        return _IN_DOUBT
    return _ASKED_BEFORE if there.same_content else _OTHER
