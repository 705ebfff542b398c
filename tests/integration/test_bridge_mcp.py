"""`acuse mcp` as a process, called by the real client library over its pipes."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client
from sqlalchemy import Engine, text
from stepper import drive, take, try_dispatch

from acuse import Approvals, Ledger, State

CLOSE = {"case": "case-1", "resolution": "done"}


class Client:
    """An agent's side, that says what it was told."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def names(self) -> set[str]:
        return {one.name for one in (await self._session.list_tools()).tools}

    async def schema(self, name: str) -> dict[str, Any]:
        [found] = [one for one in (await self._session.list_tools()).tools if one.name == name]
        return found.input_schema

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, str, str | None, bool]:
        """Outcome, words, operation, whether it is an error."""
        result = await self._session.call_tool(name, arguments)
        facts = result.structured_content
        return facts["outcome"], result.content[0].text, facts["operation_id"], result.is_error  # type: ignore[union-attr]


@pytest.fixture
def serve(database_url: str, tenant: str) -> Any:
    @asynccontextmanager
    async def served(*arguments: str, wait: float = 0) -> AsyncIterator[Client]:
        how = ["--tenant", tenant, "--workflow", "onboarding-42", "--wait", str(wait), *arguments]
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "acuse", "mcp", *how], env={**os.environ, "ACUSE_DATABASE_URL": database_url}
        )
        async with stdio_client(command) as (reading, writing), ClientSession(reading, writing) as session:
            await session.initialize()
            yield Client(session)

    return served


async def test_actions_and_the_state_of_operations_and_nothing_else(serve: Any, engine: Engine, tenant: str) -> None:
    async with serve("--without-approval") as client:
        # Given the registered actions, none of which lets the agent say whose tenant or approval it is
        assert {"crm_close_case_v1", "email_send_v1", "ticket_create_v1", "operation_status"} <= await client.names()
        fields = (await client.schema("crm_close_case_v1"))["properties"]
        assert not {"tenant", "workflow", "approval", "account"} & set(fields)
        # When it calls one twice, as clients do that lost an answer
        outcome, words, operation, wrong = await client.call("crm_close_case_v1", CLOSE)
        again = await client.call("crm_close_case_v1", CLOSE)
        # Then it is one operation, in true words
        assert (outcome, wrong) == ("in_progress", False)
        assert "Do not call again" in words
        assert again[2] == operation
        assert [one.operation_id for one in Ledger(engine, tenant=tenant).find().operations] == [operation]
        # And what became of it can be asked
        assert operation is not None
        drive(engine, operation, State.UNKNOWN)
        outcome, words, _, wrong = await client.call("operation_status", {"operation_id": operation})
        assert (outcome, wrong) == ("unknown", True)
        assert "Do not repeat it" in words


async def test_arguments_that_do_not_fit_and_operations_of_others_are_told_as_what_they_are(serve: Any, engine: Engine) -> None:
    async with serve("--without-approval") as client:
        outcome, words, _, wrong = await client.call("crm_close_case_v1", {"case": "case-1", "tenant": "other"})
        assert (outcome, wrong) == ("not_sent", True)
        assert "do not fit crm.close_case.v1" in words
        assert (await client.call("no_such_tool", {}))[0] == "not_sent"
        with engine.connect() as connection:
            of_others = connection.execute(
                text("select 'op_' || replace(id::text, '-', '') from acuse.operation limit 1")
            ).scalar()
        for given in ({"operation_id": of_others or f"op_{7:032x}"}, {"operation_id": "nonsense"}, {}):
            assert (await client.call("operation_status", given))[0] == "not_done"


async def test_with_ask_a_person_decides_and_the_agent_cannot(serve: Any, engine: Engine, tenant: str) -> None:
    async with serve("--ask") as client:
        outcome, words, operation, _ = await client.call("crm_close_case_v1", CLOSE)
        assert outcome == "waiting_for_approval"
        approvals = Approvals(tenant=tenant)
        with engine.begin() as connection:
            [pending] = approvals.pending(connection)
            approvals.decide(connection, pending.approval_id, False, by="ann")
        assert operation is not None
        try_dispatch(engine, take(engine, operation))
        # Then asking again changes nothing
        outcome, words, _, wrong = await client.call("crm_close_case_v1", CLOSE)
        assert (outcome, wrong) == ("not_sent", True)
        assert "denied" in words
