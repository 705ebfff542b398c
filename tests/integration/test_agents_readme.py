"""The loop in the README of acuse.agents is run as it stands there."""

import re
from pathlib import Path
from typing import Any

from host import SendEmail
from sqlalchemy import Engine

import acuse
from acuse import agents
from acuse.agents import Journal, RunStatus

README = Path(agents.__file__).with_name("README.md")


def block(name: str = "#") -> str:
    found = re.search(rf"```python\n(.*?{name}.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def test_the_loop_runs_to_its_end(engine: Engine) -> None:
    asked: list[list[dict[str, Any]]] = []

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        asked.append(messages)
        use = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "notes.md"}}
        return {"role": "assistant", "content": [use] if len(asked) == 1 else "It says so."}

    import json

    names = {name: getattr(home, name) for home in (acuse, agents) for name in home.__all__}
    namespace = {**names, "engine": engine, "SendEmail": SendEmail, "model": model, "json": json}
    exec(compile(block(), str(README), "exec"), namespace)

    assert [len(messages) for messages in asked] == [1, 3]
    assert asked[1][2]["content"][0] | {"content": ""} == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "",
        "is_error": False,
    }
    with engine.connect() as connection:
        found = Journal("acme").read(connection, "run-77")
    assert (found.run.status, found.turns, found.next) == (RunStatus.FINISHED, 2, "finish")


def test_the_tables_name_every_nature_and_outcome() -> None:
    text = README.read_text(encoding="utf-8")
    for word in (*agents.Nature, *agents.Outcome):
        assert f"`{word}" in text, word
    for tool in ("read_file", "send_email", "ensure_ticket", "append_log", "set_config", "delete_file"):
        assert f"| `{tool}(" in text
