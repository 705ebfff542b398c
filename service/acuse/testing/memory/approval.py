"""Approvals in memory: asked for, decided, expiring by the clock alone, used up by dispatch."""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from acuse.identifier import approval_id
from acuse.protocol import State
from acuse.store.caller import Row
from acuse.testing.memory.row import Approval, Operation
from acuse.testing.memory.tables import Tables
from acuse.testing.message import HostMessage

__all__ = [
    "ask_to_stage",
    "awaited_until",
    "charge",
    "decide",
    "find",
    "gate",
    "get",
    "grant",
    "grant_pattern",
    "request",
    "revoke",
]

_Values = Mapping[str, Any]
_AMOUNT: Final = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")


def state_of(one: Approval, now: datetime) -> str:
    """What it is worth at a moment."""
    facts = (
        (one.superseded_at is not None, "superseded"),
        (one.revoked_at is not None, "revoked"),
        (one.decision == "denied", "denied"),
        (one.expires_at is not None and one.expires_at <= now, "expired"),
        (one.decision is None, "pending"),
    )
    return next((state for holds, state in facts if holds), "granted")


def gate(tables: Tables, one: Operation, now: datetime) -> str | None:
    """Why an approval does not let an operation through; None if it does, or if there is none."""
    if one.approval_id is None:
        return None
    approval = tables.approvals.get(one.approval_id)
    if approval is None or approval.tenant != one.tenant:
        return "approval_missing"
    if not _covers(approval, one.action, one.target, one.digest, one.effect_key):
        return "approval_mismatch"
    state = state_of(approval, now)
    if state != "granted":
        return f"approval_{state}"
    return None if one.charged else _used_up(approval, one.body)


def _used_up(approval: Approval, body: bytes) -> str | None:
    if approval.max_uses is not None and approval.used >= approval.max_uses:
        return "approval_used_up"
    if approval.max_sum is None:
        return None
    amount = _amount(approval, body)
    if amount is None:
        return "approval_mismatch"
    return "approval_sum_exceeded" if approval.summed + amount > approval.max_sum else None


def charge(tables: Tables, one: Operation) -> None:
    """Use it, once per operation."""
    if one.approval_id is not None and not one.charged:
        approval = tables.approvals[one.approval_id]
        approval.used += 1
        approval.summed += Decimal(0) if approval.max_sum is None else _amount(approval, one.body) or Decimal(0)


def awaited_until(tables: Tables, one: Operation) -> datetime | None:
    """Until when an answer is waited for."""
    assert one.approval_id is not None
    return _least(tables.approvals[one.approval_id].expires_at, one.not_after)


def ask_to_stage(
    tables: Tables, approval: UUID, said: tuple[str, str, str, bytes], key: str, body: bytes, not_after: datetime | None
) -> tuple[str | None, bool, datetime | None]:
    """Why nothing may be staged under it, or whether it is pending, and until when it is waited for. said: tenant, action, …"""
    tenant, action, target, digest = said
    known = tables.approvals.get(approval)
    if known is None or known.tenant != tenant or not _covers(known, action, target, digest, known.effect_key or key):
        return "no approval with this id is bound to this tenant, action, target and payload", False, None
    if known.effect_key is not None and known.effect_key != key:
        return "this approval was asked for another intent, with another effect key or call", False, None
    if known.max_sum is not None and _amount(known, body) is None:
        return (
            f"this approval sums $.{known.sum_field} of the payload, which is no amount here: a number of 0 or more",
            False,
            None,
        )
    pending = state_of(known, tables.now) == "pending"
    return None, pending, _least(known.expires_at, not_after) if pending else None


def grant(tables: Tables, values: _Values) -> list[Row]:
    """Grant one for exactly one effect; its id."""
    return [(str(_granted(tables, values, target=values["target"], digest=values["digest"]).id),)]


def grant_pattern(tables: Tables, values: _Values) -> list[Row]:
    """Grant one for a pattern; its id."""
    most = None if values["max_sum"] is None else Decimal(values["max_sum"])
    bounds = {"target": values["target"], "target_prefix": values["prefix"], "sum_field": values["sum_field"], "max_sum": most}
    return [(str(_granted(tables, values, **bounds).id),)]


