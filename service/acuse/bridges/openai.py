"""OpenAI's SDK (Chat Completions) as the model of an `AgentLoop`."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from openai import OpenAI

from acuse.agents import Message
from acuse.agents.openai import openai_calls, openai_messages
from acuse.bridges.loop import Decision

__all__ = ["OpenAIModel"]

_GOES_BACK: Final = {"role", "content", "refusal", "tool_calls"}
"""What an assistant message may hold when it is sent back; the answer has more."""


class OpenAIModel:
    """Asks Chat Completions. tools: as the API takes them. system: the first message. more: further arguments of `create`.

    Asking twice costs money and nothing else, so the client's own retries may stay on.
    """

    def __init__(
        self,
        client: OpenAI,
        *,
        model: str,
        tools: Iterable[dict[str, Any]],
        system: str | None = None,
        **more: Any,  # noqa: ANN401 - the API's own
    ) -> None:
        self._client = client
        self._first = [] if system is None else [{"role": "system", "content": system}]
        self._how: dict[str, Any] = {"model": model, "tools": list(tools), **more}

    def __call__(self, messages: Sequence[Message]) -> Decision:
        """Ask for the next message. Raises the SDK's errors; then nothing was decided."""
        said_so_far: Any = [*self._first, *openai_messages(messages)]
        reply = self._client.chat.completions.create(messages=said_so_far, **self._how)
        message = reply.choices[0].message
        said = message.model_dump(mode="json", include=_GOES_BACK, exclude_none=True)
        used = None if reply.usage is None else reply.usage.total_tokens
        return Decision(json.dumps(said, ensure_ascii=False), tuple(openai_calls(said)), message.content or "", used)
