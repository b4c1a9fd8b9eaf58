"""What becomes of options and of tools."""

from __future__ import annotations

from typing import Any

import pytest

from conversion_cases import USER, chat, claude, where
from conversion_law import DIALECTS
from tokenctx import convert_messages

FUNCTION: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {}}}
GRAMMAR = {"syntax": "lark", "definition": "start: X"}
PATCH: dict[str, Any] = {
    "type": "custom",
    "custom": {"name": "patch", "format": {"type": "grammar", "grammar": GRAMMAR}},
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # noqa: E501  # one pixel


def test_options_pass_where_there_is_a_word_for_them() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = {"name": "f", "description": "d", "parameters": schema}
    body = chat(
        USER,
        max_completion_tokens=10,
        temperature=0.5,
        top_p=0.9,
        stop=["x"],
        seed=7,
        tools=[{"type": "function", "function": tool}],
        tool_choice={"type": "function", "function": {"name": "f"}},
        parallel_tool_calls=False,
        reasoning_effort="low",
        model="gpt-5",
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        user="u",
    )
    assert convert_messages(body, to="anthropic").body == {
        "model": "gpt-5",
        "max_tokens": 10,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["x"],
        "metadata": {"user_id": "u"},
        "output_config": {
            "effort": "low",
            "format": {"type": "json_schema", "schema": schema},
        },
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        "tools": [{"name": "f", "description": "d", "input_schema": schema}],
        "messages": [USER],
    }
    config = convert_messages(body, to="gemini").body
    assert config["generationConfig"] == {
        "maxOutputTokens": 10,
        "temperature": 0.5,
        "topP": 0.9,
        "seed": 7,
        "stopSequences": ["x"],
        "thinkingConfig": {"thinkingLevel": "low"},
        "responseJsonSchema": schema,
        "responseMimeType": "application/json",
    }
    choice = {"mode": "ANY", "allowedFunctionNames": ["f"]}
    assert config["toolConfig"] == {"functionCallingConfig": choice}
    assert where(convert_messages(body, to="anthropic"), "option") == ["seed"]
    responses = convert_messages(body, to="openai-responses").body
    assert responses["text"] == {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    assert responses["tools"][0] == {"type": "function", **tool, "strict": False}
    assert where(convert_messages(body, to="openai-responses"), "option") == ["seed", "stop"]


@pytest.mark.parametrize("mode", ["auto", "none", "required"])
@pytest.mark.parametrize("target", DIALECTS)
def test_tool_choices_come_back(target: Any, mode: str) -> None:
    body = chat(USER, tool_choice=mode, tools=[FUNCTION])
    there = convert_messages(body, to=target)
    assert convert_messages(there.body, to="openai-chat", source=target).body["tool_choice"] == mode


def test_vendor_tools_and_unknown_options_are_named() -> None:
    body = claude(
        USER,
        tools=[{"type": "bash_20250124", "name": "bash"}],
        thinking={"type": "adaptive"},
        new_option=1,
    )
    conversion = convert_messages(body, to="openai-chat", source="anthropic")
    assert set(where(conversion, "field")) == {"tools[0]", "thinking", "new_option"}


def test_a_schema_of_gemini_becomes_json_schema() -> None:
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}
    body = {
        "contents": [],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}],
    }
    function = convert_messages(body, to="openai-chat").body["tools"][0]["function"]
    assert function["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
    }


