"""Whether a body is a request in the eyes of the official SDKs: their types, by pydantic."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typing_extensions
from pydantic import TypeAdapter, ValidationError

NODE_FOLDER = Path(__file__).parents[1] / "node"
MODEL = "a-model"
DROPPED = {"temperature", "top_p", "top_k"}
"""Options that the types of anthropic 2.x no longer have; the API takes them in recorded calls."""


def faults(dialect: str, body: dict[str, Any]) -> list[str]:
    """What the SDK's types refuse in `body`; fields that they do not know included."""
    if dialect == "gemini-interactions":
        from google.genai._gaos.types.interactions import CreateModelInteraction

        return model_faults(CreateModelInteraction, {"model": MODEL, **body})
    return gemini_faults(body) if dialect == "gemini" else typed_faults(dialect, body)


@functools.cache
def adapter(dialect: str, *, is_stream: bool) -> TypeAdapter[Any]:
    """The type of the keyword arguments of the SDK's method."""
    if dialect == "openai-chat":
        from openai.types.chat import completion_create_params as chat

        return TypeAdapter(
            chat.CompletionCreateParamsStreaming
            if is_stream
            else chat.CompletionCreateParamsNonStreaming
        )
    if dialect == "openai-responses":
        from openai.types.responses import response_create_params as responses

        return TypeAdapter(
            responses.ResponseCreateParamsStreaming
            if is_stream
            else responses.ResponseCreateParamsNonStreaming
        )
    from anthropic.types import message_create_params as messages

    return TypeAdapter(
        messages.MessageCreateParamsStreaming
        if is_stream
        else messages.MessageCreateParamsNonStreaming
    )


def typed_faults(dialect: str, body: dict[str, Any]) -> list[str]:
    dropped = DROPPED if dialect == "anthropic" else set()
    body = {"model": MODEL, **{key: body[key] for key in body.keys() - dropped}}
    try:
        checked = listed(
            adapter(dialect, is_stream=body.get("stream") is True).validate_python(body)
        )
    except ValidationError as error:
        return [f"{fault['loc']}: {fault['type']}" for fault in error.errors()]
    return [] if checked == body else [f"unknown field: {where(body, checked)}"]


def listed(value: Any) -> Any:
    """`value` with every lazy iterator of pydantic run to its end, which is what checks it."""
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    if isinstance(value, str | int | float | bytes) or value is None:
        return value
    return [listed(item) for item in value]


def where(one: Any, other: Any) -> str:
    """The first place where `other` lacks something of `one`."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key, item in one.items():
            if key not in other:
                return f".{key}"
            if other[key] != item:
                return f".{key}{where(item, other[key])}"
    if isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return f"[{index}]{where(left, right)}"
    return f" {type(one).__name__}"


def gemini_faults(body: dict[str, Any]) -> list[str]:
    """The wire's fields, each by the model of google-genai for it; unknown fields are refused."""
    from google.genai import types

    parts: list[tuple[Any, Any]] = [
        *((types.Content, item) for item in body.get("contents", [])),
        *((types.Tool, item) for item in body.get("tools", [])),
        (types.Content, body.get("systemInstruction", {})),
        (types.ToolConfig, body.get("toolConfig", {})),
        (types.GenerationConfig, body.get("generationConfig", {})),
    ]
    known = {"contents", "tools", "systemInstruction", "toolConfig", "generationConfig", "model"}
    found = [f"unknown field: {name}" for name in body.keys() - known]
    return found + [fault for kind, value in parts for fault in model_faults(kind, value)]


def model_faults(kind: Any, value: Any) -> list[str]:
    """What a pydantic model refuses in `value`."""
    try:
        kind.model_validate(value)
    except ValidationError as error:
        return [f"{fault['loc']}: {fault['type']}" for fault in error.errors()]
    return []


def ai_sdk_faults(bodies: list[dict[str, Any]]) -> list[str]:
    """What the npm package `ai` refuses in the messages of `bodies`; skips where it is missing."""
    node = shutil.which("node")
    if node is None or not (NODE_FOLDER / "node_modules" / "ai").is_dir():
        pytest.skip("the npm package ai is not there: node, and `npm ci` in tests/node")
    lines = "\n".join(json.dumps(messages_of(body)) for body in bodies)
    command = [node, "validate.mjs"]
    done = subprocess.run(
        command, cwd=NODE_FOLDER, input=lines, capture_output=True, text=True, check=True
    )
    *found, last = done.stdout.splitlines()
    assert last == f"{len(bodies)} lines"
    return found


def messages_of(body: dict[str, Any]) -> list[Any]:
    """The messages, and the instructions, which are system messages too."""
    instructions = body.get("instructions", [])
    if isinstance(instructions, str):
        instructions = [{"role": "system", "content": instructions}]
    return [*instructions, *body["messages"]]


def type_names(roots: tuple[Any, ...]) -> set[str]:
    """The values of `type` of the members of unions, whose fields are not looked into."""
    kinds = (kind for root in roots for kind in objects(root))
    return {word for kind in kinds for word in literals(annotations_of(kind).get("type"))}


def objects(root: Any) -> list[Any]:
    """The classes with fields in an annotation, in whatever they are wrapped."""
    found = []
    pending = [root]
    while pending:
        kind = pending.pop()
        if typing_extensions.is_typeddict(kind) or hasattr(kind, "model_fields"):
            found.append(kind)
        else:
            pending += get_args(getattr(kind, "__value__", kind))
    return found


def annotations_of(kind: Any) -> dict[str, Any]:
    if hasattr(kind, "model_fields"):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return typing_extensions.get_type_hints(kind)


def literals(annotation: Any) -> set[str]:
    """The words that an annotation allows, in whatever it is wrapped."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    return {word for inner in get_args(annotation) for word in literals(inner)}
