"""What becomes of options and of tools."""

from __future__ import annotations

from typing import Any

import pytest

from conversion_cases import USER, chat, claude, where
from conversion_law import DIALECTS
from tokenctx import convert_messages


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
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        user="u",
    )
    assert convert_messages(body, to="anthropic").body == {
        "model": "gpt-4o",
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
    body = chat(USER, tool_choice=mode)
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
