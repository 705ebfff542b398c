"""Calls, answers and conversations in the form of Anthropic's Messages API: plain dicts, without their library.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls (read 2026-11-30): one `tool_result` for each
`tool_use`, all together in the next user message and before any text in it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acuse.agents.answer import ToolAnswer
from acuse.agents.call import ToolCall
from acuse.agents.resumed import Message

__all__ = ["anthropic_calls", "anthropic_messages", "anthropic_results"]


def anthropic_calls(message: Mapping[str, Any]) -> list[ToolCall]:
    """The calls of an assistant message: its `tool_use` blocks."""
    content = message.get("content", ())
    blocks = () if isinstance(content, str) else content
    return [ToolCall(block["id"], block["name"], block["input"]) for block in blocks if block.get("type") == "tool_use"]


def anthropic_results(answers: Iterable[ToolAnswer]) -> dict[str, Any]:
    """The next user message: one `tool_result` for each call."""
    return {"role": "user", "content": [_result(one.call_id, one.content, one.is_error) for one in answers]}


def anthropic_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation of a run whose decisions were stored as the JSON of an assistant message."""
    said: list[dict[str, Any]] = []
    open_results = False
    for one in messages:
        if one.role == "tool":
            result = _result(one.call_id, one.text, one.is_error)
            if open_results:
                said[-1]["content"].append(result)
            else:
                said.append({"role": "user", "content": [result]})
        elif one.role == "assistant":
            said.append(json.loads(one.text))
        else:
            said.append({"role": "user", "content": one.text})
        open_results = one.role == "tool"
    return said


def _result(call_id: str | None, content: str, is_error: bool) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
