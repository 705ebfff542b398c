"""What can be wanted of the ticketing system."""

from typing import Annotated, Final

from pydantic import Field

from acuse.intent import Action
from acuse_adapters.port.reference import Reference

__all__ = ["ACTIONS", "CommentTicket", "CreateTicket"]


class CreateTicket(Action, name="ticket.create.v1", target="reference"):
    """Open a ticket.

    reference: the host's own name for what the ticket is about (`case-318`). requester: who asks, as the ticketing system
    knows them; left out, the account's own user.
    """

    reference: Reference
    subject: Annotated[str, Field(min_length=1, max_length=250, pattern=r"\S")]
    description: Annotated[str, Field(max_length=60_000)] = ""
    requester: Annotated[str, Field(min_length=1, max_length=250)] | None = None


class CommentTicket(Action, name="ticket.comment.v1", target="ticket"):
    """Add a comment to a ticket. ticket: the id that the ticketing system gave it."""

    ticket: Reference
    body: Annotated[str, Field(min_length=1, max_length=60_000, pattern=r"\S")]


ACTIONS: Final[tuple[type[Action], ...]] = (CreateTicket, CommentTicket)
