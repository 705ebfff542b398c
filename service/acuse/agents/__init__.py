"""Agents on the ledger: a journal that resumes, and a gate that asks twice before a tool runs."""

from acuse.agents.answer import Outcome, ToolAnswer
from acuse.agents.call import ToolCall
from acuse.agents.errors import (
    CallAnswered,
    CallsUnanswered,
    FlowVersionMismatch,
    RunEnded,
    RunError,
    RunExists,
    RunLost,
    RunOwned,
    StaleRun,
    TurnsExhausted,
)
from acuse.agents.journal import AsyncJournal, Journal
from acuse.agents.keeping import AsyncKeeping, Keeping
from acuse.agents.resumed import Fact, Message, Resumed, StoredCall
from acuse.agents.run import Run, RunStatus

__all__ = [
    "AsyncJournal",
    "AsyncKeeping",
    "CallAnswered",
    "CallsUnanswered",
    "Fact",
    "FlowVersionMismatch",
    "Journal",
    "Keeping",
    "Message",
    "Outcome",
    "Resumed",
    "Run",
    "RunEnded",
    "RunError",
    "RunExists",
    "RunLost",
    "RunOwned",
    "RunStatus",
    "StaleRun",
    "StoredCall",
    "ToolAnswer",
    "ToolCall",
    "TurnsExhausted",
]
