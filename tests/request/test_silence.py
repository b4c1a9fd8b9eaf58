"""No field is silent: added to any object of a request, it is counted or labelled."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

import pytest

from json_places import places
from tokenctx import HybridTokenEstimator

Json = dict[str, Any]

WORDS: Final = "word " * 200
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
URL: Final = f"data:image/png;base64,{PIXEL}"
PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION: Final = {"name": "weather", "description": "Tells it.", "parameters": PARAMETERS}
FORMAT: Final = {"name": "answer", "schema": PARAMETERS, "strict": True}
CONTENT: Final = {"type": "text", "text": "What is the weather in Paris?"}

BODIES: Final[dict[str, Json]] = {
    "openai-chat": {
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": "Be nice."},
            {
                "role": "user",
                "content": [CONTENT, {"type": "image_url", "image_url": {"url": URL}}],
            },
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "weather", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": [CONTENT]},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {"type": "json_schema", "json_schema": FORMAT},
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"enable_thinking": True},
    },
    "openai-responses": {
        "model": "gpt-5.6-sol",
        "input": [
            {"role": "user", "content": [{**CONTENT, "type": "input_text"}]},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_image", "image_url": URL}],
            },
            {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
        ],
        "tools": [{"type": "function", **FUNCTION}, {"type": "web_search"}],
        "tool_choice": {"type": "function", "name": "weather"},
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", **FORMAT}},
    },
    "anthropic": {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "system": [CONTENT],
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "document",
                        "citations": {"enabled": True},
                        "source": {"type": "text", "media_type": "text/plain", "data": "a"},
                    },
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c", "name": "weather", "input": {"city": "a"}}
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c",
                        "content": [{**CONTENT, "cache_control": {"type": "ephemeral"}}],
                    }
                ],
            },
        ],
        "tools": [
            {"name": "weather", "input_schema": PARAMETERS},
            {"type": "bash_20250124", "name": "bash"},
        ],
        "tool_choice": {"type": "auto"},
        "output_config": {
            "effort": "high",
            "format": {"type": "json_schema", "schema": PARAMETERS},
        },
        "thinking": {"type": "adaptive"},
    },
    "gemini": {
        "model": "gemini-2.5-flash",
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "hi"},
                    {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                    {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a"}},
                ],
            },
            {
                "role": "model",
                "parts": [{"functionCall": {"name": "weather", "args": {"city": "a"}}}],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "weather", "response": {"sky": "grey"}}}],
            },
            {"role": "model", "parts": [{"executableCode": {"code": "1", "language": "PYTHON"}}]},
            {"role": "model", "parts": [{"codeExecutionResult": {"outcome": "OK", "output": "1"}}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be nice."}]},
        "tools": [{"functionDeclarations": [FUNCTION]}, {"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 9}},
    },
    "gemini-interactions": {
        "model": "gemini-3.5-flash",
        "input": [
            {"type": "user_input", "content": [CONTENT]},
            {"type": "thought", "signature": "AAAA", "summary": [CONTENT]},
            {"type": "function_call", "id": "c", "name": "weather", "arguments": {"city": "a"}},
            {"type": "function_result", "call_id": "c", "result": [CONTENT]},
            {"type": "function_result", "call_id": "c", "result": {"sky": "grey"}},
            {"type": "google_search_call", "id": "g", "arguments": {"queries": ["a"]}},
            {"type": "model_output", "content": [CONTENT]},
            {
                "type": "user_input",
                "content": [{"type": "image", "mime_type": "image/png", "data": PIXEL}],
            },
        ],
        "tools": [{"type": "function", **FUNCTION}, {"type": "google_search"}],
        "generation_config": {"tool_choice": {"allowed_tools": {"mode": "any"}}},
        "response_format": {"type": "text", "mime_type": "application/json", "schema": PARAMETERS},
    },
    "bedrock-converse": {
        "model": "anthropic.claude-sonnet-4-5",
        "system": [{"text": "Be nice."}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": "hi"},
                    {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                    {"document": {"format": "txt", "name": "a", "source": {"text": "words"}}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "AAAA"}}},
                    {"toolUse": {"toolUseId": "c", "name": "weather", "input": {"city": "a"}}},
                ],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "c", "content": [{"json": {"a": 1}}]}}],
            },
        ],
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": PARAMETERS}}}],
            "toolChoice": {"auto": {}},
        },
        "inferenceConfig": {"maxTokens": 9},
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 9}},
    },
    "vscode": {
        "model": "gpt-5",
        "messages": [
            {"role": 1, "content": [{"$mid": 21, "value": "hi"}]},
            {"role": 2, "content": [{"callId": "c", "name": "weather", "input": {"city": "a"}}]},
            {"role": 1, "content": [{"callId": "c", "content": [{"$mid": 21, "value": "grey"}]}]},
        ],
        "tools": [{"name": "weather", "inputSchema": PARAMETERS}],
    },
}


def with_field(body: Json, path: tuple[Any, ...], value: Any) -> Json:
    changed = copy.deepcopy(body)
    owner: Any = changed
    for key in path:
        owner = owner[key]
    owner["frobnicate"] = value
    return changed


SCHEMAS: Final = frozenset({"parameters", "schema", "input_schema", "inputSchema", "json"})
"""A schema is shown to the model as its vendor writes it: without unknown keywords."""
CASES: Final = [
    (dialect, path)
    for dialect, body in BODIES.items()
    for path in places(body)
    if SCHEMAS.isdisjoint(path) or "messages" in path or path[-2:] == ("toolSpec", "inputSchema")
]


def label(value: Any) -> str:
    return value if isinstance(value, str) else ".".join(map(str, value)) or "body"


@pytest.mark.parametrize(("dialect", "path"), CASES, ids=label)
@pytest.mark.parametrize("value", [WORDS, {"a": [WORDS]}], ids=["text", "object"])
def test_no_field_is_silent(dialect: Any, path: tuple[Any, ...], value: Any) -> None:
    def estimate(body: Any) -> Any:
        return HybridTokenEstimator(learning=False).estimate(body, dialect=dialect)

    plain = estimate(BODIES[dialect])
    body = with_field(BODIES[dialect], path, value)
    found = estimate(body)
    is_labelled = set(found.assumptions) > set(plain.assumptions)
    assert found.tokens > plain.tokens or is_labelled, "the field costs nothing and is not named"
    assert found.high >= plain.high + 90, "its text is beyond the bounds"
    of_bytes = estimate(json.dumps(body).encode())
    assert (of_bytes.tokens, of_bytes.low, of_bytes.high) == (found.tokens, found.low, found.high)