def _granted(tables: Tables, values: _Values, **more: Any) -> Approval:  # noqa: ANN401 - fields of Approval
    made = Approval(
        id=tables.new_id(),
        tenant=values["tenant"],
        action=values["action"],
        requested_at=tables.now,
        decision="granted",
        decided_by=values["by"],
        decided_at=tables.now,
        reason=values["reason"],
        expires_at=_until(tables, values["expires_at"], values["expires_in"]),
        max_uses=values["max_uses"],
        **more,
    )
    tables.put(tables.approvals, made.id, made)
    return made


def request(tables: Tables, values: _Values) -> list[Row]:
    """Ask for one of an intent; the same content again is the same request."""
    asked = json.loads(values["request"])
    body, now, identity, superseded = asked["body"].encode(), tables.now, tables.new_id(), None
    digest = hashlib.sha256(body).digest()
    intent = (asked["tenant"], asked["effect_key"])
    known = tables.approvals.values()
    old = next((it for it in known if (it.tenant, it.effect_key) == intent and it.followed_by is None), None)
    if old is not None:
        state = state_of(old, now)
        stands = state == "pending" or (state == "granted" and (old.max_uses is None or old.used < old.max_uses))
        if old.digest == digest and (stands or not asked.get("anew", False)):
            return [("same", str(old.id), state, None)]
        tables.keep(old)
        if state in ("pending", "granted") and old.used == 0:
            _expiry_untold(tables, old)
            superseded, old.superseded_at = old.id, now
        old.followed_by = identity
        if superseded is not None:
            _moved(tables, old, "superseded")
    expires_at = None if asked.get("expires_at") is None else datetime.fromisoformat(asked["expires_at"])
    made = Approval(
        id=identity,
        tenant=asked["tenant"],
        action=asked["action"],
        target=asked["target"],
        digest=digest,
        effect_key=asked["effect_key"],
        workflow=asked.get("workflow"),
        call=asked.get("call"),
        requested_at=now,
        requested_by=asked.get("by"),
        request_reason=asked.get("reason"),
        callback=asked.get("callback"),
        expires_at=_until(tables, expires_at, asked.get("expires_in")),
        max_uses=asked.get("max_uses"),
        body=body,
    )
    tables.put(tables.approvals, identity, made)
    _moved(tables, made, "pending")
    if made.callback is not None and made.expires_at is not None:
        made.expiry_message = _message(made, "expired", made.expires_at)
        tables.tell(made.expiry_message)
    return [("created", str(identity), state_of(made, now), None if superseded is None else str(superseded))]


def decide(tables: Tables, values: _Values) -> list[Row]:
    """A person's answer; the first one wins."""
    one = _of_tenant(tables, values)
    if one is None:
        return []
    state = state_of(one, tables.now)
    won = state == "pending"
    if won:
        tables.keep(one)
        _expiry_untold(tables, one)
        state = "granted" if values["approve"] else "denied"
        one.decision, one.decided_by, one.decided_at, one.reason = state, values["by"], tables.now, values["reason"]
        if values["expires_in"] is not None:
            one.expires_at = tables.now + timedelta(seconds=values["expires_in"])
        _moved(tables, one, state)
    by = one.revoked_by if state == "revoked" else one.decided_by
    at = {"revoked": one.revoked_at, "expired": one.expires_at, "superseded": one.superseded_at}.get(state, one.decided_at)
    return [(won, state, by, at, None if one.followed_by is None else str(one.followed_by))]


def revoke(tables: Tables, values: _Values) -> list[Row]:
    """Revoke it; the operations already in the air under it."""
    one = _of_tenant(tables, values)
    if one is None:
        return [(None,)]
    if state_of(one, tables.now) in ("granted", "pending"):
        tables.keep(one)
        _expiry_untold(tables, one)
        one.revoked_at, one.revoked_by, one.revoke_reason = tables.now, values["by"], values["reason"]
        _moved(tables, one, "revoked")
    under = [it for it in tables.of_tenant(values["tenant"]) if it.approval_id == one.id]
    return [(str(it.id),) for it in under if it.in_the_air]


