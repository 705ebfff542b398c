"""FastAPI: a dependency that stages in the request's own session, and answers for what the outbox refuses.

Which moment commits decides what the caller may believe. A dependency with `yield` runs its second half after the answer was
sent, unless it is asked for with `scope="function"`: then a commit that fails is a 500 and not a 200 over nothing.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias, overload

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from acuse.bridges.bound import AsyncBound, Bound
from acuse.errors import AcuseError, ApprovalError, EffectConflict, InDoubt, IntakeError, NotFound, RetryTransaction
from acuse.outbox import AsyncOutbox, Outbox

__all__ = ["AsyncBound", "Bound", "answer_for_refusals", "bound"]

_STATUS: Final[Mapping[type[AcuseError], int]] = {
    IntakeError: 422,
    NotFound: 404,
    EffectConflict: 409,
    InDoubt: 409,
    ApprovalError: 409,
    RetryTransaction: 503,
}


@overload
def bound(
    outbox: Outbox, session: Callable[..., Any], *, tenant: Callable[..., str | None] | None = None
) -> Callable[..., Bound]: ...
@overload
def bound(
    outbox: AsyncOutbox, session: Callable[..., Any], *, tenant: Callable[..., str | None] | None = None
) -> Callable[..., AsyncBound]: ...
def bound(
    outbox: Outbox | AsyncOutbox, session: Callable[..., Any], *, tenant: Callable[..., str | None] | None = None
) -> Callable[..., Bound | AsyncBound]:
    """Return a dependency: the outbox on the session that `session` gives to the same request.

    session, tenant: dependencies of yours. FastAPI calls each once per request, so that the endpoint and the outbox hold the same
    session; whose tenant it is comes from who is logged in, never from the body.
    """

    Given: TypeAlias = Annotated[Any, Depends(session, scope="function")]
    Whose: TypeAlias = Annotated[str | None, Depends(tenant or _no_tenant)]

    def bind(caller: Given, whose: Whose) -> Bound | AsyncBound:
        return AsyncBound(outbox, caller, whose) if isinstance(outbox, AsyncOutbox) else Bound(outbox, caller, whose)

    return bind


def answer_for_refusals(app: FastAPI) -> None:
    """Let `app` answer for what the outbox and approvals refuse.

    422 for what cannot be accepted; 404 for what is not there, or is another tenant's; 409 for a conflict, a doubt, and an
    approval that is not what it would have to be; 503 where the caller may try again.
    """
    for kind, status in _STATUS.items():
        app.add_exception_handler(kind, _answer(status))


def _answer(status: int) -> Callable[[Request, Exception], JSONResponse]:
    def answer(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, AcuseError)
        said: dict[str, object] = {"error": type(error).__name__, "detail": str(error)}
        if isinstance(error, EffectConflict | InDoubt):
            said["operation_id"] = error.operation_id
        if isinstance(error, ApprovalError):
            said |= {"approval_id": error.approval_id, "state": error.state}
        return JSONResponse(said, status, {"Retry-After": "1"} if isinstance(error, RetryTransaction) else None)

    return answer


def _no_tenant() -> str | None:
    return None
