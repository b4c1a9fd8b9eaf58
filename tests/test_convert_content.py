"""What becomes of media, cache markers, citations, refusals and reasoning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conversion_cases import PDF, PNG, USER, chat, claude, kinds, where
from conversion_law import DIALECTS
from tokenctx import ConversionError, ConversionOptions, convert_messages

# ------------------------------------------------------------------------------ content


def media_of(body: Any) -> list[str]:
    """Kinds of media in a body, by what every dialect calls them."""
    text = json.dumps(body)
    return [word for word in (PNG, PDF, "https://example.com/a.png") if word in text]


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_images_and_pdfs_pass_between_all_dialects(source: Any, target: Any) -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {
            "type": "file",
            "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a"},
        },
    ]
    first = convert_messages(chat({"role": "user", "content": parts}), to=source)
    second = convert_messages(first.body, to=target, source=source)
    assert media_of(second.body) == [PNG, PDF, "https://example.com/a.png"]
    assert "media" not in kinds(second)


def test_uploads_are_known_to_their_maker_alone() -> None:
    body = chat({"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]})
    assert where(convert_messages(body, to="anthropic"), "media") == ["messages[0].content[0]"]
    there = convert_messages(body, to="ai-sdk")
    assert there.messages[0]["content"][0]["data"] == {"openai": "file-1"}
    assert (
        convert_messages(there.body, to="openai-chat", source="ai-sdk").messages == body["messages"]
    )


def test_what_a_target_does_not_take_becomes_a_line_of_text() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}
    conversion = convert_messages(chat({"role": "user", "content": [audio]}), to="anthropic")
    assert conversion.messages[0]["content"] == [{"type": "text", "text": "[Audio: audio/wav]"}]
    source = {"type": "text", "media_type": "text/plain", "data": "a document"}
    body = claude({"role": "user", "content": [{"type": "document", "source": source}]})
    conversion = convert_messages(body, to="openai-chat")
    assert conversion.messages[0]["content"] == [{"type": "text", "text": "a document"}]
    assert kinds(conversion) == {"media_as_text"}


ASSISTANT_IMAGE = {
    "messages": [
        {"role": "user", "content": "draw"},
        {"role": "assistant", "content": [{"type": "file", "data": PNG, "mediaType": "image/png"}]},
    ]
}


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses", "anthropic"])
def test_an_image_of_the_assistant_is_replaced_skipped_or_refused(target: Any) -> None:
    replaced = convert_messages(ASSISTANT_IMAGE, to=target, source="ai-sdk")
    assert "[Image]" in json.dumps(replaced.messages[1])
    assert "image_in_non_user_message" in kinds(replaced)
    options = ConversionOptions(image_in_non_user_message="skip")
    skipped = convert_messages(ASSISTANT_IMAGE, to=target, source="ai-sdk", options=options)
    assert "[Image]" not in json.dumps(skipped.messages)
    options = ConversionOptions(image_in_non_user_message="error")
    with pytest.raises(ConversionError, match=r"messages\[1\]\.content\[0\]"):
        convert_messages(ASSISTANT_IMAGE, to=target, source="ai-sdk", options=options)


def test_cache_markers_are_kept_or_named() -> None:
    cache = {"type": "ephemeral", "ttl": "1h"}
    part = {"type": "text", "text": "x", "cache_control": cache}
    tool = {"name": "f", "input_schema": {"type": "object"}, "cache_control": cache}
    body = claude({"role": "user", "content": [part]}, system=[part], tools=[tool])
    there = convert_messages(body, to="ai-sdk")
    back = convert_messages(there.body, to="anthropic", source="ai-sdk")
    assert back.body == body
    assert not there.losses
    assert sorted(where(convert_messages(body, to="gemini"), "cache_control")) == [
        "messages[0].content[0].cache_control",
        "system[0].cache_control",
        "tools[0].cache_control",
    ]


def test_refusals_and_citations_are_named() -> None:
    body = chat({"role": "assistant", "content": None, "refusal": "I will not"}, USER)
    conversion = convert_messages(body, to="anthropic")
    assert conversion.messages[0]["content"] == [{"type": "text", "text": "I will not"}]
    assert kinds(conversion) == {"refusal"}
    cited = {"type": "text", "text": "x", "citations": [{"type": "char_location"}]}
    conversion = convert_messages(claude({"role": "assistant", "content": [cited]}), to="gemini")
    assert where(conversion, "citations") == ["messages[0].content[0].citations"]


# ------------------------------------------------------------------------------ reasoning


THINKING = {"type": "thinking", "thinking": "  hm \n", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
REASONING = {
    "anthropic": claude(
        {"role": "assistant", "content": [THINKING, REDACTED, {"type": "text", "text": "x"}]}
    ),
    "openai-responses": {
        "model": "gpt-5",
        "input": [{**ITEM, "encrypted_content": "c2Vj"}, {"role": "assistant", "content": "x"}],
    },
    "gemini": {
        "contents": [
            {
                "role": "model",
                "parts": [
                    {"text": " hm", "thought": True, "thoughtSignature": "c2ln"},
                    {"text": "x", "thoughtSignature": "dGV4dA=="},
                ],
            }
        ]
    },
}


@pytest.mark.parametrize("source", REASONING)
def test_reasoning_comes_back_unchanged_through_the_ai_sdk(source: Any) -> None:
    body = REASONING[source]
    there = convert_messages(body, to="ai-sdk", source=source)
    back = convert_messages(there.body, to=source, source="ai-sdk")
    field = {"openai-responses": "input", "gemini": "contents"}.get(source, "messages")
    assert back.body[field] == body[field]
    assert not kinds(there)


@pytest.mark.parametrize("target", DIALECTS[:-1])
@pytest.mark.parametrize("source", REASONING)
def test_reasoning_of_another_maker_is_dropped_and_named(source: Any, target: Any) -> None:
    conversion = convert_messages(REASONING[source], to=target, source=source)
    if source == target:
        assert conversion.body == REASONING[source]
        return
    text = json.dumps(conversion.body)
    assert "hm" not in text
    assert "c2ln" not in text
    assert "c2Vj" not in text
    assert "reasoning" in kinds(conversion)


@pytest.mark.parametrize("source", REASONING)
def test_reasoning_does_not_follow_to_another_model(source: Any) -> None:
    options = ConversionOptions(model="another-model")
    body = {"model": "the-first", **REASONING[source]}
    conversion = convert_messages(body, to=source, source=source, options=options)
    assert conversion.body["model"] == "another-model"
    assert "hm" not in json.dumps(conversion.body)
    assert "reasoning" in kinds(conversion)
    same = ConversionOptions(model=body["model"])
    assert convert_messages(body, to=source, source=source, options=same).body == body


@pytest.mark.parametrize("target", DIALECTS)
def test_empty_reasoning_makes_no_part(target: Any) -> None:
    body = chat({"role": "assistant", "content": "x", "reasoning_content": ""}, USER)
    conversion = convert_messages(body, to=target)
    assert target == "openai-chat" or "reasoning" not in json.dumps(conversion.body)


def test_a_signature_on_a_call_comes_back() -> None:
    part = {"functionCall": {"name": "f", "args": {}, "id": "a"}, "thoughtSignature": "c2ln"}
    answer = {"functionResponse": {"name": "f", "id": "a", "response": {"output": "ok"}}}
    body = {
        "contents": [{"role": "model", "parts": [part]}, {"role": "user", "parts": [answer]}],
    }
    there = convert_messages(body, to="ai-sdk")
    assert convert_messages(there.body, to="gemini", source="ai-sdk").body == body
    assert "signature" in kinds(convert_messages(body, to="anthropic"))
