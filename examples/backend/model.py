"""The model: Anthropic's where there is a key, else a script that decides the same each time and needs no network."""

import json
import os
from collections.abc import Callable, Sequence

from acuse.agents import Message, anthropic_calls
from acuse.bridges.loop import Decision
from examples.backend.toolbox import DESCRIBED

__all__ = ["choose_model", "scripted", "words_of"]

Ask = Callable[[Sequence[Message]], Decision]

_SYSTEM = "You close onboarding cases. Read the case, close it, then tell its owner by email. Repeat no call that is in doubt."


def choose_model() -> Ask:
    """Anthropic's model if `ANTHROPIC_API_KEY` is set (`ANTHROPIC_MODEL` names another one), else the script."""
    if not os.environ.get("ANTHROPIC_API_KEY"):
        return scripted
    from anthropic import Anthropic  # noqa: PLC0415 - an optional package

    from acuse.bridges.anthropic import AnthropicModel  # noqa: PLC0415

    name = os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-4-5")
    return AnthropicModel(Anthropic(), model=name, max_tokens=2000, tools=DESCRIBED, system=_SYSTEM)


def scripted(messages: Sequence[Message]) -> Decision:
    """Read the case, close it, tell its owner; stop where something was refused, is in doubt or on its way."""
    case = messages[0].text.rsplit(" ", 1)[-1]
    answers = [one for one in messages if one.role == "tool"]
    if answers and (answers[-1].is_error or answers[-1].text.startswith("In progress")):
        return _said(f"I stopped. {answers[-1].text}")
    match len(answers):
        case 0:
            return _said("I look at the case.", "read_case", case=case)
        case 1:
            return _said("I close it.", "close_case", case=case, resolution="onboarded")
        case 2:
            owner = json.loads(answers[0].text)["owner"]
            body = f"Your onboarding case {case} is closed."
            return _said("I tell its owner.", "send_email", reference=case, to=owner, subject=f"Case {case}", body=body)
    return _said(f"The case is closed and its owner knows. {answers[-1].text}")


def words_of(message: str) -> str:
    """The words of a stored message, without its calls."""
    content = json.loads(message)["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _said(words: str, tool: str | None = None, **given: str) -> Decision:
    content: list[dict[str, object]] = [{"type": "text", "text": words}]
    if tool is not None:
        content.append({"type": "tool_use", "id": f"toolu_{tool}", "name": tool, "input": given})
    said = {"role": "assistant", "content": content}
    return Decision(json.dumps(said), tuple(anthropic_calls(said)), words)
