"""Two outboxes side by side, in memory and on PostgreSQL: the steps of a script, their answers, and what is there afterwards."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import timedelta
from decimal import Decimal
from typing import Any

from host import CaseClosed, CaseSeen, CloseCase, SendEmail, routes
from hypothesis import strategies as st
from sqlalchemy import Engine

from acuse import ActionCatalog, Approvals, Effect, Ledger, OperationRecord, Staged, Wish
from acuse.errors import AcuseError
from acuse.testing import MemoryOutbox, TransactionOutbox
from acuse.testing import behaviour as behaviours

CATALOG = ActionCatalog([CloseCase, SendEmail])
ACTORS = "host/settled"

_ACTIONS = ("crm.close_case.v1", "email.send.v1", "crm.note.v1")
_MOMENTS = [it.name for it in fields(OperationRecord) if it.name.endswith(("_at", "_until")) or it.name == "not_after"]
_IDS = ("operation_id", "event_id", "succeeds", "compensates", "approval_id")
_OWN = ("read_at", "tenant", "effect_key", "version")  # making rows older, which lets time pass in the database, raises versions


@dataclass
class Side:
    """One of the two: an outbox with its connection, and what it made, in order, so that the same things can be named in both."""

    outbox: Any
    connection: Any
    tenant: str
    made: list[str] = field(default_factory=list)

    def name(self, identity: str | None) -> str | None:
        """The number of an operation, event or approval, in place of its id, which differs."""
        if identity is None:
            return None
        if identity not in self.made:
            self.made.append(identity)
        return f"#{self.made.index(identity)}"

    def told(self, text: str) -> str:
        for number, identity in enumerate(self.made):
            text = text.replace(identity, f"#{number}")
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "then", text)

    def pick(self, which: int, kind: str) -> str | None:
        known = [it for it in self.made if it.startswith(kind)]
        return known[which % len(known)] if known else None

    def staged(self, one: Staged) -> tuple[Any, ...]:
        number = self.name(one.operation_id)
        return (number, one.created, one.in_doubt, one.state.value, one.result_id is not None)

    def records(self) -> list[dict[str, Any]]:
        """Every operation, field by field: ids by number, moments by whether they are there."""
        return [self._record(record, payload) for record, payload in self.outbox._all()]

    def _record(self, record: OperationRecord, payload: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = {it.name: getattr(record, it.name) for it in fields(record) if it.name not in _OWN}
        for name in _IDS:
            shown[name] = self.name(shown[name])
        for name in _MOMENTS:
            shown.pop(name, None)
            shown[f"{name} is there"] = getattr(record, name) is not None
        shown["waits_for"] = sorted(str(self.name(it)) for it in record.waits_for)
        shown["result_id"] = record.result_id is not None
        shown |= {name: self._words(shown[name]) for name in ("reason", "held")}
        shown["why"], shown["payload"] = bool(record.why), payload
        return shown

    def _words(self, text: str | None) -> str | None:
        # Sentences name moments, and results by the ids of their operations.
        return (
            None
            if text is None
            else " ".join(word for word in text.split() if not word.startswith(("R-", "20", "#")) and ":" not in word)
        )


Step = tuple[str, dict[str, Any]]


def _said(case: str, payload: int, action: str, typed: bool) -> Any:
    if action == "crm.close_case.v1" and typed:
        return CloseCase(case=case, resolution=f"r{payload}")
    if action == "email.send.v1" and typed:
        return SendEmail(case=case, subject=f"s{payload}")
    if action == "crm.note.v1":
        return Effect(action, case, {"case": case, "text": f"t{payload}", "n": [payload, 1e20, "é"]})
    content = {"resolution": f"r{payload}"} if action == "crm.close_case.v1" else {"subject": f"s{payload}"}
    return Effect(action, case, {"case": case, **content})


def _options(side: Side, how: dict[str, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {
        "call": how["call"],
        "distinct": how["distinct"],
        "ordering_key": how["ordering"],
        "on_settled": how["tells"],
    }
    named |= {"value": how["value"], "account": how["account"], "effect_key": how["key"]}
    if how["after"] is not None and (after := side.pick(how["after"], "op_")) is not None:
        named["after"] = [after]
    if how["succeeds"] is not None:
        named["succeeds"], named["effect_key"] = side.pick(how["succeeds"], "op_"), None
    if how["compensates"] is not None:
        named["compensates"] = side.pick(how["compensates"], "op_")
    if how["approval"] is not None:
        named["approval"] = side.pick(how["approval"], "apr_")
    if how["ends"] is not None:
        named["not_after"] = side.outbox.now + timedelta(seconds=how["ends"])
    return named


def _stage(side: Side, how: dict[str, Any]) -> Any:
    said = _said(how["case"], how["payload"], how["action"], how["typed"])
    where = {"workflow": how["workflow"], "flow_version": how["flow"]}
    return side.staged(side.outbox.stage(side.connection, said, **where, **_options(side, how)))


def _many(side: Side, how: dict[str, Any]) -> Any:
    wishes: list[Wish] = []
    for number, one in enumerate(how["wishes"]):
        options = _options(side, one)
        if number and one["chained"]:
            options["after"] = [wishes[number - 1]]
        wishes.append(Wish(_said(one["case"], one["payload"], one["action"], one["typed"]), **options))
    staged = side.outbox.stage_many(side.connection, wishes, workflow=how["workflow"], flow_version=how["flow"])
    return [side.staged(one) for one in staged]


def _publish(side: Side, how: dict[str, Any]) -> Any:
    owner = f"user-{how['payload']}"
    event = CaseClosed(case=how["case"], owner=owner) if how["known"] else CaseSeen(case=how["case"])
    said = side.outbox.publish(side.connection, event, workflow=how["workflow"])
    return (side.name(said.event_id), said.created, [side.staged(one) for one in said.operations])


def _grant(side: Side, how: dict[str, Any]) -> Any:
    said = _said(how["case"], how["payload"], how["action"], typed=False)
    lasts = None if how["lasts"] is None else timedelta(seconds=how["lasts"])
    approvals = Approvals(CATALOG if side.outbox._catalog else None, side.tenant)
    granted = approvals.grant(side.connection, said, by="ada", max_uses=how["uses"], expires_in=lasts)
    return side.name(granted)


def _revoke(side: Side, how: dict[str, Any]) -> Any:
    approval = side.pick(how["which"], "apr_")
    if approval is None:
        return None
    gone = Approvals(None, side.tenant).revoke(side.connection, approval, by="ada", reason="no")
    read = Approvals(None, side.tenant).get(side.connection, approval)
    return [side.name(it) for it in gone], read.used, read.stands, read.state.value, read.revoked_by, read.uses_left


def _request(side: Side, how: dict[str, Any]) -> Any:
    said = _said(how["case"], how["payload"], how["action"], typed=False)
    lasts = None if how["lasts"] is None else timedelta(seconds=how["lasts"])
    approvals = Approvals(CATALOG if side.outbox._catalog else None, side.tenant)
    named = {"workflow": how["workflow"], "call": how["call"], "callback": "host/asked", "anew": how["anew"]}
    asked = approvals.request(side.connection, said, by="agent", expires_in=lasts, **named)
    waiting = [(side.name(it.approval_id), it.target, it.requested_by) for it in approvals.pending(side.connection)]
    return side.name(asked.approval_id), asked.created, asked.state.value, side.name(asked.superseded), waiting


def _decide(side: Side, how: dict[str, Any]) -> Any:
    approval, approvals = side.pick(how["which"], "apr_"), Approvals(None, side.tenant)
    if approval is None:
        return None
    decided = approvals.decide(side.connection, approval, how["approve"], by=how["by"])
    read = approvals.get(side.connection, approval)
    told = [
        (it.address, side.name(it.kwargs["approval_id"]), it.kwargs["state"])
        for it in side.outbox.told
        if "approval_id" in it.kwargs
    ]
    return decided.state.value, decided.decided_by, decided.won, read.payload, read.decided_by, told


def _pattern(side: Side, how: dict[str, Any]) -> Any:
    most = None if how["most"] is None else ("amount", how["most"])
    granted = Approvals(None, side.tenant).grant_pattern(
        side.connection, how["action"], by="ada", target_prefix=how["prefix"], max_uses=how["uses"], max_sum=most
    )
    return side.name(granted)


def _cancel(side: Side, how: dict[str, Any]) -> Any:
    ledger = Ledger("postgresql://nobody@127.0.0.1:1/none", tenant=side.tenant)
    by = {"by": "ada", "reason": "no"}
    match how["what"]:
        case "operation" if (one := side.pick(how["which"], "op_")) is not None:
            done = ledger.cancel(side.connection, one, **by)
            return done.cancelled, done.state.value
        case "workflow":
            return [side.name(it) for it in ledger.cancel_workflow(side.connection, how["workflow"], **by)]
        case "flow":
            return [side.name(it) for it in ledger.withdraw_flow_version(side.connection, "v1", **by)]
    return None


def _rolled_back(side: Side, how: dict[str, Any]) -> Any:
    with_savepoint = side.connection.begin_nested()
    try:
        with with_savepoint:
            for step in how["steps"]:
                _do(side, step)
            raise _Enough
    except _Enough:
        known = {it.operation_id for it in side.outbox.staged()}
        gone = [it for it in side.made if it.startswith("op_") and it not in known]
        return len(gone)


class _Enough(Exception):  # noqa: N818 - a signal, no error
    pass


def _run(side: Side, how: dict[str, Any]) -> Any:
    outcomes = {name: how["outcome"] for name in how["actions"] if side.outbox.staged(name)}
    side.outbox.run_effects(outcomes, during=timedelta(seconds=how["during"]))
    told = [
        (it.address, side.name(it.kwargs["operation_id"]), it.kwargs["state"], it.kwargs["outcome_code"])
        for it in side.outbox.told
        if "operation_id" in it.kwargs
    ]
    return told, sorted((it.kind, side.name(it.operation_id)) for it in side.outbox.incidents)


def _advance(side: Side, how: dict[str, Any]) -> Any:
    side.outbox.advance(timedelta(seconds=how["by"]))


_STEPS: dict[str, Callable[[Side, dict[str, Any]], Any]] = {
    "stage": _stage,
    "many": _many,
    "publish": _publish,
    "grant": _grant,
    "revoke": _revoke,
    "request": _request,
    "decide": _decide,
    "pattern": _pattern,
    "cancel": _cancel,
    "rolled back": _rolled_back,
    "run": _run,
    "advance": _advance,
}


def _do(side: Side, step: Step) -> Any:
    """What a step answers, or the error with its facts; ids are numbers."""
    name, how = step
    try:
        return _STEPS[name](side, how)
    except AcuseError as error:
        facts = {key: side.told(str(value)) for key, value in vars(error).items()}
        return type(error).__name__, side.told(str(error)), facts


_seldom = st.sampled_from([False, False, False, True])
_which = st.sampled_from([None, None, None, 0, 1, 2])
_case = st.sampled_from(["case-1", "case-1", "case-2"])
_workflow = st.sampled_from([None, "w1", "w1", "w2"])
_action = st.sampled_from(_ACTIONS)
_payload = st.sampled_from([0, 0, 1])

_wish = st.fixed_dictionaries(
    {
        "case": _case,
        "payload": _payload,
        "action": _action,
        "typed": st.booleans(),
        "call": st.sampled_from([None, "t1", "t2", "t3"]),
        "key": st.sampled_from([None, None, "k1", "k2"]),
        "distinct": _seldom,
        "ordering": st.sampled_from([None, None, "chain"]),
        "tells": st.sampled_from([None, ACTORS]),
        "value": st.sampled_from([None, Decimal("12.50")]),
        "account": st.sampled_from([None, None, None, "other"]),
        "after": _which,
        "succeeds": st.sampled_from([None, None, None, None, 0, 1]),
        "compensates": _which,
        "approval": _which,
        "ends": st.sampled_from([None, None, None, 90, 900]),
        "chained": st.booleans(),
    }
)
_where = {"workflow": _workflow, "flow": st.sampled_from([None, None, "v1"])}
_OUTCOMES = [value for name in behaviours.__all__ if isinstance(value := getattr(behaviours, name), behaviours.Behaviour)]


def _kind(name: str, **how: Any) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), st.fixed_dictionaries(how))


_stage_step = _wish.flatmap(lambda wish: st.fixed_dictionaries(_where).map(lambda where: ("stage", wish | where)))
_hosts = st.one_of(
    _stage_step,
    _stage_step,
    _stage_step,
    _kind("many", wishes=st.lists(_wish, min_size=1, max_size=4), **_where),
    _kind("publish", case=_case, payload=_payload, known=st.booleans(), workflow=_workflow),
    _kind(
        "grant", case=_case, payload=_payload, action=_action, uses=st.sampled_from([None, 1]), lasts=st.sampled_from([None, 60])
    ),
    _kind("revoke", which=st.integers(0, 2)),
    _kind(
        "request",
        case=_case,
        payload=_payload,
        action=_action,
        workflow=st.just("w1"),
        call=st.sampled_from(["t1", "t2"]),
        lasts=st.sampled_from([None, 60]),
        anew=_seldom,
    ),
    _kind("decide", which=st.integers(0, 2), approve=st.booleans(), by=st.sampled_from(["ada", "bob"])),
    _kind(
        "cancel",
        what=st.sampled_from(["operation", "operation", "workflow", "flow"]),
        which=st.integers(0, 5),
        workflow=st.just("w1"),
    ),
)
_worked = st.one_of(
    _kind(
        "run",
        actions=st.lists(_action, unique=True, max_size=3),
        outcome=st.sampled_from(_OUTCOMES) | st.lists(st.sampled_from(_OUTCOMES), min_size=2, max_size=3),
        during=st.sampled_from([0, 0, 2, 30, 400, 1800]),
    ),
    _kind("advance", by=st.sampled_from([1, 60, 3600])),
)
SCRIPT = st.lists(
    st.one_of(_hosts, _hosts, _hosts, _worked, _kind("rolled back", steps=st.lists(_hosts, min_size=1, max_size=3))),
    min_size=1,
    max_size=12,
)


def differences(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[str]:
    """Each field that differs."""
    found = [f"{len(ours)} and {len(theirs)} operations"] if len(ours) != len(theirs) else []
    for one, other in zip(ours, theirs, strict=False):
        found += [f"{one['operation_id']}.{it}: {one[it]!r} and {other[it]!r}" for it in one if one[it] != other[it]]
    return found


def compare(engine: Engine, tenant: str, script: list[Step], catalog: ActionCatalog | None) -> None:
    """Run a script in both and compare each answer, and all operations after each step."""
    with engine.connect() as connection:
        real = Side(TransactionOutbox(connection, routes, catalog, tenant), connection, tenant)
        memory_outbox = MemoryOutbox(routes, catalog, tenant)
        memory = Side(memory_outbox, memory_outbox.session(), tenant)
        try:
            for number, step in enumerate(script):
                answers = [_do(side, step) for side in (real, memory) if side.connection is connection or _open(side, step)]
                assert answers[1] == answers[0], f"step {number}, {step}: in memory {answers[1]}, in fact {answers[0]}"
                differ = differences(memory.records(), real.records())
                assert not differ, f"after step {number}, {step}, in memory and in fact: {differ}"
        finally:
            connection.rollback()


def _open(side: Side, step: Step) -> bool:
    if step[0] == "run":
        side.connection.commit()
    return True
