"""Calls, answers and conversations in the form of OpenAI's Chat Completions API: plain dicts, without their library.

https://platform.openai.com/docs/guides/function-calling (read 2026-11-30): each call of an assistant message is answered by a
message of role `tool` with its id. There is no mark for an error, so the words of the answer say it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acuse.agents.answer import ToolAnswer
from acuse.agents.call import ToolCall
from acuse.agents.resumed import Message

__all__ = ["openai_calls", "openai_messages", "openai_results"]


def openai_calls(message: Mapping[str, Any]) -> list[ToolCall]:
    """The calls of an assistant message; the arguments stay the text that the model wrote."""
    calls = message.get("tool_calls") or ()
    return [ToolCall(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in calls]


def openai_results(answers: Iterable[ToolAnswer]) -> list[dict[str, Any]]:
    """The messages that answer a turn's calls."""
    return [_result(one.call_id, one.content) for one in answers]


def openai_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation of a run whose decisions were stored as the JSON of an assistant message."""
    return [_message(one) for one in messages]


def _message(one: Message) -> dict[str, Any]:
    if one.role == "tool":
        return _result(one.call_id, one.text)
    if one.role == "assistant":
        decided: dict[str, Any] = json.loads(one.text)
        return decided
    return {"role": "user", "content": one.text}


def _result(call_id: str | None, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}
