"""What a host asks for, the request that says it, and what must be answered to it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from acuse.intent import body
from stateful.snapshot import Operation, Snapshot

__all__ = ["Answer", "Wish", "expected", "publish", "stage"]

_STAGE = text(
    "select ref, outcome, operation_id, event_id, status from acuse.stage(cast(cast(:request as text) as jsonb)) order by ref"
)


@dataclass(frozen=True, slots=True)
class Wish:
    """One item of a request, with the setting that it is said in."""

    tenant: str
    account: str
    action: str
    target: str
    payload: int
    key: str
    workflow: str | None = None
    flow_version: str | None = None
    approval: UUID | None = None
    ordering_key: str | None = None
    not_after: datetime | None = None
    on_settled: str | None = None
    distinct: bool = False
    after: tuple[UUID, ...] = ()
    succeeds: UUID | None = None

    @property
    def body(self) -> bytes:
        return body(self.action, self.target, {"n": self.payload})

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.body).digest()

    def item(self, refs: Sequence[int] = ()) -> dict[str, Any]:
        """The item as the function takes it; `refs` are earlier items that it needs as well."""
        said = {
            "effect_key": None if self.succeeds else self.key,
            "account": self.account,
            "action": self.action,
            "target": self.target,
            "body": self.body.decode(),
            "approval": _hex(self.approval),
            "ordering_key": self.ordering_key,
            "not_after": None if self.not_after is None else self.not_after.isoformat(),
            "on_settled": self.on_settled,
            "distinct": self.distinct,
            "after": [*({"id": _hex(one)} for one in self.after), *({"ref": ref} for ref in refs)],
            "succeeds": _hex(self.succeeds),
        }
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Answer:
    """One row of the answer; `ref` -1 is the event's."""

    ref: int
    outcome: str
    operation: UUID | None
    event: UUID | None
    status: str | None


def stage(connection: Connection, wish: Wish) -> Answer:
    """Stage one wish."""
    [answer] = _ask(connection, _setting(wish) | {"items": [wish.item()]})
    return answer


def publish(
    connection: Connection, name: str, key: str | None, said: int, wishes: Sequence[Wish], refs: Mapping[int, Sequence[int]]
) -> list[Answer]:
    """Publish an event that makes the wishes, of one tenant and workflow; `refs` says which items need which earlier ones."""
    event = {"name": name, "body": json.dumps({"n": said})} | ({} if key is None else {"key": key})
    items = [wish.item(refs.get(at, ())) for at, wish in enumerate(wishes)]
    return _ask(connection, _setting(wishes[0]) | {"event": event, "items": items})


def expected(seen: Snapshot, wish: Wish) -> tuple[str, set[UUID]]:
    """Return what staging must answer, and the operations that it may name; none for `created`."""
    key, generation, rows = wish.key, 0, list(seen.operations.values())
    if wish.succeeds is not None:
        old = seen.operations.get(wish.succeeds)
        if old is None or old.tenant != wish.tenant or old.status != "rejected":
            return "not_rejected", {wish.succeeds}
        if (old.action, old.target) != (wish.action, wish.target):
            return "not_rejected", {wish.succeeds}
        key, generation = old.effect_key, old.generation + 1
    if wish.approval is not None and not _bound(seen, wish):
        return "approval_mismatch", set()
    if any(one not in seen.operations or seen.operations[one].tenant != wish.tenant for one in wish.after):
        return "dependency_missing", set()
    alike = [one for one in rows if _alike(one, wish)]
    if wish.succeeds is None:
        others = {one.id for one in alike if one.in_the_air and (one.effect_key, one.generation) != (key, generation)}
        if others:
            return "in_doubt", others
    for one in rows:
        if (one.tenant, one.effect_key, one.generation) == (wish.tenant, key, generation):
            same = one.digest == wish.digest.hex() and one.account == wish.account
            return "same" if same else "conflict", {one.id}
    slot = {one.id for one in alike if not one.final and one.digest == wish.digest.hex()}
    return ("in_doubt", slot) if slot else ("created", set())


def _alike(one: Operation, wish: Wish) -> bool:
    if wish.workflow is None or wish.distinct or one.deliberate:
        return False
    return (one.tenant, one.workflow_id, one.action, one.target) == (wish.tenant, wish.workflow, wish.action, wish.target)


def _bound(seen: Snapshot, wish: Wish) -> bool:
    approval = seen.approvals.get(wish.approval) if wish.approval else None
    return approval is not None and (approval.tenant, approval.action, approval.target, approval.digest) == (
        wish.tenant,
        wish.action,
        wish.target,
        wish.digest.hex(),
    )


def _setting(wish: Wish) -> dict[str, Any]:
    setting = {"tenant": wish.tenant, "workflow": wish.workflow, "flow_version": wish.flow_version}
    return {name: value for name, value in setting.items() if value is not None}


def _ask(connection: Connection, request: dict[str, Any]) -> list[Answer]:
    return [Answer(*row) for row in connection.execute(_STAGE, {"request": json.dumps(request)})]


def _hex(value: UUID | None) -> str | None:
    return None if value is None else value.hex
