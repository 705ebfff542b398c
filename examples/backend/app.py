"""The backend's endpoints. What one of them stages stands and falls with the session of its request."""

from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

from fastapi import Body, Depends, FastAPI, Header, HTTPException, Path
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from acuse import Approvals, Outbox
from acuse.bridges.fastapi import Bound, answer_for_refusals, bound
from examples.backend import cases
from examples.backend.tables import AgentRun, Case, Receipt

__all__ = ["make_app"]

_T = TypeVar("_T")


def make_app(sessions: sessionmaker[Session], outbox: Outbox, approvals: Approvals) -> FastAPI:
    """The app, on whatever sessions and outbox it is given."""

    def session() -> Iterator[Session]:
        with sessions.begin() as it:
            yield it

    Own = Annotated[Session, Depends(session, scope="function")]  # noqa: N806 - a type
    Staging = Annotated[Bound, Depends(bound(outbox, session))]  # noqa: N806 - a type
    Resolution = Annotated[str, Body(embed=True, min_length=1, max_length=500)]  # noqa: N806 - a type
    app = FastAPI(title="Onboarding")
    answer_for_refusals(app)

    @app.put("/cases/{case_id}")
    def open_case(
        own: Own,
        case_id: Annotated[str, Path(pattern=r"^[A-Za-z0-9-]{1,50}$")],
        owner: Annotated[str, Body(embed=True, pattern=r"^[^@\s]+@[^@\s]+$")],
    ) -> dict[str, Any]:
        return _shown(own, cases.opened(own, case_id, owner))

    @app.get("/cases/{case_id}")
    def show_case(own: Own, case_id: str) -> dict[str, Any]:
        return _shown(own, _found(own, Case, case_id))

    @app.post("/cases/{case_id}/close", status_code=202)
    def close_case(own: Own, staging: Staging, case_id: str, resolution: Resolution = "onboarded") -> dict[str, Any]:
        staged = cases.close(staging, _found(own, Case, case_id, lock=True), resolution)
        return {"operation_id": staged.operation_id}

    @app.post("/runs", status_code=202)
    def begin_run(own: Own, case: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
        return _told(cases.to_be_closed_by_an_agent(own, _found(own, Case, case)))

    @app.get("/runs/{run_id}")
    def show_run(own: Own, run_id: str) -> dict[str, Any]:
        return _told(_found(own, AgentRun, run_id))

    @app.get("/approvals")
    def list_approvals(own: Own) -> list[dict[str, Any]]:
        return [_asked(own, approvals, one.approval_id) for one in approvals.pending(own)]

    # The header stands for whoever is logged in: never take it from the body.
    @app.post("/approvals/{approval_id}")
    def decide(
        own: Own,
        approval_id: str,
        approve: Annotated[bool, Body()],
        x_person: Annotated[str, Header()],
        reason: Annotated[str | None, Body()] = None,
    ) -> dict[str, Any]:
        decision = approvals.decide(own, approval_id, approve, by=x_person, reason=reason)
        return {"state": decision.state, "decided_by": decision.decided_by, "won": decision.won}

    return app


def _found(session: Session, kind: type[_T], identity: str, *, lock: bool = False) -> _T:
    found = session.get(kind, identity, with_for_update=lock)
    if found is None:
        raise HTTPException(404, f"there is no {identity!a}")
    return found


def _shown(session: Session, case: Case) -> dict[str, Any]:
    receipts = session.scalars(select(Receipt).where(Receipt.case_id == case.id).order_by(Receipt.operation_id))
    told = [{"action": one.action, "state": one.state, "result_id": one.result_id} for one in receipts]
    return {"case": case.id, "owner": case.owner, "status": case.status, "receipts": told}


def _told(run: AgentRun) -> dict[str, Any]:
    return {"run": run.id, "case": run.case_id, "ended": run.ended, "said": run.said}


def _asked(session: Session, approvals: Approvals, approval_id: str) -> dict[str, Any]:
    one = approvals.get(session, approval_id)  # with its payload: a person should see what the yes is to
    return {
        "approval_id": one.approval_id,
        "action": one.action,
        "target": one.target,
        "case": one.workflow,
        "payload": one.payload,
    }
