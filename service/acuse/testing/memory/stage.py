"""`acuse.stage` in memory, step by step as the function in the database takes them. What is refused leaves nothing."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from acuse.protocol import State
from acuse.store.caller import Row
from acuse.testing.memory.approval import ask_to_stage
from acuse.testing.memory.row import Event, Operation
from acuse.testing.memory.tables import Tables
from acuse.testing.memory.transaction import Transaction

__all__ = ["stage"]

_Json = dict[str, Any]
_WRITTEN = ("created", "same", "in_doubt")
_NO_LONGER_ROUTED = 1_000_000


class _Answer(NamedTuple):
    """One row of the function."""

    ref: int
    outcome: str
    operation: UUID | None = None
    event: UUID | None = None
    state: State | None = None
    result_id: str | None = None
    existing: bytes | None = None
    detail: str | None = None

    def row(self) -> Row:
        """As the statement returns it."""
        return (
            self.ref,
            self.outcome,
            None if self.operation is None else str(self.operation),
            None if self.event is None else str(self.event),
            None if self.state is None else self.state.value,
            self.result_id,
            None if self.existing is None else self.existing.hex(),
            self.detail,
        )


class _Refused(Exception):  # noqa: N818 - a signal, no error
    def __init__(self, answer: _Answer) -> None:
        self.answer = answer


def stage(tables: Tables, request: str) -> list[Row]:
    """Stage what a request says. One row per item, or the one row that says why nothing was written."""
    outer = tables.transaction
    tables.transaction = inner = Transaction(outer)
    try:
        rows = [answer.row() for answer in _stage_all(tables, json.loads(request))]
    except _Refused as refused:
        inner.rollback()
        return [refused.answer.row()]
    finally:
        tables.transaction = outer
    inner.commit()
    return rows


def _stage_all(tables: Tables, request: _Json) -> list[_Answer]:
    event_id, answers = None, []
    if (event := request.get("event")) is not None:
        old = _event_of(tables, request["tenant"], event)
        if old is not None:
            return _published_before(tables, request, event, old)
        event_id = _new_event(tables, request, event)
        answers.append(_Answer(-1, "created", event=event_id))
    refs: dict[int, UUID] = {}
    for ref, item in sorted(enumerate(request["items"]), key=_order):
        answer = _stage_item(tables, request, item, ref, event_id, refs)
        if answer.outcome not in _WRITTEN:
            raise _Refused(answer)
        assert answer.operation is not None
        refs[ref] = answer.operation
        answers.append(answer)
    return answers


def _order(numbered: tuple[int, _Json]) -> tuple[bool, int, bool, str, int]:
    # Keys in one order for all callers; items that name others of the request come last, in the order of the request.
    ref, item = numbered
    needs_others = any("ref" in needed for needed in item.get("after", ()))
    key = item.get("effect_key")
    return needs_others, ref if needs_others else 0, key is None, key or "", ref


def _event_of(tables: Tables, tenant: str, event: _Json) -> Event | None:
    if event.get("key") is None:
        return None
    said = (tenant, event["name"], event["key"])
    return next((it for it in tables.events.values() if (it.tenant, it.name, it.key) == said), None)


def _new_event(tables: Tables, request: _Json, event: _Json) -> UUID:
    body, identity = event["body"].encode(), tables.new_id()
    made = Event(identity, request["tenant"], event["name"], event.get("key"), request.get("workflow"), body, _digest(body))
    tables.put(tables.events, identity, made)
    return identity


def _published_before(tables: Tables, request: _Json, event: _Json, old: Event) -> list[_Answer]:
    if old.digest != _digest(event["body"].encode()):
        raise _Refused(_Answer(-1, "event_conflict", event=old.id, existing=old.body))
    keys = [item.get("effect_key") for item in request["items"]]
    made = [one for one in tables.operations.values() if one.event_id == old.id and one.generation == 0]
    answers = [_Answer(-1, "same", event=old.id)]
    for number, one in enumerate(made, 1):
        ref = keys.index(one.effect_key) if one.effect_key in keys else _NO_LONGER_ROUTED + number
        answers.append(_standing(ref, "same", one))
    return answers


def _stage_item(tables: Tables, request: _Json, item: _Json, ref: int, event: UUID | None, refs: dict[int, UUID]) -> _Answer:
    tenant, body = request["tenant"], item["body"].encode()
    key, generation, predecessor = _which(tables, tenant, item, ref)
    approval, not_after, pending, until = _uuid(item.get("approval")), _moment(item.get("not_after")), False, None
    if approval is not None:
        said = (tenant, item["action"], item["target"], _digest(body))
        refused, pending, until = ask_to_stage(tables, approval, said, key, body, not_after)
        if refused is not None:
            raise _Refused(_Answer(ref, "approval_mismatch", detail=refused))
    needs = _needs(tables, tenant, item, ref, refs)
    compensates = _uuid(item.get("compensates"))
    if compensates is not None and not _is_there(tables, tenant, compensates):
        reason = "compensates must name an operation of the same tenant that exists"
        raise _Refused(_Answer(ref, "dependency_missing", detail=reason))
    made = Operation(
        id=tables.new_id(),
        seq=tables.next_seq(),
        tenant=tenant,
        event_id=event,
        workflow=request.get("workflow"),
        flow_version=request.get("flow_version"),
        call=item.get("call"),
        effect_key=key,
        generation=generation,
        succeeds=predecessor,
        compensates=compensates,
        action=item["action"],
        account=item["account"],
        target=item["target"],
        body=body,
        digest=_digest(body),
        approval_id=approval,
        ordering_key=item.get("ordering_key"),
        not_after=not_after,
        deliberate=item.get("distinct", False),
        value=None if item.get("value") is None else Decimal(item["value"]).quantize(Decimal("0.0001")),
        on_settled=item.get("on_settled"),
        trace=request.get("trace"),
        created_at=tables.now,
        updated_at=tables.now,
        handed_at=None if pending else tables.now,
        waiting="approval" if pending else None,
        due_at=until,
        needs=needs,
        transaction=tables.transaction,
    )
    return _in_the_way(tables, made, ref) or _insert(tables, made, ref)


def _which(tables: Tables, tenant: str, item: _Json, ref: int) -> tuple[str, int, UUID | None]:
    """Effect key and generation; those of the predecessor and one more where the item takes up a rejected one."""
    succeeds = _uuid(item.get("succeeds"))
    if succeeds is None:
        return item["effect_key"], 0, None
    old = tables.operations.get(succeeds)
    if old is None or old.tenant != tenant or old.state is not State.REJECTED:
        state = None if old is None or old.tenant != tenant else old.state
        reason = "succeeds must name a rejected operation of the same tenant"
        raise _Refused(_Answer(ref, "not_rejected", succeeds, state=state, detail=reason))
    if (old.action, old.target) != (item["action"], item["target"]):
        raise _Refused(_Answer(ref, "not_rejected", succeeds, state=old.state, detail="succeeds must keep action and target"))
    return old.effect_key, old.generation + 1, succeeds


def _needs(tables: Tables, tenant: str, item: _Json, ref: int, refs: dict[int, UUID]) -> tuple[UUID, ...]:
    named: Sequence[_Json] = item.get("after", ())
    needs = [UUID(it["id"]) if "id" in it else refs.get(it["ref"]) for it in named]
    if any(one is None or not _is_there(tables, tenant, one) for one in needs):
        reason = "after must name operations of the same tenant that exist, or earlier items"
        raise _Refused(_Answer(ref, "dependency_missing", detail=reason))
    return tuple(dict.fromkeys(one for one in needs if one is not None))


def _in_the_way(tables: Tables, made: Operation, ref: int) -> _Answer | None:
    """What stands for this intent already: an operation in doubt, the same key, or the same content in the air."""
    known = list(tables.of_tenant(made.tenant))
    rivals = [it for it in known if _rivals(it, made)]
    if not made.deliberate and made.succeeds is None:
        # Same action and target, and that one is in doubt: the agent asks again in other words.
        for one in rivals:
            if one.in_the_air and (one.effect_key, one.generation) != (made.effect_key, made.generation):
                return _standing(ref, "in_doubt", one)
    for one in known:
        if (one.effect_key, one.generation) == (made.effect_key, made.generation):
            if (one.digest, one.account) == (made.digest, made.account):
                return _standing(ref, "same", one)
            return _Answer(ref, "conflict", one.id, one.event_id, one.state, None, one.body, one.account)
    if not made.deliberate:
        for one in rivals:
            if one.pending and one.digest == made.digest:
                return _standing(ref, "in_doubt", one)
    return None


def _rivals(one: Operation, made: Operation) -> bool:
    where = (made.workflow, made.action, made.target)
    return one.workflow is not None and (one.workflow, one.action, one.target) == where and not one.deliberate


def _insert(tables: Tables, made: Operation, ref: int) -> _Answer:
    made.note("staged", None, "host", actor=made.call)
    tables.put(tables.operations, made.id, made)
    if made.waiting is None:  # else whoever decides wakes it
        tables.want([made.id])
    return _Answer(ref, "created", made.id, made.event_id, made.state)


def _standing(ref: int, outcome: str, one: Operation) -> _Answer:
    return _Answer(ref, outcome, one.id, one.event_id, one.state, one.result_id)


def _is_there(tables: Tables, tenant: str, operation: UUID) -> bool:
    known = tables.operations.get(operation)
    return known is not None and known.tenant == tenant


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def _uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
