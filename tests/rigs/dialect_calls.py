"""One conversation in every dialect: request, response, and the answer as it comes back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": list(messages), **fields}


@dataclasses.dataclass(frozen=True)
class Call:
    request: dict[str, Any]
    response: dict[str, Any]
    """With 100 input and 20 output tokens, 5 of these hidden reasoning where there is some."""
    next_request: dict[str, Any]
    reasoning_tokens: int = 0


CALLS = {
    "openai-chat": Call(
        chat(user("What is 2+2?")),
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "4.", "refusal": None},
                }
            ],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": {"cached_tokens": 64},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
        },
        chat(user("What is 2+2?"), assistant("4."), user("And 3+3?")),
        reasoning_tokens=5,
    ),
    "openai-responses": Call(
        {"model": "gpt-4.1", "instructions": "Be brief.", "input": [user("What is 2+2?")]},
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "gpt-4.1",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": [
                {
                    "id": "msg_1",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "4.", "annotations": []}],
                }
            ],
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
                "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 5},
                "total_tokens": 120,
            },
        },
        {
            "model": "gpt-4.1",
            "instructions": "Be brief.",
            "input": [user("What is 2+2?"), assistant("4."), user("And 3+3?")],
        },
        reasoning_tokens=5,
    ),
    "anthropic": Call(
        {
            "model": "claude-sonnet-4-5",
            "system": "Be brief.",
            "max_tokens": 10,
            "messages": [user("What is 2+2?")],
        },
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": "4."}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 30,
                "cache_read_input_tokens": 60,
                "output_tokens": 20,
            },
        },
        {
            "model": "claude-sonnet-4-5",
            "system": "Be brief.",
            "max_tokens": 10,
            "messages": [
                user("What is 2+2?"),
                assistant([{"type": "text", "text": "4."}]),
                user("And 3+3?"),
            ],
        },
    ),
    "gemini": Call(
        {"model": "gemini-2.5-pro", "contents": [{"role": "user", "parts": [{"text": "2+2?"}]}]},
        {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [{"text": "4."}]},
                    "finishReason": "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 64,
                "candidatesTokenCount": 15,
                "thoughtsTokenCount": 5,
                "totalTokenCount": 120,
            },
        },
        {
            "model": "gemini-2.5-pro",
            "contents": [
                {"role": "user", "parts": [{"text": "2+2?"}]},
                {"role": "model", "parts": [{"text": "4."}]},
                {"role": "user", "parts": [{"text": "And 3+3?"}]},
            ],
        },
        reasoning_tokens=5,
    ),
    "bedrock-converse": Call(
        {
            "modelId": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "messages": [{"role": "user", "content": [{"text": "2+2?"}]}],
            "inferenceConfig": {},
        },
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "4."}]}},
            "stopReason": "end_turn",
            "usage": {
                "inputTokens": 10,
                "cacheReadInputTokens": 60,
                "cacheWriteInputTokens": 30,
                "outputTokens": 20,
                "totalTokens": 120,
            },
        },
        {
            "modelId": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "messages": [
                {"role": "user", "content": [{"text": "2+2?"}]},
                {"role": "assistant", "content": [{"text": "4."}]},
                {"role": "user", "content": [{"text": "And 3+3?"}]},
            ],
            "inferenceConfig": {},
        },
    ),
}
DIALECTS = sorted(CALLS)


def openai_chat(response: dict[str, Any]) -> Any:
    return pytest.importorskip("openai").types.chat.ChatCompletion.model_validate(response)


def openai_responses(response: dict[str, Any]) -> Any:
    pytest.importorskip("openai")
    from openai.types.responses import Response  # type: ignore[import-not-found,unused-ignore]

    return Response.model_validate(response)


def anthropic(response: dict[str, Any]) -> Any:
    return pytest.importorskip("anthropic").types.Message.model_validate(response)


def gemini(response: dict[str, Any]) -> Any:
    types = pytest.importorskip("google.genai.types")
    return types.GenerateContentResponse.model_validate(response)


SDK = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}


def message_of(response: dict[str, Any]) -> Any:
    """The assistant's message inside of a response."""
    if "choices" in response:
        return response["choices"][0]["message"]
    if "candidates" in response:
        return response["candidates"][0]["content"]
    output = response.get("output")
    if isinstance(output, dict):
        return output["message"]
    return {"role": "assistant", "content": response["content"]} if output is None else output
