"""FastAPI for real: what an endpoint stages stands and falls with the request's session; the answer comes after the commit."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Header
from httpx import ASGITransport, AsyncClient
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from acuse import AsyncOutbox, Effect, Outbox
from acuse.bridges.fastapi import AsyncBound, Bound, answer_for_refusals, bound
from acuse.errors import ApprovalError, NotFound
from acuse.store.engine import async_engine, sync_engine


def tenant_of_request(x_tenant: Annotated[str, Header()] = "acme") -> str:
    return x_tenant


def close(case: str, **payload: object) -> Effect:
    return Effect(action="crm.close_case.v1", target=case, payload={"resolution": "done", **payload})


@pytest.fixture
def engine(fresh_database_url: str) -> Iterator[Engine]:
    made = sync_engine(fresh_database_url)
    yield made
    made.dispose()


@pytest.fixture
def app(engine: Engine) -> FastAPI:
    def session() -> Iterator[Session]:
        with Session(engine) as it, it.begin():
            yield it

    app = FastAPI()
    answer_for_refusals(app)
    staging = bound(Outbox(), session, tenant=tenant_of_request)

    @app.post("/cases/{case}/close")
    def close_case(
        case: str,
        outbox: Annotated[Bound, Depends(staging)],
        own: Annotated[Session, Depends(session, scope="function")],
        resolution: str = "done",
        fail: bool = False,
    ) -> dict[str, Any]:
        own.execute(text("create table if not exists closed (id text primary key)"))
        own.execute(text("insert into closed values (:case) on conflict do nothing"), {"case": case})
        staged = outbox.stage(close(case, resolution=resolution), effect_key=f"close-{case}")
        if fail:
            raise RuntimeError("after both were written")
        return {"operation": staged.operation_id, "created": staged.created}

    return app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(transport=ASGITransport(app, raise_app_exceptions=False), base_url="http://host") as it:
        yield it


async def test_the_change_and_its_operation_are_in_the_sessions_one_transaction(client: AsyncClient, engine: Engine) -> None:
    # When a request changes something and stages
    answer = (await client.post("/cases/1/close", headers={"x-tenant": "initech"})).json()
    # Then both are there, for the tenant that asked
    assert answer["created"]
    with engine.connect() as connection:
        assert connection.execute(text("select tenant, target from acuse.operation")).all() == [("initech", "1")]
        assert connection.execute(text("select id from closed")).scalars().all() == ["1"]
    # And said again it is the same one
    again = (await client.post("/cases/1/close", headers={"x-tenant": "initech"})).json()
    assert again == {"operation": answer["operation"], "created": False}


async def test_a_request_that_fails_leaves_neither(client: AsyncClient, engine: Engine) -> None:
    await client.post("/cases/0/close")
    assert (await client.post("/cases/2/close", params={"fail": True})).status_code == 500
    with engine.connect() as connection:
        assert connection.execute(text("select target from acuse.operation")).scalars().all() == ["0"]
        assert connection.execute(text("select id from closed")).scalars().all() == ["0"]


async def test_a_refusal_is_an_answer_and_not_a_crash(client: AsyncClient) -> None:
    first = (await client.post("/cases/3/close")).json()
    conflict = await client.post("/cases/3/close", params={"resolution": "other"})
    assert (conflict.status_code, conflict.json()["operation_id"]) == (409, first["operation"])
    refused = await client.post(f"/cases/{'x' * 300}/close")
    assert (refused.status_code, refused.json()["error"]) == (422, "InvalidField")


async def test_what_is_not_there_and_an_approval_that_is_none_any_more_are_answers_too(app: FastAPI, client: AsyncClient) -> None:
    @app.post("/{what}")
    def fail(what: str) -> None:
        raise {
            "gone": NotFound(what="approval", id="apr_1"),
            "late": ApprovalError(reason="it has expired", approval_id="apr_2", state="expired"),
        }[what]

    gone, late = await client.post("/gone"), await client.post("/late")
    assert (gone.status_code, gone.json()["error"]) == (404, "NotFound")
    assert (late.status_code, late.json()["approval_id"], late.json()["state"]) == (409, "apr_2", "expired")


async def test_the_asynchronous_outbox_is_awaited_on_an_asynchronous_session(fresh_database_url: str, engine: Engine) -> None:
    made = async_engine(fresh_database_url)

    async def session() -> AsyncIterator[AsyncSession]:
        async with AsyncSession(made) as it, it.begin():
            yield it

    app = FastAPI()

    @app.post("/close")
    async def close_case(outbox: Annotated[AsyncBound, Depends(bound(AsyncOutbox(), session))]) -> str:
        return (await outbox.stage(close("4"), effect_key="close-4")).operation_id

    async with AsyncClient(transport=ASGITransport(app), base_url="http://host") as client:
        operation = (await client.post("/close")).json()
    await made.dispose()
    with engine.connect() as connection:
        assert (
            connection.execute(text("select 'op_' || replace(id::text, '-', '') from acuse.operation")).scalar_one() == operation
        )


async def test_an_answer_is_sent_after_the_commit(engine: Engine) -> None:
    # Given a session whose commit fails
    def session() -> Iterator[Session]:
        with Session(engine) as it:
            yield it
            raise RuntimeError("the commit failed")

    app = FastAPI()

    @app.post("/close")
    def close_case(outbox: Annotated[Bound, Depends(bound(Outbox(), session))]) -> str:
        return outbox.stage(close("5"), effect_key="close-5").operation_id

    # Then the caller is not told that it was done
    async with AsyncClient(transport=ASGITransport(app, raise_app_exceptions=False), base_url="http://host") as client:
        assert (await client.post("/close")).status_code == 500
