"""Agents on the ledger: a journal that resumes, and a gate that asks twice before a tool runs."""

from acuse.agents.answer import Outcome, ToolAnswer
from acuse.agents.anthropic import anthropic_calls, anthropic_messages, anthropic_results
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
from acuse.agents.gate import AsyncToolGate, ToolGate
from acuse.agents.journal import AsyncJournal, Journal
from acuse.agents.keeping import AsyncKeeping, Keeping
from acuse.agents.nature import Nature, Need, Risk
from acuse.agents.openai import openai_calls, openai_messages, openai_results
from acuse.agents.resumed import Fact, Message, Resumed, StoredCall
from acuse.agents.run import Run, RunStatus
from acuse.agents.tool import NotDone, Tool, Tools

__all__ = [
    "AsyncJournal",
    "AsyncKeeping",
    "AsyncToolGate",
    "CallAnswered",
    "CallsUnanswered",
    "Fact",
    "FlowVersionMismatch",
    "Journal",
    "Keeping",
    "Message",
    "Nature",
    "Need",
    "NotDone",
    "Outcome",
    "Resumed",
    "Risk",
    "Run",
    "RunEnded",
    "RunError",
    "RunExists",
    "RunLost",
    "RunOwned",
    "RunStatus",
    "StaleRun",
    "StoredCall",
    "Tool",
    "ToolAnswer",
    "ToolCall",
    "ToolGate",
    "Tools",
    "TurnsExhausted",
    "anthropic_calls",
    "anthropic_messages",
    "anthropic_results",
    "openai_calls",
    "openai_messages",
    "openai_results",
]
