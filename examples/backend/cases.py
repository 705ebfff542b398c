"""What is asked for of a case, in the session of a request."""

from sqlalchemy.orm import Session

from acuse import Staged
from acuse.bridges.fastapi import Bound
from acuse_adapters.crm.action import CloseCase
from examples.backend.receipts import SETTLED
from examples.backend.tables import AgentRun, Case

__all__ = ["close", "opened", "to_be_closed_by_an_agent"]


def opened(session: Session, case_id: str, owner: str) -> Case:
    """Open a case. Asked again, it is the same one as it was opened."""
    case = session.get(Case, case_id)
    if case is None:
        case = Case(id=case_id, owner=owner, status="open")
        session.add(case)
    return case


def close(outbox: Bound, case: Case, resolution: str) -> Staged:
    """Say that the CRM is to close a case too. Asked again, by whomever, it is the same operation: a case is closed once."""
    if case.status == "open":
        case.status = "closing"
    return outbox.stage(CloseCase(case=case.id, resolution=resolution), workflow=case.id, on_settled=SETTLED)


def to_be_closed_by_an_agent(session: Session, case: Case) -> AgentRun:
    """Ask for the run that closes a case. Asked again, it is the same run."""
    run_id = f"close-{case.id}"
    run = session.get(AgentRun, run_id)
    if run is None:
        run = AgentRun(id=run_id, case_id=case.id, task=f"Close the onboarding case {case.id}")
        session.add(run)
    return run
