"""Answers of models, and messages of VS Code."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from conversion_cases import PNG, USER, call, calls, chat, kinds, result
from conversion_law import DIALECTS
from tokenctx import RequestError, convert_messages
from tokenctx.convert import convert_response

# ------------------------------------------------------------------------------ VS Code


def vscode(role: int, *parts: Any) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def test_vscode_messages_are_a_source() -> None:
    data = {"mimeType": "image/*", "data": list(base64.b64decode(PNG))}
    messages = [
        vscode(1, {"value": "look"}, data),
        vscode(2, {"value": "hm"}, {"callId": "c1", "name": "f", "input": {"a": 1}}),
        vscode(1, {"callId": "c1", "content": [{"value": "x"}, {"value": "y"}]}),
    ]
    conversion = convert_messages(messages, to="openai-chat")
    assert conversion.source == "vscode"
    assert conversion.messages == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        calls(call("c1", arguments='{"a":1}'), content="hm"),
        result("c1", [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]),
    ]


def test_vscode_metadata_is_no_content() -> None:
    """The seed system decoded the bytes of a cache marker as text."""
    marker = {"mimeType": "cache_control", "data": [101]}
    conversion = convert_messages([vscode(1, {"value": "hi"}, marker)], to="anthropic")
    assert conversion.messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


def test_vscode_assistants_before_the_user_are_the_system_prompt() -> None:
    """The published gateway: plain strings before the first user are joined by a blank line."""
    one, two = ({"role": 2, "content": text} for text in ("one", "two"))
    user = vscode(1, {"value": "hi"})
    assert convert_messages([one, user], to="ai-sdk").body["instructions"] == "one"
    body = convert_messages([one, two, user, {"role": 2, "content": "later"}], to="ai-sdk").body
    assert body["instructions"] == "one\n\ntwo"
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    assert "instructions" not in convert_messages([one, two], to="ai-sdk").body


def test_vscode_oddities_do_not_raise() -> None:
    """Parts that are no objects are skipped; empty results are kept, so that no call is lost."""
    messages = [
        vscode(2, {"callId": "c1", "name": "f", "input": {}}),
        vscode(1, {"callId": "c1", "content": []}, None, 5, {"what": 1}),
        vscode(9, {"mimeType": "text/plain; charset=latin-1", "data": [228]}),
    ]
    for target in DIALECTS:
        conversion = convert_messages(messages, to=target)
        assert "ä" in json.dumps(conversion.body, ensure_ascii=False)
        assert "unanswered_call" not in kinds(conversion)


# ------------------------------------------------------------------------------ answers


CLAUDE_ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 5,
        "output_tokens": 7,
    },
}
ANSWERS = {target: convert_response(CLAUDE_ANSWER, to=target).body for target in DIALECTS}


def test_answers_are_what_the_sdks_return() -> None:
    from anthropic.types import Message as ClaudeMessage
    from google.genai.types import GenerateContentResponse
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

    completion = ChatCompletion.model_validate(ANSWERS["openai-chat"])
    assert completion.choices[0].finish_reason == "tool_calls"
    response = Response.model_validate(ANSWERS["openai-responses"])
    assert response.output_text == "hi"
    assert GenerateContentResponse.model_validate(ANSWERS["gemini"]).candidates
    assert ClaudeMessage.model_validate(ANSWERS["anthropic"]).stop_reason == "tool_use"
    for found in (completion, response):
        assert (
            convert_response(found, to="anthropic").body["content"] == CLAUDE_ANSWER["content"][1:]
        )


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_answers_convert_between_all_dialects(source: Any, target: Any) -> None:
    conversion = convert_response(ANSWERS[source], to=target)
    assert conversion.source == source
    text = json.dumps(conversion.body)
    assert '"hi"' in text
    assert "toolu_1" in text
    assert not {loss.kind for loss in conversion.losses} - {"form", "added", "reasoning", "field"}
    assert not conversion.warnings


def test_usage_keeps_its_meaning() -> None:
    """Anthropic counts cached tokens beside the input, OpenAI and Google inside of it."""
    usage = ANSWERS["openai-chat"]["usage"]
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (105, 112)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 90, "cache_write_tokens": 5}
    assert ANSWERS["gemini"]["usageMetadata"]["promptTokenCount"] == 105
    assert ANSWERS["ai-sdk"]["usage"]["inputTokens"] == 105
    back = convert_response(ANSWERS["openai-chat"], to="anthropic")
    assert back.body["usage"] == CLAUDE_ANSWER["usage"]
    thoughts = {"promptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}
    content = {"role": "model", "parts": [{"text": "x"}]}
    answer = {
        "candidates": [{"content": content, "finishReason": "MAX_TOKENS"}],
        "usageMetadata": thoughts,
    }
    converted = convert_response(answer, to="openai-responses").body
    assert converted["usage"]["output_tokens"] == 7
    assert converted["usage"]["output_tokens_details"] == {"reasoning_tokens": 4}
    assert converted["incomplete_details"] == {"reason": "max_output_tokens"}


def test_an_answer_is_known_from_a_request() -> None:
    assert convert_messages(CLAUDE_ANSWER, to="openai-chat").body == ANSWERS["openai-chat"]
    with pytest.raises(RequestError, match="is no answer"):
        convert_response(chat(USER), to="anthropic")
