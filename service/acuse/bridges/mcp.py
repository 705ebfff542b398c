"""An MCP server that offers the registered actions and the state of operations, and nothing else.

Whose tenant it is, which workflow, and under which approval, the host says when it starts the server; no argument of a tool does.
Within that workflow the same content is the same effect: a client that calls again, for whatever reason, is told what is there.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from acuse import __version__
from acuse.agents import Outcome, ToolAnswer, words
from acuse.agents.asking import GRANTED, PENDING, refusal
from acuse.approval import AsyncApprovals
from acuse.errors import AcuseError, ConfigurationError, IntakeError, NotFound
from acuse.intent import Action, ActionCatalog
from acuse.ledger import AsyncLedger
from acuse.outbox import AsyncOutbox, Staged
from acuse.store.caller import AsyncCaller

__all__ = ["STATUS_TOOL", "Standing", "tool_name", "tools_server"]

STATUS_TOOL: Final = "operation_status"

_STATUS: Final = types.Tool(
    name=STATUS_TOOL,
    description="Says what became of an operation: confirmed with its receipt, rejected, in progress, or unknown.",
    input_schema={
        "type": "object",
        "properties": {"operation_id": {"type": "string", "description": "op_…, from an earlier answer"}},
        "required": ["operation_id"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the host fixes. approval: one that it has, of a pattern as a rule. asks: a person, for each effect. Neither: none."""

    tenant: str
    workflow: str
    approval: str | None = None
    asks: bool = False
    wait_seconds: float = 10.0


def tool_name(action: type[Action]) -> str:
    """The tool of an action: model providers allow no dots."""
    return action.declared.name.replace(".", "_")


def tools_server(
    sessions: Callable[[], AbstractAsyncContextManager[AsyncCaller]],
    ledger: AsyncLedger,
    catalog: ActionCatalog,
    standing: Standing,
) -> Server[Any]:
    """Return the server. sessions: `engine.begin` of an asynchronous engine; ledger: of the same tenant.

    Raises `ConfigurationError` for actions whose tools would have the same name.
    """
    actions = {tool_name(action): action for action in catalog}
    if len(actions) < len(catalog) or STATUS_TOOL in actions:
        raise ConfigurationError("two actions would have the same tool name; rename one of them")
    desk = _Desk(sessions, ledger, AsyncOutbox(catalog=catalog), AsyncApprovals(catalog), standing)
    offered = [*(_tool(action) for action in actions.values()), _STATUS]

    async def list_tools(_: ServerRequestContext[Any], __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=offered)

    async def call_tool(_: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        if params.name == STATUS_TOOL:
            return _result(await desk.status(given))
        action = actions.get(params.name)
        return _result(await desk.carry_out(action, given) if action else _no_tool(params.name))

    return Server("acuse", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


class _Desk:
    def __init__(
        self,
        sessions: Callable[[], AbstractAsyncContextManager[AsyncCaller]],
        ledger: AsyncLedger,
        outbox: AsyncOutbox,
        approvals: AsyncApprovals,
        standing: Standing,
    ) -> None:
        self._sessions, self._ledger, self._outbox, self._approvals, self._standing = (
            sessions,
            ledger,
            outbox,
            approvals,
            standing,
        )

    async def status(self, given: dict[str, Any]) -> ToolAnswer:
        if set(given) != {"operation_id"} or not isinstance(given["operation_id"], str):
            return words.not_done("", "operation_status takes one argument, operation_id")
        try:
            return words.of_operation("", await self._ledger.get(given["operation_id"]))
        except (IntakeError, NotFound) as error:
            return words.not_done("", str(error))

    async def carry_out(self, action: type[Action], given: dict[str, Any]) -> ToolAnswer:
        try:
            said = action.model_validate_json(json.dumps(given))
        except ValueError as error:  # pydantic's
            return words.not_sent("", f"the arguments do not fit {action.declared.name}: {_first_line(error)}")
        call = f"mcp-{hashlib.sha256(said.effect().body()).hexdigest()[:32]}"
        try:
            async with self._sessions() as session:
                staged = await self._staged(session, said, call)
        except AcuseError as error:
            return words.not_sent("", str(error).rstrip("."))
        if isinstance(staged, ToolAnswer):
            return staged
        try:
            record = await self._ledger.wait(staged.operation_id, self._standing.wait_seconds)
        except Exception:  # noqa: BLE001 - it is staged, whatever keeps us from reading it
            return words.unreadable("", staged.operation_id)
        how = "" if staged.created else "This was asked for before, and nothing was sent again."
        return words.of_operation("", record, how=how)

    async def _staged(self, session: AsyncCaller, said: Action, call: str) -> Staged | ToolAnswer:
        tenant, workflow, approval = self._standing.tenant, self._standing.workflow, self._standing.approval
        if self._standing.asks:
            asked = await self._approvals.request(session, said, workflow=workflow, call=call, by="acuse mcp", tenant=tenant)
            if asked.state not in (PENDING, GRANTED):
                return words.not_sent("", refusal(asked.state))
            approval = asked.approval_id
        return await self._outbox.stage(session, said, workflow=workflow, call=call, approval=approval, tenant=tenant)


def _tool(action: type[Action]) -> types.Tool:
    about = (action.__doc__ or "").strip() or action.declared.name
    return types.Tool(name=tool_name(action), description=about, input_schema=action.model_json_schema())


def _result(answer: ToolAnswer) -> types.CallToolResult:
    facts = {"outcome": answer.outcome.value, "operation_id": answer.operation_id}
    content: list[Any] = [types.TextContent(type="text", text=answer.content)]
    return types.CallToolResult(content=content, structured_content=facts, is_error=answer.is_error)


def _no_tool(name: str) -> ToolAnswer:
    return ToolAnswer("", Outcome.NOT_SENT, f"Not sent: there is no tool {name!a}. Nothing was done.", is_error=True)


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