@pytest.mark.parametrize("target", ["anthropic", "gemini", "ai-sdk", "openai-chat"])
@pytest.mark.parametrize("choice", ["required", "auto", {"type": "function", "name": "web_search"}])
def test_a_choice_is_dropped_with_the_last_tool(target: Any, choice: Any) -> None:
    tools = [{"type": "web_search"}]
    body = {"model": "gpt-5", "input": "go", "tools": tools, "tool_choice": choice}
    conversion = convert_messages(body, to=target)
    assert not {"tool_choice", "toolChoice", "toolConfig", "tools"} & conversion.body.keys()
    assert where(conversion, "option") == ["tool_choice"]


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-2.5-pro", "low", {"thinkingBudget": 1024}),
        ("models/gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "none", None),  # cannot be turned off
        ("gemini-2.0-flash", "low", None),
        ("gemini-3-pro-preview", "minimal", None),
        ("gemini-3-flash-preview", "minimal", {"thinkingLevel": "minimal"}),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "medium"}),
    ],
)
def test_gemini_gets_the_effort_that_its_model_takes(model: str, effort: str, config: Any) -> None:
    conversion = convert_messages(chat(USER, model=model, reasoning_effort=effort), to="gemini")
    assert conversion.body.get("generationConfig", {}).get("thinkingConfig") == config
    assert (where(conversion, "option") == ["reasoning_effort"]) == (config is None)


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("claude-haiku-4-5", ""),
        ("claude-3-7-sonnet-latest", ""),
        ("claude-sonnet-4-5-20250929", ""),
        ("claude-sonnet-4-20250514", ""),
        ("anthropic/claude-opus-4-1", ""),
        ("claude-opus-4-5", "low high"),
        ("claude-sonnet-4-6", "low high max"),
        ("claude-opus-4-8", "low high xhigh max"),
        ("claude-opus-5", "low high xhigh max"),
    ],
)
def test_claude_gets_the_effort_that_its_model_takes(model: str, taken: str) -> None:
    for effort in ("low", "high", "xhigh", "max"):
        conversion = convert_messages(chat(USER, model=model, reasoning_effort=effort), "anthropic")
        is_taken = effort in taken.split()
        assert conversion.body.get("output_config", {}).get("effort") == (
            effort if is_taken else None
        )
        assert (where(conversion, "option") == ["reasoning_effort"]) != is_taken


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-3-pro-preview"])
def test_a_picture_in_a_result_stands_where_the_model_takes_it(model: str) -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": PNG}
    answer = [{"type": "tool_use", "id": name, "name": "shot", "input": {}} for name in "ab"]
    shown = [{"type": "image", "source": picture}]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": shown},
        {"type": "tool_result", "tool_use_id": "b", "content": "B"},
    ]
    turns = [{"role": "assistant", "content": answer}, {"role": "user", "content": results}]
    conversion = convert_messages(claude(USER, *turns, model=model), to="gemini")
    parts = conversion.body["contents"][-1]["parts"]
    inner = [part["functionResponse"].get("parts") for part in parts if "functionResponse" in part]
    is_moved = "2.5" in model
    assert (inner == [None, None]) == is_moved
    assert ("inlineData" in parts[-1]) == is_moved  # behind the results, which stay together
    assert bool(where(conversion, "media_moved")) == is_moved


def test_custom_tools_stay_where_there_are_custom_tools() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]
    choice = {"type": "custom", "custom": {"name": "patch"}}
    body = chat(USER, *turns, tools=[PATCH, FUNCTION], tool_choice=choice)
    there = convert_messages(body, to="openai-responses").body
    assert there["tools"][0] == {
        "type": "custom",
        "name": "patch",
        "format": {"type": "grammar", **GRAMMAR},
    }
    kinds = [item["type"] for item in there["input"][1:]]
    assert kinds == ["custom_tool_call", "custom_tool_call_output"]
    assert there["tool_choice"] == {"type": "custom", "name": "patch"}
    back = convert_messages(there, to="openai-chat").body
    assert (back["tools"], back["tool_choice"]) == ([PATCH, FUNCTION], choice)
    assert back["messages"] == body["messages"]


@pytest.mark.parametrize("target", ["anthropic", "gemini", "ai-sdk"])
def test_a_custom_tool_becomes_a_function_and_its_calls_fit_the_schema(target: Any) -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    conversion = convert_messages(chat(USER, turn, result, tools=[PATCH]), to=target)
    assert set(where(conversion, "custom_tool")) == {"tools[0]", "messages[1].tool_calls[0]"}
    written = str(conversion.body)
    assert "'required': ['input']" in written
    assert "{'input': '*** Begin'}" in written


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("gpt-4o", ""),
        ("gpt-4.1-mini", ""),
        ("ft:gpt-4o:me", ""),
        ("o4-mini", "low high"),
        ("gpt-5", "minimal low high"),
        ("gpt-5-mini", "minimal low high"),
        ("gpt-5.1", "none low high"),
        ("gpt-5.4", "none minimal low high xhigh"),
        ("openai/gpt-4o", "none minimal low high xhigh"),  # a router's, which sees to it
        ("grok-4", ""),
        ("grok-3-mini", "none minimal low high xhigh"),
        ("grok-4.3", "none minimal low high xhigh"),
    ],
)
def test_openai_and_grok_get_the_effort_that_their_models_take(
    target: Any, model: str, taken: str
) -> None:
    for effort in ("none", "minimal", "low", "high", "xhigh"):
        body = {
            "model": model,
            "max_tokens": 9,
            "messages": [USER],
            "output_config": {"effort": effort},
        }
        conversion = convert_messages(body, target, source="anthropic")
        is_taken = effort in taken.split()
        assert (f"'{effort}'" in str(conversion.body)) == is_taken
        assert bool(where(conversion, "option")) != is_taken
