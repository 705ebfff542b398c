"""What the agent may do, and what each tool risks."""

from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from acuse.agents import Need, NotDone, Risk, Tools
from acuse_adapters.crm.action import CloseCase
from acuse_adapters.email.action import SendEmail
from examples.backend.receipts import SETTLED
from examples.backend.tables import Case

__all__ = ["DESCRIBED", "make_tools"]

DESCRIBED: list[dict[str, Any]] = [
    {
        "name": "read_case",
        "description": "Read a case: its owner's address and its status.",
        "input_schema": {"type": "object", "properties": {"case": {"type": "string"}}, "required": ["case"]},
    },
    {"name": "close_case", "description": "Close a case in the CRM.", "input_schema": CloseCase.model_json_schema()},
    {"name": "send_email", "description": "Send an email.", "input_schema": SendEmail.model_json_schema()},
]
"""The tools as a model is told of them."""


def make_tools(sessions: sessionmaker[Session]) -> Tools:
    """The tools, with the tables that they read."""
    tools = Tools()

    @tools.read_only(risk=Risk.LOW, why="it shows what the agent's own backend knows")
    def read_case(case: str) -> dict[str, str]:
        with sessions() as session:
            known = session.get(Case, case)
            if known is None:
                raise NotDone(f"there is no case {case!a}")
            return {"case": known.id, "owner": known.owner, "status": known.status}

    tools.effect(
        "close_case",
        action=CloseCase,
        risk=Risk.MEDIUM,
        why="a closed case leaves everybody's list; it can be opened again",
        approval=Need.NOT_NEEDED,
        on_settled=SETTLED,
    )
    tools.effect(
        "send_email",
        action=SendEmail,
        risk=Risk.HIGH,
        why="nobody can take an email back",
        approval=Need.REQUIRED,
        on_settled=SETTLED,
    )
    return tools
