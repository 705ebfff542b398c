"""The ticketing system: its actions, importable by a backend that only stages. The adapter is in `adapter`."""

from acuse_adapters.ticketing.action import ACTIONS, CommentTicket, CreateTicket

__all__ = ["ACTIONS", "CommentTicket", "CreateTicket"]
