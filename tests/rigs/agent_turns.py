"""Turns of made-up agent sessions: long results, calls side by side, thinking."""

from __future__ import annotations

import json
import random
from typing import Any

TEXT = 'A line of a file, with 3 numbers and a "quote" \\ and é\n'
TOOLS = [
    {
        "type": "function",
        "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}},
    }
]
ANTHROPIC_TOOLS = [{"name": "read_file", "input_schema": {"type": "object", "properties": {}}}]

# More than are read again in a later turn.
NUMBERS = ("one", "two", "three", "four", "five")
MANY_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"read_{number}",
            "description": f"{number} " * 60,
            "parameters": {"type": "object", "properties": {number: {"type": "string"}}},
        },
    }
    for number in NUMBERS
]
MANY_ANTHROPIC_TOOLS: list[dict[str, Any]] = [
    {**tool, "name": number, "description": f"{number} " * 60}
    for tool, number in zip(ANTHROPIC_TOOLS * len(NUMBERS), NUMBERS, strict=True)
]
MANY_ANTHROPIC_TOOLS[-1]["cache_control"] = {"type": "ephemeral"}


def chat_turn(random_: random.Random, turn: int) -> list[dict[str, Any]]:
    """Messages of one turn of an agent that uses OpenAI Chat."""
    ids = [f"call_{turn}_{nth}" for nth in range(random_.choice((0, 1, 1, 3)))]
    function = {"name": "read_file", "arguments": '{"path":"a"}'}
    messages: list[dict[str, Any]] = [{"role": "user", "content": TEXT * random_.randrange(1, 60)}]
    if ids:
        calls = [{"id": name, "type": "function", "function": function} for name in ids]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for name in ids:
            result = TEXT * random_.randrange(60)
            messages.append({"role": "tool", "tool_call_id": name, "content": result})
    messages.append({"role": "assistant", "content": TEXT * random_.randrange(1, 9)})
    return messages


def anthropic_turn(random_: random.Random, turn: int) -> list[dict[str, Any]]:
    """Messages of one turn of an agent that uses Anthropic Messages, with thinking in loops."""
    call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "read_file", "input": {"path": "a"}}
    thinking = {"type": "thinking", "thinking": TEXT, "signature": "c2ln"}
    calls = [thinking, call] if random_.random() < 0.2 else [call]
    result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": TEXT * turn}
    return [
        {"role": "user", "content": TEXT * random_.randrange(1, 60)},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": TEXT}]},
    ]


def responses_turn(random_: random.Random, turn: int) -> list[dict[str, Any]]:
    """Items of one turn of an agent that uses OpenAI Responses."""
    call = {"type": "function_call", "call_id": f"c{turn}", "name": "read_file", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": f"c{turn}", "output": TEXT * turn}
    said = {"role": "assistant", "content": [{"type": "output_text", "text": TEXT}]}
    return [{"role": "user", "content": TEXT * random_.randrange(1, 60)}, call, output, said]


def gemini_turn(random_: random.Random, turn: int) -> list[dict[str, Any]]:
    """Contents of one turn of an agent that uses Gemini."""
    call = {"functionCall": {"name": "read_file", "args": {"path": "a"}}}
    response = {"functionResponse": {"name": "read_file", "response": {"text": TEXT * turn}}}
    return [
        {"role": "user", "parts": [{"text": TEXT * random_.randrange(1, 60)}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [response]},
        {"role": "model", "parts": [{"text": TEXT}]},
    ]


def edited_anywhere(random_: random.Random, messages: list[dict[str, Any]]) -> None:
    """Some of `messages` removed, replaced, or moved."""
    for _ in range(random_.randrange(1, 4)):
        at = random_.randrange(len(messages))
        action = random_.choice(("remove", "replace", "move", "repeat"))
        if action == "remove" and len(messages) > 2:
            del messages[at : at + random_.randrange(1, 4)]
        elif action == "replace":
            role = messages[at].get("role", "user")
            parts = "parts" in messages[at]
            text = [{"text": TEXT}] if parts else TEXT
            messages[at] = {"role": role, "parts" if parts else "content": text}
        elif action == "move":
            messages.insert(random_.randrange(len(messages)), messages.pop(at))
        else:
            messages.insert(at, messages[at])


SHAPES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "openai-chat": (chat_turn, {"model": "gpt-4o", "tools": TOOLS}, "messages"),
    "openai-chat-unknown": (chat_turn, {"model": "own-model"}, "messages"),
    "anthropic": (
        anthropic_turn,
        {"model": "claude-sonnet-4-5", "system": TEXT, "tools": ANTHROPIC_TOOLS},
        "messages",
    ),
    "openai-responses": (responses_turn, {"model": "gpt-5", "instructions": TEXT}, "input"),
    "gemini": (gemini_turn, {"model": "gemini-2.5-flash"}, "contents"),
}
TOOL_SHAPES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "openai-chat-tools": (chat_turn, {"model": "gpt-4o", "tools": MANY_TOOLS}, "messages"),
    "anthropic-tools": (
        anthropic_turn,
        {"model": "claude-sonnet-4-5", "tools": MANY_ANTHROPIC_TOOLS},
        "messages",
    ),
}


def encoded(body: dict[str, Any], *, is_last: bool, indent: int | None = None) -> bytes:
    """`body` as bytes, its messages before or behind all other members."""
    names = sorted(body, key=lambda name: (name in ("messages", "input", "contents")) is is_last)
    return json.dumps({name: body[name] for name in names}, indent=indent).encode()


def long_body() -> dict[str, Any]:
    """A conversation of an agent with its tools, the same in each call."""
    random_ = random.Random(5)
    messages = [message for turn in range(20) for message in chat_turn(random_, turn)]
    return {"model": "gpt-4o", "messages": messages, "tools": MANY_TOOLS}