def get(tables: Tables, values: _Values) -> list[Row]:
    """Read it."""
    one = _of_tenant(tables, values)
    return [] if one is None else [_row(tables, one, one.body)]


def find(tables: Tables, values: _Values) -> list[Row]:
    """Read several, newest first."""
    wanted = {"tenant": values["tenant"], "workflow": values["workflow"]}
    found = [
        one
        for one in sorted(tables.approvals.values(), key=lambda one: one.id, reverse=True)
        if all(value is None or getattr(one, name) == value for name, value in wanted.items())
        and (values["state"] is None or state_of(one, tables.now) == values["state"])
        and (values["before"] is None or one.id < UUID(values["before"]))
    ]
    return [_row(tables, one, None) for one in found[: values["limit"]]]


def _row(tables: Tables, one: Approval, body: bytes | None) -> Row:
    digest = None if one.digest is None else one.digest.hex()
    bound = (str(one.id), one.tenant, state_of(one, tables.now), one.action, one.target, one.target_prefix, digest)
    asked = (one.effect_key, one.workflow, one.call, one.requested_at, one.requested_by, one.request_reason, one.callback)
    decided = (one.decided_at, one.decided_by, one.reason, one.expires_at, one.max_uses, one.used, one.sum_field, one.max_sum)
    ended = (one.summed, one.revoked_at, one.revoked_by, one.revoke_reason, one.superseded_at)
    newer = None if one.followed_by is None else str(one.followed_by)
    return (*bound, *asked, *decided, *ended, newer, tables.now, None if body is None else body.hex())


def _of_tenant(tables: Tables, values: _Values) -> Approval | None:
    known = tables.approvals.get(UUID(values["id"]))
    return known if known is not None and values["tenant"] in (None, known.tenant) else None


def _covers(one: Approval, action: str, target: str, digest: bytes, key: str) -> bool:
    if one.action != action or (one.effect_key is not None and one.effect_key != key):
        return False
    if one.digest is not None:
        return (one.target, one.digest) == (target, digest)
    return one.target in (None, target) and target.startswith(one.target_prefix or "")


def _amount(one: Approval, body: bytes) -> Decimal | None:
    # As the database reads it, by its text: what is written as another number, or below zero, is no amount.
    said = json.loads(body, parse_int=str, parse_float=str)["payload"].get(one.sum_field)
    return Decimal(said) if isinstance(said, str) and _AMOUNT.fullmatch(said) else None


def _moved(tables: Tables, one: Approval, state: str) -> None:
    waiting = [it for it in tables.operations.values() if it.approval_id == one.id and it.waiting == "approval"]
    tables.want(it.id for it in waiting if it.state is State.PREPARED)
    if one.callback is not None:
        tables.tell(_message(one, state, tables.now))


def _message(one: Approval, state: str, at: datetime) -> HostMessage:
    assert one.callback is not None
    queue, _, actor = one.callback.partition("/")
    name = approval_id(one.id)
    kwargs = {"approval_id": name, "state": state, "tenant": one.tenant, "workflow": one.workflow}
    kwargs |= {"call": one.call, "action": one.action, "target": one.target}
    return HostMessage(queue, actor, (), kwargs, f"{name}-{state}", told=True, available_at=at)


def _expiry_untold(tables: Tables, one: Approval) -> None:
    message, one.expiry_message = one.expiry_message, None
    if message is not None:
        tables.messages.remove(message)
        tables.transaction.done(lambda: tables.messages.append(message))


def _until(tables: Tables, at: datetime | None, seconds: float | None) -> datetime | None:
    return at if seconds is None else tables.now + timedelta(seconds=seconds)


def _least(*moments: datetime | None) -> datetime | None:
    return min((at for at in moments if at is not None), default=None)
