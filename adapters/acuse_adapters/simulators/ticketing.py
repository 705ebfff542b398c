"""A ticketing system: an Idempotency-Key that expires, and a search that lags.

    POST /api/{account}/tickets                        201 {"ticket": …} | 400 | 409 | 422
    GET  /api/{account}/tickets?external_id=           200 {"tickets": […]}, `search_lag_seconds` behind
    GET  /api/{account}/tickets/{id}                   200 {"ticket": …} | 404, strong
    POST /api/{account}/tickets/{id}/comments          201 {"comment": …} | 400 | 404 | 409 | 422
    GET  /api/{account}/tickets/{id}/comments?external_id=   200 {"comments": […]}, lagging | 404

With a key, the header `x-idempotency-lookup` says `miss` (carried out) or `hit` (the stored success once more). Same key,
other request: 400 `IdempotentRequestError`. Same key while the first is still running: 409 `concurrent`. Only successes
are stored. A key belongs to its account and lives `key_retention_seconds`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from acuse_adapters.simulators.provider import NOT_FOUND
from acuse_adapters.simulators.simulation import Simulation
from acuse_adapters.simulators.truth import Row
from acuse_adapters.simulators.wire import Answer, Reply, Request
from acuse_adapters.simulators.write import Write, carry_out

__all__ = ["Ticketing"]

_ON_REPEAT = Answer(422, {"error": "DuplicateValue", "reason": "this record was received before"})
_OTHER_BODY = Answer(400, {"error": "IdempotentRequestError", "reason": "the key was used with another request"})


class Ticketing:
    """The provider behind the HTTP door."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    async def serve(self, request: Request) -> Reply:
        """Route one request."""
        match (request.method, *request.segments):
            case ("POST", "api", account, "tickets"):
                return await carry_out(self._simulation, self._ticket_write(request, account))
            case ("POST", "api", account, "tickets", ticket_id, "comments"):
                return await carry_out(self._simulation, self._comment_write(request, account, ticket_id))
            case _:
                return self._look_up(request)

    def _look_up(self, request: Request) -> Answer:
        match (request.method, *request.segments):
            case ("GET", "api", account, "tickets"):
                return Answer(200, {"tickets": self._found("tickets", "ticket", f"{account}/", request)})
            case ("GET", "api", account, "tickets", ticket_id):
                row = self._ticket(account, ticket_id)
                return NOT_FOUND if row is None else Answer(200, {"ticket": row["ticket"]})
            case ("GET", "api", account, "tickets", ticket_id, "comments"):
                if self._ticket(account, ticket_id) is None:
                    return NOT_FOUND
                return Answer(200, {"comments": self._found("comments", "comment", f"{account}/{ticket_id}/", request)})
            case _:
                return NOT_FOUND

    def interfere(self, _: Request) -> Answer | None:
        """Nothing of its own."""
        return None

    def _ticket(self, account: str, ticket_id: str) -> dict[str, Any] | None:
        return self._simulation.truth.table("tickets").get(f"{account}/{ticket_id}")

    def _found(self, table: str, name: str, prefix: str, request: Request) -> list[dict[str, Any]]:
        lag = self._simulation.plan.search_lag_seconds
        external_id = request.query.get("external_id")
        return [
            row[name]
            for key, row in self._simulation.truth.table(table).items()
            if key.startswith(prefix)
            and external_id in {None, row[name].get("external_id")}
            and self._simulation.clock.passed(row["at"], lag)
        ]

    def _ticket_write(self, request: Request, account: str) -> Write:
        call = _Call.of(request, account)

        def make(number: int) -> Answer:
            if not _is_text(call.fields.get("subject")):
                return Answer(422, {"error": "RecordInvalid", "details": {"subject": "cannot be blank"}})
            at = self._simulation.clock.stamp()
            ticket_id = f"T-{len(self._simulation.truth.table('tickets')) + 1}"
            ticket = {**call.fields, "id": ticket_id, "status": "new", "created_at": at}
            row: Row = ("tickets", f"{account}/{ticket_id}", {"ticket": ticket, "at": at})
            return self._made(number, call, "ticket", ticket, target=ticket_id, row=row)

        return self._write(request, call, "ticket", make)

    def _comment_write(self, request: Request, account: str, ticket_id: str) -> Write:
        call = _Call.of(request, account)

        def make(number: int) -> Answer:
            if self._ticket(account, ticket_id) is None:
                return NOT_FOUND
            if not _is_text(call.fields.get("body")):
                return Answer(422, {"error": "RecordInvalid", "details": {"body": "cannot be blank"}})
            at = self._simulation.clock.stamp()
            comment_id = f"C-{len(self._simulation.truth.table('comments')) + 1}"
            comment = {**call.fields, "id": comment_id, "ticket_id": ticket_id, "created_at": at}
            row: Row = ("comments", f"{account}/{ticket_id}/{comment_id}", {"comment": comment, "at": at})
            return self._made(number, call, "comment", comment, target=ticket_id, row=row)

        return self._write(request, call, "comment", make)

    def _made(self, number: int, call: _Call, kind: str, made: dict[str, Any], *, target: str, row: Row) -> Answer:
        body = {kind: made}
        stored = {"digest": call.digest, "status": 201, "body": body, "at": made["created_at"]}
        self._simulation.record(
            request=number,
            marker=call.marker,
            kind=kind,
            id=made["id"],
            account=call.account,
            target=target,
            rows=(row,) if call.slot is None else (row, ("keys", call.slot, stored)),
        )
        return Answer(201, body)

    def _write(self, request: Request, call: _Call, kind: str, make: Callable[[int], Answer]) -> Write:
        slot = call.slot

        def apply(number: int) -> Answer:
            if slot is None:
                return make(number)
            stored = self._stored(slot)
            if stored is None:
                return _looked_up(make(number), "miss")
            if stored["digest"] != call.digest:
                return _OTHER_BODY
            return _looked_up(Answer(stored["status"], stored["body"]), "hit")

        def forget_key() -> None:
            if slot is not None:
                self._simulation.truth.commit(rows=(("keys", slot, None),))

        return Write(request, call.account, call.marker, kind, apply, _ON_REPEAT, slot, forget_key)

    def _stored(self, slot: str) -> dict[str, Any] | None:
        stored = self._simulation.truth.table("keys").get(slot)
        if stored is None or self._simulation.clock.passed(stored["at"], self._simulation.plan.key_retention_seconds):
            return None
        return stored


@dataclass(frozen=True)
class _Call:
    """What the key and the marker of a write are: the marker is its external id, else its key."""

    account: str
    fields: dict[str, Any]
    marker: str | None
    slot: str | None
    digest: str

    @classmethod
    def of(cls, request: Request, account: str) -> _Call:
        key = request.headers.get("idempotency-key")
        fields = request.json_object()
        external_id = fields.get("external_id")
        return cls(
            account=account,
            fields=fields,
            marker=external_id if isinstance(external_id, str) and external_id else key,
            slot=None if key is None else f"{account}/{key}",
            digest=hashlib.sha256(request.path.encode() + b"\0" + request.body).hexdigest(),
        )


def _looked_up(answer: Answer, lookup: str) -> Answer:
    return Answer(answer.status, answer.body, {**answer.headers, "x-idempotency-lookup": lookup})


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""
