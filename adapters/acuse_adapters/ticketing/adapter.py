"""The adapter for the ticketing system: `ticket.create.v1` and `ticket.comment.v1`."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from pydantic import ValidationError

from acuse.errors import ConfigurationError
from acuse.protocol import Accepted, Ambiguous, Figure, Finding, Outcome, Receipt, Refused
from acuse_adapters.http import Http, HttpAdapter, Reply
from acuse_adapters.port import Operation, action, found_among, segment
from acuse_adapters.ticketing.action import CommentTicket, CreateTicket
from acuse_adapters.ticketing.contract import VERIFIED_ON, comment_contract, create_contract
from acuse_adapters.ticketing.settings import TicketSettings

__all__ = ["TicketingAdapter"]

_OTHER_BODY: Final = "IdempotentRequestError"
_CONCURRENT: Final = "concurrent"


class TicketingAdapter(HttpAdapter):
    """Opens tickets and comments on them, each under a key that the provider remembers for a while."""

    provider: ClassVar[str] = "ticket"

    def __init__(self, settings: TicketSettings) -> None:
        super().__init__(str(settings.url))
        self._token = settings.token
        figures = _figures(settings)
        try:
            self.promise(TicketingAdapter.create, create_contract(settings.deadline, **figures))
            self.promise(TicketingAdapter.comment, comment_contract(settings.deadline, **figures))
        except ValidationError as error:
            raise ConfigurationError(
                "ACUSE_TICKET_KEY_RETENTION_SECONDS, ACUSE_TICKET_DEADLINE_SECONDS, ACUSE_TICKET_MAX_IN_FLIGHT_SECONDS: "
                + "; ".join(problem["msg"] for problem in error.errors(include_input=False, include_url=False))
            ) from None

    @classmethod
    def from_environment(cls) -> Self | None:
        """Return the adapter if `ACUSE_TICKET_URL` is set. Raises `ConfigurationError`."""
        settings = TicketSettings.read()
        return None if settings is None else cls(settings)

    def headers(self, account: str) -> Mapping[str, str]:
        """The token, the same for all accounts."""
        token = self._token.get_secret_value()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def read_refusal(self, reply: Reply) -> Outcome | None:
        """Tell apart what shares a status: 400 is a known key with another body, or a body that cannot be read; 409 likewise."""
        error = reply.field("error")
        if reply.status == 400 and error != _OTHER_BODY:
            return Refused("400", reply.reason)
        if reply.status == 409 and error != _CONCURRENT:
            return Ambiguous(f"409: a conflict, but nobody says with what. {reply.reason}")
        return None

    @action(CreateTicket, contract=create_contract())
    async def create(self, op: Operation[CreateTicket], http: Http) -> Outcome:
        """Open the ticket with our marker as its external id."""
        body = {**_wanted(op.payload), "external_id": op.id}
        reply = await http.post(_tickets_path(op), json=body, key=op.key)
        return _accepted(reply, "ticket", op.id)

    @create.look_up
    async def find_ticket(self, op: Operation[CreateTicket], http: Http) -> Finding:
        """Search for tickets with our marker. A search that finds none may only be late."""
        reply = await http.get(_tickets_path(op), params={"external_id": op.id})
        wanted = _wanted(op.payload)
        return found_among(_ours(reply.objects("tickets"), op.id), id="id", matches=lambda it: _agrees(it, wanted))

    @action(CommentTicket, contract=comment_contract())
    async def comment(self, op: Operation[CommentTicket], http: Http) -> Outcome:
        """Add the comment with our marker as its external id."""
        body = {"body": op.payload.body, "external_id": op.id}
        reply = await http.post(_comments_path(op), json=body, key=op.key)
        return _accepted(reply, "comment", op.id)

    @comment.look_up
    async def find_comment(self, op: Operation[CommentTicket], http: Http) -> Finding:
        """Search the ticket's comments for our marker. A ticket that is not there has none."""
        reply = await http.get(_comments_path(op), params={"external_id": op.id}, missing_ok=True)
        comments = [] if reply is None else _ours(reply.objects("comments"), op.id)
        return found_among(comments, id="id", matches=lambda it: it.get("body") == op.payload.body)


def _figures(settings: TicketSettings) -> dict[str, Figure]:
    figures = {
        "max_in_flight": settings.figure("max_in_flight_seconds", on=VERIFIED_ON),
        "retention": settings.figure("key_retention_seconds", on=VERIFIED_ON),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _accepted(reply: Reply, kind: str, marker: str) -> Outcome:
    if reply.text(kind, "external_id") != marker:
        return Ambiguous(f"the answer names another {kind} than ours")
    replayed = reply.headers.get("x-idempotency-lookup") == "hit"
    return Accepted(Receipt(reply.text(kind, "id"), None, reply.request_id, replayed))


def _wanted(payload: CreateTicket) -> dict[str, str]:
    wanted = {"subject": payload.subject, "description": payload.description}
    return wanted if payload.requester is None else {**wanted, "requester": payload.requester}


def _agrees(ticket: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return all(ticket.get(name) == value for name, value in wanted.items())


def _ours(objects: list[dict[str, Any]], marker: str) -> list[dict[str, Any]]:
    # A search may be fuzzy: only what carries exactly our marker counts.
    return [it for it in objects if it.get("external_id") == marker]


def _tickets_path(op: Operation[CreateTicket] | Operation[CommentTicket]) -> str:
    return f"/api/{segment(op.account)}/tickets"


def _comments_path(op: Operation[CommentTicket]) -> str:
    return f"{_tickets_path(op)}/{segment(op.payload.ticket)}/comments"
