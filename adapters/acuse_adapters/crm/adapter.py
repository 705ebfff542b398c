"""The adapter for the CRM: `crm.close_case.v1` and `crm.log_note.v1`."""

from collections.abc import Mapping
from typing import ClassVar, Final, Self

from acuse.protocol import Absent, Accepted, Ambiguous, Finding, Found, Outcome, Receipt, TargetState
from acuse_adapters.crm.action import CloseCase, LogNote
from acuse_adapters.crm.contract import VERIFIED_ON, close_case_contract, log_note_contract
from acuse_adapters.crm.settings import CrmSettings
from acuse_adapters.http import Http, HttpAdapter
from acuse_adapters.port import Operation, Pin, action, segment

__all__ = ["CrmAdapter"]

_NO_VERSION: Final = "0"
"""The version of a case that is not there. No case has it, so that one which appears meanwhile is not overwritten unseen."""


class CrmAdapter(HttpAdapter):
    """Closes cases and writes notes."""

    provider: ClassVar[str] = "crm"

    def __init__(self, settings: CrmSettings) -> None:
        super().__init__(str(settings.url))
        self._token = settings.token
        flight = settings.figure("max_in_flight_seconds", on=VERIFIED_ON)
        figures = {} if flight is None else {"max_in_flight": flight}
        self.promise(CrmAdapter.close_case, close_case_contract(settings.deadline, **figures))
        self.promise(CrmAdapter.log_note, log_note_contract(settings.deadline, **figures))

    @classmethod
    def from_environment(cls) -> Self | None:
        """Return the adapter if `ACUSE_CRM_URL` is set. Raises `ConfigurationError`."""
        settings = CrmSettings.read()
        return None if settings is None else cls(settings)

    def headers(self, account: str) -> Mapping[str, str]:
        """The token, the same for all accounts."""
        token = self._token.get_secret_value()
        return {"Authorization": f"Bearer {token}"} if token else {}

    @action(CloseCase, contract=close_case_contract())
    async def close_case(self, op: Operation[CloseCase], http: Http) -> Outcome:
        """Close the case as `prepare` saw it; one that somebody else has closed meanwhile is another version."""
        body = {**_wanted(op.payload), "operation_id": op.id}
        reply = await http.patch(_case_path(op), json=body, headers={"If-Match": f'"{op.pin["version"]}"'})
        if reply.text("operation_id") != op.id:
            return Ambiguous("the answer names another operation than ours")
        return Accepted(Receipt(reply.text("id"), reply.text("version"), reply.request_id))

    @close_case.prepare
    async def see_version(self, op: Operation[CloseCase], http: Http) -> Pin:
        """Pin the version that the close will be conditional on. That there is no such case is for the CRM to say, in `send`."""
        case = await http.get(_case_path(op), missing_ok=True)
        return {"version": _NO_VERSION if case is None else case.text("version")}

    @close_case.look_up
    async def find_change(self, op: Operation[CloseCase], http: Http) -> Finding:
        """Look for a change with our marker; without one, whether the case is still as we saw it."""
        # The case first: a change of ours that comes in between is found, and never taken for a change by somebody else.
        case = await http.get(_case_path(op), missing_ok=True)
        changes = await http.get(f"{_case_path(op)}/changes", params={"operation_id": op.id}, missing_ok=True)
        ours = [] if changes is None else [it for it in changes.objects("changes") if it.get("operation_id") == op.id]
        wanted = _wanted(op.payload)
        if ours:
            return Found(
                result_id=op.payload.case,
                content_matches=all(_agrees(it.get("fields"), wanted) for it in ours),
                copies=len(ours),
                result_version=str(ours[0]["version"]),
                all_ids=tuple(f"{op.payload.case}@{it['version']}" for it in ours),
            )
        version = _NO_VERSION if case is None else case.text("version")
        if version == op.pin["version"]:
            return Absent(target_unchanged=True)
        if case is not None and _agrees(case.json, wanted):
            return TargetState(version)
        return Absent(target_unchanged=False)

    @action(LogNote, contract=log_note_contract())
    async def log_note(self, op: Operation[LogNote], http: Http) -> Outcome:
        """Put the note under the operation's id."""
        reply = await http.put(_note_path(op), json={"text": op.payload.text})
        if reply.text("note", "external_id") != op.id:
            return Ambiguous("the answer names another note than ours")
        return Accepted(Receipt(reply.text("note", "id"), reply.text("note", "version"), reply.request_id))

    @log_note.look_up
    async def find_note(self, op: Operation[LogNote], http: Http) -> Finding:
        """Read the note with the operation's id. The target of this upsert is that note, and nobody else writes there."""
        reply = await http.get(_note_path(op), missing_ok=True)
        if reply is None:
            return Absent(target_unchanged=True)
        return Found(
            result_id=reply.text("note", "id"),
            content_matches=reply["note"]["text"] == op.payload.text,
            result_version=reply.text("note", "version"),
        )


def _wanted(payload: CloseCase) -> dict[str, str]:
    return {"status": "closed", "resolution": payload.resolution}


def _agrees(fields: object, wanted: Mapping[str, str]) -> bool:
    return isinstance(fields, Mapping) and all(fields.get(name) == value for name, value in wanted.items())


def _case_path(op: Operation[CloseCase] | Operation[LogNote]) -> str:
    return f"/v1/{segment(op.account)}/cases/{segment(op.payload.case)}"


def _note_path(op: Operation[LogNote]) -> str:
    return f"{_case_path(op)}/notes/{segment(op.id)}"
