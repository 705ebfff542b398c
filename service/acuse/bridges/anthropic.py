"""Anthropic's SDK as the model of an `AgentLoop`."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from anthropic import Anthropic
from anthropic.types import Message as Reply

from acuse.agents import Message
from acuse.agents.anthropic import anthropic_calls, anthropic_messages
from acuse.bridges.loop import Decision

__all__ = ["AnthropicModel"]


class AnthropicModel:
    """Asks the Messages API. tools: as the API takes them. more: further arguments of `messages.create`, such as `system`.

    Asking twice costs money and nothing else, so the client's own retries may stay on. A stream is not offered: a decision is
    stored whole or not at all.
    """

    def __init__(
        self,
        client: Anthropic,
        *,
        model: str,
        max_tokens: int,
        tools: Iterable[dict[str, Any]],
        **more: Any,  # noqa: ANN401 - the API's own
    ) -> None:
        self._client = client
        self._how: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "tools": list(tools), **more}

    def __call__(self, messages: Sequence[Message]) -> Decision:
        """Ask for the next message. Raises the SDK's errors; then nothing was decided."""
        said_so_far: Any = anthropic_messages(messages)
        reply: Reply = self._client.messages.create(messages=said_so_far, **self._how)
        # What the API may add and this SDK does not know comes along: thinking must go back as it came.
        content = [block.model_dump(mode="json", exclude_unset=True) for block in reply.content]
        said = {"role": "assistant", "content": content}
        text = "".join(block["text"] for block in content if block.get("type") == "text")
        return Decision(json.dumps(said, ensure_ascii=False), tuple(anthropic_calls(said)), text, _window(reply))


def _window(reply: Reply) -> int:
    usage = reply.usage
    read = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return usage.input_tokens + read + usage.output_tokens
