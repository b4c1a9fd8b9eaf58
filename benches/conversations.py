"""Made-up conversations for the benchmarks: the same bytes in every run."""

from __future__ import annotations

import json
import random
from typing import Any

WORDS = (
    "the gateway counts tokens before it sends a request and remembers what was billed so that the "
    "next turn is known total plus new messages return error value async def class import self "
    "context window prefix digest message retry timeout limit user assistant tool result file line"
).split()


def agent_conversation(message_count: int = 480, body_bytes: int = 900_000) -> dict[str, Any]:
    """An OpenAI Chat request of an agent: tools, calls, long results; about `body_bytes` long."""
    random_ = random.Random(20261121)
    turns = message_count // 4
    result_bytes = body_bytes // turns - 900
    messages: list[dict[str, Any]] = [{"role": "system", "content": prose(random_, 2000)}]
    for turn in range(turns):
        messages += [
            {"role": "user", "content": prose(random_, 200)},
            {"role": "assistant", "content": None, "tool_calls": [call(random_, turn)]},
            {
                "role": "tool",
                "tool_call_id": f"call_{turn}",
                "content": code(random_, result_bytes),
            },
            {"role": "assistant", "content": prose(random_, 300)},
        ]
    tools = [tool(random_, index) for index in range(12)]
    return {"model": "gpt-4o", "messages": messages[:message_count], "tools": tools}


def with_new_turn(body: dict[str, Any]) -> dict[str, Any]:
    """`body` with an answer and a new message of the user, about 1 KB in all."""
    random_ = random.Random(7)
    new = [
        {"role": "assistant", "content": prose(random_, 400)},
        {"role": "user", "content": prose(random_, 600)},
    ]
    return {**body, "messages": body["messages"] + new}


def encoded(body: dict[str, Any]) -> bytes:
    """`body` as a client sends it."""
    return json.dumps(body, separators=(",", ":")).encode()


def prose(random_: random.Random, chars: int) -> str:
    """English-like text of about `chars` characters."""
    return " ".join(random_.choices(WORDS, k=chars // 6))


def code(random_: random.Random, chars: int) -> str:
    """Code-like text with indentation, digits and punctuation."""
    lines: list[str] = []
    while sum(map(len, lines)) < chars:
        name, value = random_.choice(WORDS), random_.randrange(10**6)
        lines.append(
            f"    {name}_{value % 97} = {{'{random_.choice(WORDS)}': {value}}}  # {name}\n"
        )
    return "".join(lines)


def call(random_: random.Random, turn: int) -> dict[str, Any]:
    """A tool call with a few arguments."""
    arguments = {
        "path": f"src/{random_.choice(WORDS)}.py",
        "first_line": turn,
        "query": prose(random_, 60),
    }
    function = {"name": "read_file", "arguments": json.dumps(arguments)}
    return {"id": f"call_{turn}", "type": "function", "function": function}


def tool(random_: random.Random, index: int) -> dict[str, Any]:
    """A function definition with five parameters."""
    properties = {
        f"{random_.choice(WORDS)}_{number}": {"type": "string", "description": prose(random_, 80)}
        for number in range(5)
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)[:2]}
    function = {"name": f"tool_{index}", "description": prose(random_, 200), "parameters": schema}
    return {"type": "function", "function": function}


def prose_and_code(chars: int) -> str:
    """Half prose, half code, about `chars` characters."""
    random_ = random.Random(11)
    return prose(random_, chars // 2) + "\n" + code(random_, chars // 2)
