"""A request of any dialect in the form of Chat Completions: what other counters take."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.recordings import PNG_HEAD, PNG_TAIL
from tokenctx._core import _request_view, image_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx._results.estimates import Dialect

Json = dict[str, Any]

UNKNOWN_SIZE_PX: Final = (1024, 1024)
"""Of a picture that is elsewhere or has no readable header."""
HEAD_CHARACTERS: Final = 4096
"""Base64 of a header; a multiple of 4."""


@dataclass(frozen=True, slots=True)
class ChatForm:
    """A request as Chat Completions would have it.

    Attributes:
        messages: As they were sent if that is their dialect; else rewritten, reasoning and files
            left out, pictures as blank ones of the same size.
        tools: Function tools.
        schema: JSON Schema of the output as compact text; empty for none.
    """

    model: str
    messages: list[Json]
    tools: list[Json]
    schema: str


def chat_form(body: Json, model: str, dialect: Dialect | None) -> ChatForm:
    """`body` in chat form. Raises RequestError beyond a limit."""
    view = json.loads(_request_view(body, model=model or None, dialect=dialect))
    tools = [_tool(tool) for tool in view["tools"]]
    sizes = iter(list(_image_sizes(body)))
    if view["dialect"] == "openai-chat" and isinstance(body.get("messages"), list):
        messages = [_without_bytes(message, sizes) for message in body["messages"]]
    else:
        messages = [*_system(view["system"]), *_messages(view["messages"], sizes)]
    return ChatForm(model or view["model"], messages, tools, view["response_schema"])


def _tool(tool: Json) -> Json:
    try:
        parameters = json.loads(tool["schema"] or "{}")
    except ValueError:
        parameters = {}
    about = {"name": tool["name"], "description": tool["description"], "parameters": parameters}
    return {"type": "function", "function": about}


def _image_sizes(body: Json) -> Iterator[tuple[int, int]]:
    """The size of each picture that is in `body`, in order."""
    pending: list[Any] = [body]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += reversed(list(value.values()))
        elif isinstance(value, list):
            pending += reversed(value)
        elif isinstance(value, str) and (size := _image_size(value)):
            yield size


def _image_size(text: str) -> tuple[int, int] | None:
    if text.startswith("data:"):
        text = text[: HEAD_CHARACTERS + 100].partition(",")[2]
    try:
        size = image_size(base64.b64decode(text[:HEAD_CHARACTERS]))
    except ValueError:
        return None
    return size[:2] if size else None


def _blank_image(sizes: Iterator[tuple[int, int]]) -> Json:
    width, height = next(sizes, UNKNOWN_SIZE_PX)
    head = PNG_HEAD + width.to_bytes(4, "big") + height.to_bytes(4, "big") + PNG_TAIL
    url = "data:image/png;base64," + base64.b64encode(head).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def _without_bytes(message: Any, sizes: Iterator[tuple[int, int]]) -> Json:
    """A chat message with blank pictures and without files, which no other counter reads."""
    if not isinstance(message, dict):
        return {"role": "user", "content": str(message)}
    content = message.get("content")
    if not isinstance(content, list):
        return {"content": None, **message}
    parts = [
        _blank_image(sizes) if part.get("type") == "image_url" else part
        for part in content
        if isinstance(part, dict) and part.get("type") in {"text", "image_url"}
    ]
    return {**message, "content": parts}


def _system(parts: list[Json]) -> list[Json]:
    text = "\n".join(part["text"] for part in parts if part["part"] == "text")
    return [{"role": "system", "content": text}] if text else []


def _messages(messages: list[Json], sizes: Iterator[tuple[int, int]]) -> Iterator[Json]:
    for message in messages:
        role = {"model": "assistant", "developer": "system"}.get(message["role"], message["role"])
        parts: list[Json] = []
        calls: list[Json] = []
        for part in message["parts"]:
            if part["part"] == "tool_call":
                calls.append(_tool_call(part))
            elif part["part"] == "tool_result":
                content = list(_contents(part["parts"], sizes))
                yield {"role": "tool", "tool_call_id": "call", "content": content}
            else:
                parts += _contents([part], sizes)
        if calls:
            yield {"role": "assistant", "content": parts or None, "tool_calls": calls}
        elif parts:
            yield {"role": role if role in {"system", "assistant"} else "user", "content": parts}


def _tool_call(part: Json) -> Json:
    function = {"name": part["name"], "arguments": part["arguments"]}
    return {"id": "call", "type": "function", "function": function}


def _contents(parts: list[Json], sizes: Iterator[tuple[int, int]]) -> Iterator[Json]:
    for part in parts:
        if part["part"] == "text":
            yield {"type": "text", "text": part["text"]}
        elif part["part"] == "data":
            yield {"type": "text", "text": part["json"]}
        elif part["part"] == "media" and part["kind"] == "image":
            yield _blank_image(sizes if part["blake3"] else iter(()))
