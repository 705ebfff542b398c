"""Tools, their natures and their words: pure."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from acuse import Action, Effect
from acuse.agents import Message, Need, Outcome, Risk, ToolAnswer, ToolCall, Tools
from acuse.agents.anthropic import anthropic_calls, anthropic_messages, anthropic_results
from acuse.agents.nature import Nature, next_step
from acuse.agents.openai import openai_calls, openai_messages, openai_results
from acuse.agents.step import given_key, intent_key
from acuse.agents.tool import text_of
from acuse.errors import ConfigurationError, InvalidField

WHY = "a sentence that says why"
ANSWERS = [
    ToolAnswer("c-1", Outcome.CONFIRMED, "Done.", is_error=False, operation_id="op_1"),
    ToolAnswer("c-2", Outcome.UNKNOWN, "Outcome unknown.", is_error=True),
]


class Refund(Action, name="pay.refund.v1", target="order", identity=("order",)):
    order: str


class Note(Action, name="crm.log_note.v1", target="case"):
    case: str
    text: str = ""


@pytest.mark.parametrize(
    ("nature", "begun", "has_check", "superseded", "expected"),
    [
        (Nature.READ_ONLY, "none", False, False, "run"),
        (Nature.READ_ONLY, "same_owner", False, False, "run"),
        (Nature.READ_ONLY, "earlier_owner", False, False, "run"),
        (Nature.OVERWRITES, "none", False, False, "run"),
        (Nature.OVERWRITES, "same_owner", False, False, "in_progress"),
        (Nature.OVERWRITES, "earlier_owner", False, False, "run"),
        (Nature.OVERWRITES, "earlier_owner", False, True, "unknown"),
        (Nature.ENSURES, "none", True, False, "look"),
        (Nature.ENSURES, "same_owner", True, False, "in_progress"),
        (Nature.ENSURES, "earlier_owner", True, False, "look"),
        (Nature.APPENDS, "none", False, False, "run"),
        (Nature.APPENDS, "none", True, False, "run"),
        (Nature.APPENDS, "same_owner", True, False, "in_progress"),
        (Nature.APPENDS, "earlier_owner", False, False, "unknown"),
        (Nature.APPENDS, "earlier_owner", True, False, "look"),
    ],
)
def test_what_a_call_without_an_answer_comes_to(
    nature: Nature, begun: Any, has_check: bool, superseded: bool, expected: str
) -> None:
    assert next_step(nature, begun, has_check=has_check, superseded=superseded) == expected


def test_an_intent_is_where_it_stands_and_what_it_asks_for() -> None:
    note = Note(case="case-1", text="a").effect()
    key = intent_key(note, "w", 3, 0)
    assert key.startswith("s:")
    # Neither wording nor ids play a part
    assert intent_key(Note(case="case-1", text="b").effect(), "w", 3, 0) == key
    # workflow, step, position, action and target do
    others = [
        intent_key(note, "v", 3, 0),
        intent_key(note, "w", 4, 0),
        intent_key(note, "w", 3, 1),
        intent_key(Note(case="case-2").effect(), "w", 3, 0),
        intent_key(Effect("crm.other.v1", "case-1", {}), "w", 3, 0),
    ]
    assert len({key, *others}) == 6


def test_a_declared_identity_comes_first_and_is_given_no_key_of_ours() -> None:
    refund = Refund(order="o-1").effect()
    assert given_key(refund, "w", 3, 0) is None
    assert intent_key(refund, "w", 3, 0) == intent_key(refund, "w", 9, 5)


def test_a_call_keeps_the_text_of_its_arguments() -> None:
    assert ToolCall("c", "t", '{"a":1 }').arguments == '{"a":1 }'
    assert ToolCall("c", "t", {"a": "ü"}).arguments == '{"a": "ü"}'
    assert ToolCall("c", "t", "").parsed() == {}
    for bad in ("[1]", "{", "1"):
        with pytest.raises(InvalidField, match="arguments"):
            ToolCall("c", "t", bad).parsed()
    with pytest.raises(InvalidField, match="JSON types only"):
        ToolCall("c", "t", {"a": object()})


def test_calls_ask_the_same_whatever_their_ids_and_spelling() -> None:
    one = ToolCall("c-1", "t", '{"a": 1, "b": 2}')
    assert one.asks_the_same(ToolCall("c-9", "t", '{"b":2,"a":1}'))
    assert not one.asks_the_same(ToolCall("c-1", "u", '{"a": 1, "b": 2}'))
    assert not one.asks_the_same(ToolCall("c-1", "t", '{"a": 1, "b": 3}'))
    assert not one.asks_the_same(ToolCall("c-1", "t", '{"a": true, "b": 2}'))
    assert not one.asks_the_same(ToolCall("c-1", "t", "{"))


@pytest.mark.parametrize(
    "declare",
    [
        lambda tools: tools.read_only(risk=Risk.LOW, why="low")(print),
        lambda tools: tools.read_only(risk=Risk.LOW, why=WHY, name="")(print),
        lambda tools: [tools.read_only(risk=Risk.LOW, why=WHY)(print) for _ in range(2)],
        lambda tools: tools.appends(risk=Risk.LOW, why=WHY, name="a-b", approval=Need.REQUIRED)(print),
        lambda tools: tools.effect("note", action=Note, risk=Risk.LOW, why="", approval=Need.NOT_NEEDED),
        lambda tools: tools.effect(
            "note", action=Note, risk=Risk.LOW, why=WHY, approval=Need.NOT_NEEDED, on_settled="no address"
        ),
        lambda tools: tools.overwrites(risk=Risk.LOW, why=WHY, callback="acuse.crm/perform")(print),
    ],
)
def test_a_mistake_in_a_declaration_is_found_where_it_is_made(declare: Any) -> None:
    with pytest.raises(ConfigurationError):
        declare(Tools())


def test_a_risk_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="tiny"):
        Tools().read_only(risk="tiny", why=WHY)(print)  # type: ignore[arg-type]


def test_arguments_that_do_not_fit_are_found_before_anything_runs() -> None:
    tools = Tools()

    @tools.read_only(risk=Risk.LOW, why=WHY)
    def read_file(path: str, depth: int = 1) -> str:
        return path * depth

    tool = tools.get("read_file")
    assert tool is not None
    assert tool.arguments_of(ToolCall("c", "read_file", {"path": "a"})) == {"path": "a"}
    with pytest.raises(InvalidField, match="missing a required argument: 'path'"):
        tool.arguments_of(ToolCall("c", "read_file"))


def test_an_action_can_be_made_out_of_other_arguments() -> None:
    tool = Tools().effect(
        "note", action=Note, risk=Risk.LOW, why=WHY, approval=Need.NOT_NEEDED, make=lambda words: Note(case="case-7", text=words)
    )
    assert tool.effect_of(ToolCall("c", "note", {"words": "hello"})).payload == {"case": "case-7", "text": "hello"}


class _Model(BaseModel):
    a: int


@pytest.mark.parametrize(
    ("value", "text"),
    [("as it is", "as it is"), (None, "Done."), ({"a": [1, "é"]}, '{"a": [1, "é"]}'), (_Model(a=1), '{"a":1}'), (3, "3")],
)
def test_what_a_tool_returned_becomes_text(value: object, text: str) -> None:
    assert text_of(value) == text


def test_answers_go_back_together_in_each_provider_s_form() -> None:
    assert anthropic_results(ANSWERS) == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c-1", "content": "Done.", "is_error": False},
            {"type": "tool_result", "tool_use_id": "c-2", "content": "Outcome unknown.", "is_error": True},
        ],
    }
    assert openai_results(ANSWERS) == [
        {"role": "tool", "tool_call_id": "c-1", "content": "Done."},
        {"role": "tool", "tool_call_id": "c-2", "content": "Outcome unknown."},
    ]


def test_calls_are_read_out_of_each_provider_s_message() -> None:
    blocks = [{"type": "text", "text": "I will"}, {"type": "tool_use", "id": "c-1", "name": "t", "input": {"a": 1}}]
    assert anthropic_calls({"role": "assistant", "content": blocks}) == [ToolCall("c-1", "t", '{"a": 1}')]
    assert anthropic_calls({"role": "assistant", "content": "only words"}) == []
    function = {"name": "t", "arguments": '{"a":1}'}
    assert openai_calls({"tool_calls": [{"id": "c-1", "type": "function", "function": function}]}) == [
        ToolCall("c-1", "t", '{"a":1}')
    ]
    assert openai_calls({"content": "only words", "tool_calls": None}) == []


def test_a_stored_conversation_goes_back_in_each_provider_s_form() -> None:
    decided = {"role": "assistant", "content": [{"type": "text", "text": "é"}]}
    messages = [
        Message("user", "Tell Dana", 0),
        Message("assistant", json.dumps(decided), 1),
        Message("tool", "Done.", 1, "c-1"),
        Message("tool", "Outcome unknown.", 1, "c-2", is_error=True),
        Message("user", "and Eve", 1),
    ]
    user, assistant, results, told = anthropic_messages(messages)
    assert (user, assistant, told) == (
        {"role": "user", "content": "Tell Dana"},
        decided,
        {"role": "user", "content": "and Eve"},
    )
    assert [one["tool_use_id"] for one in results["content"]] == ["c-1", "c-2"]
    assert [one["role"] for one in openai_messages(messages)] == ["user", "assistant", "tool", "tool", "user"]
