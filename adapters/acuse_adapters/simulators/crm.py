"""A CRM: natural upsert by external id, versions with If-Match, strongly consistent look-ups, the marker kept on a change.

    GET   /v1/{account}/cases/{case}                        200 case, ETag | 404 for ids that start with `missing-`
    PATCH /v1/{account}/cases/{case}                        200 case, ETag | 404 | 412 If-Match | 422
    GET   /v1/{account}/cases/{case}/changes?operation_id=  200 {"changes": [{operation_id, version, fields, at}]}
    PUT   /v1/{account}/cases/{case}/notes/{external_id}    201 | 200 {"note": …, "new": bool} | 404 | 422
    GET   /v1/{account}/cases/{case}/notes/{external_id}    200 {"note": …} | 404
    POST  /_sim/cases/{account}/{case}                      somebody else changes the case

A case that nobody has seen before is open, in version 1.
"""

from __future__ import annotations

from typing import Any

from acuse_adapters.simulators.provider import NOT_FOUND
from acuse_adapters.simulators.simulation import Simulation
from acuse_adapters.simulators.wire import Answer, Reply, Request
from acuse_adapters.simulators.write import Write, carry_out

__all__ = ["Crm"]

_ON_REPEAT = Answer(409, {"error": "already_processed", "reason": "this operation was received before"})


class Crm:
    """The provider behind the HTTP door."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    async def serve(self, request: Request) -> Reply:
        """Route one request."""
        match (request.method, *request.segments):
            case (_, "v1", _, "cases", case_id, *_) if case_id.startswith("missing-"):
                return NOT_FOUND
            case ("PATCH", "v1", account, "cases", case_id):
                return await carry_out(self._simulation, self._case_write(request, account, case_id))
            case ("PUT", "v1", account, "cases", case_id, "notes", external_id):
                return await carry_out(self._simulation, self._note_write(request, account, case_id, external_id))
            case _:
                return self._look_up(request)

    def _look_up(self, request: Request) -> Answer:
        match (request.method, *request.segments):
            case ("GET", "v1", account, "cases", case_id):
                return _case_answer(self._case(account, case_id))
            case ("GET", "v1", account, "cases", case_id, "changes"):
                return self._changes(account, case_id, request.query.get("operation_id"))
            case ("GET", "v1", account, "cases", case_id, "notes", external_id):
                note = self._simulation.truth.table("notes").get(f"{account}/{case_id}/{external_id}")
                return NOT_FOUND if note is None else Answer(200, {"note": note})
            case _:
                return NOT_FOUND

    def interfere(self, request: Request) -> Answer | None:
        """`POST /_sim/cases/{account}/{case}`: a change without a marker and without an effect of ours."""
        match (request.method, *request.segments[1:]):
            case ("POST", "cases", account, case_id):
                row = self._changed(account, case_id, request.json_object(), None)
                self._simulation.truth.commit(rows=(("cases", f"{account}/{case_id}", row),))
                return _case_answer(row["case"])
            case _:
                return None

    def _case(self, account: str, case_id: str) -> dict[str, Any]:
        case: dict[str, Any] = self._row(account, case_id)["case"]
        return case

    def _row(self, account: str, case_id: str) -> dict[str, Any]:
        fresh = {"id": case_id, "status": "open", "resolution": None, "version": 1, "operation_id": None}
        return self._simulation.truth.table("cases").get(f"{account}/{case_id}", {"case": fresh, "changes": []})

    def _changes(self, account: str, case_id: str, operation_id: str | None) -> Answer:
        changes = self._row(account, case_id)["changes"]
        wanted = [change for change in changes if operation_id in {None, change["operation_id"]}]
        return Answer(200, {"changes": wanted})

    def _changed(self, account: str, case_id: str, fields: dict[str, Any], operation_id: str | None) -> dict[str, Any]:
        row = self._row(account, case_id)
        version = row["case"]["version"] + 1
        change = {
            "operation_id": operation_id,
            "version": version,
            "fields": fields,
            "at": self._simulation.clock.stamp(),
        }
        case = {**row["case"], **fields, "id": case_id, "version": version, "operation_id": operation_id}
        return {"case": case, "changes": [*row["changes"], change]}

    def _case_write(self, request: Request, account: str, case_id: str) -> Write:
        fields = request.json_object()
        operation_id = fields.pop("operation_id", None)
        kind = "case_closed" if fields.get("status") == "closed" else "case_changed"

        def apply(number: int) -> Answer:
            refusal = self._case_refusal(request, account, case_id, fields, operation_id)
            if refusal is not None:
                return refusal
            row = self._changed(account, case_id, fields, operation_id)
            self._simulation.record(
                request=number,
                marker=operation_id,
                kind=kind,
                id=f"{case_id}@{row['case']['version']}",
                account=account,
                target=case_id,
                rows=(("cases", f"{account}/{case_id}", row),),
            )
            return _case_answer(row["case"])

        return Write(request, account, _text_or_none(operation_id), kind, apply, _ON_REPEAT)

    def _case_refusal(
        self, request: Request, account: str, case_id: str, fields: dict[str, Any], operation_id: object
    ) -> Answer | None:
        if not isinstance(fields.get("status", ""), str) or not fields:
            return Answer(422, {"error": "invalid", "reason": "body: needs a status (text) or other fields"})
        if operation_id is not None and not isinstance(operation_id, str):
            return Answer(422, {"error": "invalid", "reason": "operation_id: must be text"})
        version = self._case(account, case_id)["version"]
        wanted = request.headers.get("if-match")
        if wanted is not None and wanted.strip().removeprefix("W/").strip('"') not in {"*", str(version)}:
            return Answer(412, {"error": "version_mismatch", "version": version})
        return None

    def _note_write(self, request: Request, account: str, case_id: str, external_id: str) -> Write:
        text = request.json_object().get("text")
        key = f"{account}/{case_id}/{external_id}"

        def apply(number: int) -> Answer:
            if not isinstance(text, str) or not text:
                return Answer(422, {"error": "invalid", "reason": "text: must be a text that is not empty"})
            notes = self._simulation.truth.table("notes")
            known = notes.get(key)
            if known is not None and known["text"] == text:
                return Answer(200, {"note": known, "new": False})
            note: dict[str, Any] = {
                "id": f"N-{len(notes) + 1}" if known is None else known["id"],
                "external_id": external_id,
                "text": text,
                "version": 1 if known is None else known["version"] + 1,
            }
            self._simulation.record(
                request=number,
                marker=external_id,
                kind="note",
                id=note["id"],
                account=account,
                target=case_id,
                rows=(("notes", key, note),),
            )
            return Answer(201 if known is None else 200, {"note": note, "new": known is None})

        return Write(request, account, external_id, "note", apply, _ON_REPEAT)


def _case_answer(case: dict[str, Any]) -> Answer:
    return Answer(200, case, {"ETag": f'"{case["version"]}"'})


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
