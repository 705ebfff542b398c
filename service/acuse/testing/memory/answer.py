"""Answering the statements that our faces run, out of memory."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from acuse.errors import ConfigurationError
from acuse.store.approval import FIND, GET
from acuse.store.approval_request import REQUEST
from acuse.store.caller import Row
from acuse.store.cancel import CANCEL, CANCEL_WORKFLOW, WITHDRAW
from acuse.store.decision import DECIDE, REVOKE
from acuse.store.grant import GRANT, GRANT_PATTERN
from acuse.store.message import SEND
from acuse.store.stage import STAGE
from acuse.store.statement import Statement
from acuse.testing.memory import approval, cancel
from acuse.testing.memory.stage import stage
from acuse.testing.memory.tables import Tables
from acuse.testing.memory.transaction import Transaction
from acuse.testing.message import HostMessage

__all__ = ["answer"]


def answer(tables: Tables, transaction: Transaction, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
    """Run a statement in a transaction. Raises `ConfigurationError` for one that needs a database."""
    known = _ANSWERS.get(statement.sql)
    if known is None:
        raise ConfigurationError(
            "this call needs a database: the outbox in memory knows staging, sending, approvals and cancelling; "
            "hand your own transaction to acuse_outbox(session)"
        )
    before, tables.transaction = tables.transaction, transaction
    try:
        return known(tables, values)
    finally:
        tables.transaction = before


def _send(tables: Tables, values: Mapping[str, Any]) -> list[Row]:
    whole = json.loads(values["message"])
    available_at = tables.now + timedelta(seconds=values["delay"])
    message = HostMessage(
        values["queue"], whole["actor"], tuple(whole["args"]), whole["kwargs"], whole["id"], False, available_at
    )
    tables.tell(message)
    return [(len(tables.messages),)]


_ANSWERS: Final[Mapping[str, Callable[[Tables, Mapping[str, Any]], list[Row]]]] = {
    STAGE.sql: lambda tables, values: stage(tables, values["request"]),
    SEND.sql: _send,
    REQUEST.sql: approval.request,
    DECIDE.sql: approval.decide,
    GRANT.sql: approval.grant,
    GRANT_PATTERN.sql: approval.grant_pattern,
    REVOKE.sql: approval.revoke,
    GET.sql: approval.get,
    FIND.sql: approval.find,
    CANCEL.sql: cancel.cancel,
    CANCEL_WORKFLOW.sql: cancel.cancel_workflow,
    WITHDRAW.sql: cancel.withdraw,
}
