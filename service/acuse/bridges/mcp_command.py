"""`acuse mcp`: the registered actions as tools of an MCP server on stdin and stdout."""

import argparse
import asyncio

from acuse.command.logging import configure_logging
from acuse.errors import ConfigurationError
from acuse.intent import ActionCatalog
from acuse.settings import load_settings
from acuse.store.engine import async_engine

__all__ = ["McpCommand", "mcp"]


class McpCommand:
    """The sub-command `mcp`."""

    name = "mcp"
    help = "offer the registered actions to an agent over MCP; tenant, workflow and approval are fixed here"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what the host fixes."""
        parser.add_argument("--tenant", required=True)
        parser.add_argument(
            "--workflow", required=True, help="within it the same content is the same effect, however often called"
        )
        approving = parser.add_mutually_exclusive_group(required=True)
        approving.add_argument("--approval", metavar="ID", help="apr_… that covers what will be called, of a pattern as a rule")
        approving.add_argument("--ask", action="store_true", help="ask a person for each effect; it waits until somebody decides")
        approving.add_argument("--without-approval", action="store_true", help="send what the agent says, and let nobody decide")
        parser.add_argument(
            "--wait", type=float, default=10.0, metavar="SECONDS", help="for the receipt, in each call (default 10)"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Serve until the client goes. Raises `ConfigurationError`."""
        try:
            from mcp.server.stdio import stdio_server  # noqa: PLC0415 - only who serves needs it

            from acuse.bridges.mcp import Standing, tools_server  # noqa: PLC0415
            from acuse.ledger import AsyncLedger  # noqa: PLC0415
        except ImportError as error:
            raise ConfigurationError(f"{error.name} is not installed; pip install 'acuse[mcp,worker]'") from error
        settings = load_settings()
        configure_logging(settings.log_format, settings.log_level)  # to stderr: stdout is the protocol's
        standing = Standing(arguments.tenant, arguments.workflow, arguments.approval, arguments.ask, arguments.wait)

        async def serve() -> None:
            engine = async_engine(settings.database_url, name="acuse mcp")
            try:
                ledger = AsyncLedger(engine, tenant=standing.tenant)
                server = tools_server(engine.begin, ledger, ActionCatalog.from_entry_points(), standing)
                async with stdio_server() as (reading, writing):
                    await server.run(reading, writing, server.create_initialization_options())
            finally:
                await engine.dispose()

        asyncio.run(serve())
        return 0


mcp = McpCommand()
