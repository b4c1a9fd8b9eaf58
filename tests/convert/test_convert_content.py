"""What becomes of media, cache markers, citations, refusals and reasoning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conversion_cases import PDF, PNG, USER, call, calls, chat, claude, kinds, result, where
from conversion_law import DIALECTS
from tokenctx import convert_messages
from tokenctx.convert import ConversionError, ConversionOptions

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


def test_an_uploaded_image_is_a_file_of_chat() -> None:
    part = {"type": "input_image", "file_id": "file-1"}
    body = {"model": "gpt-4o", "input": [{"role": "user", "content": [part]}]}
    parts = convert_messages(body, to="openai-chat").messages[0]["content"]
    assert parts == [{"type": "file", "file": {"file_id": "file-1"}}]


def test_a_file_of_no_more_than_a_top_level_type_is_looked_at() -> None:
    part = {"type": "file", "data": PDF, "mediaType": "application"}
    messages = [{"role": "user", "content": [part]}]
    block = convert_messages(messages, to="anthropic", source="ai-sdk").messages[0]["content"][0]
    assert block["source"] == {"type": "base64", "media_type": "application/pdf", "data": PDF}


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


MARKER = {"type": "ephemeral"}
AI_SDK_MARKER = {"anthropic": {"cacheControl": MARKER}}
MARKED_RESULT = {"type": "tool-result", "toolCallId": "a", "toolName": "f"}
OUTPUT = {"type": "text", "value": "ok"}
AI_SDK_CALL = {
    "role": "assistant",
    "content": [{"type": "tool-call", "toolCallId": "a", "toolName": "f", "input": {}}],
}


@pytest.mark.parametrize(
    ("source", "messages"),
    [
        ("ai-sdk", [{"role": "user", "content": "x", "providerOptions": AI_SDK_MARKER}]),
        (
            "ai-sdk",
            [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
                    "providerOptions": AI_SDK_MARKER,
                }
            ],
        ),
        ("ai-sdk", [{"role": "assistant", "content": "x", "providerOptions": AI_SDK_MARKER}]),
        (
            "ai-sdk",
            [
                AI_SDK_CALL,
                {
                    "role": "tool",
                    "content": [{**MARKED_RESULT, "output": OUTPUT}],
                    "providerOptions": AI_SDK_MARKER,
                },
            ],
        ),
        (
            "ai-sdk",
            [
                AI_SDK_CALL,
                {
                    "role": "tool",
                    "content": [
                        {**MARKED_RESULT, "output": {**OUTPUT, "providerOptions": AI_SDK_MARKER}}
                    ],
                },
            ],
        ),
        ("openai-chat", [{"role": "user", "content": "x", "cache_control": MARKER}]),
        ("openai-chat", [{"role": "system", "content": "x", "cache_control": MARKER}, USER]),
        ("openai-chat", [{"role": "assistant", "content": "x", "cache_control": MARKER}, USER]),
        ("openai-chat", [calls(call("a")), {**result("a"), "cache_control": MARKER}]),
    ],
)
def test_the_marker_of_a_message_is_that_of_its_last_part(source: Any, messages: Any) -> None:
    body = convert_messages(messages, to="anthropic", source=source).body
    blocks = [
        block
        for content in (body.get("system"), *(it["content"] for it in body["messages"]))
        for block in (content if isinstance(content, list) else [])
    ]
    assert [block.get("cache_control") for block in blocks[-1:]] == [MARKER]
    assert json.dumps(body).count("cache_control") == 1


@pytest.mark.parametrize("source", ["openai-chat", "anthropic", "ai-sdk"])
def test_no_more_markers_go_out_than_claude_takes(source: Any) -> None:
    part = {"type": "text", "text": "x", "cache_control": MARKER}
    marked = [{"role": "user", "content": [part]}] * 5
    body = claude(*marked, system=[part])
    given = body if source == "anthropic" else convert_messages(body, to="ai-sdk").body
    if source == "openai-chat":
        given = chat({"role": "system", "content": body["system"]}, *marked)
    conversion = convert_messages(given, to="anthropic", source=source)
    assert conversion.body["system"] == body["system"]
    kept = [number for number, it in enumerate(conversion.messages) if "cache" in json.dumps(it)]
    assert kept == [2, 3, 4], "the longest beginnings stay marked"
    assert len(where(conversion, "excess_marker")) == 2
    options = ConversionOptions(policy="keep")
    kept_all = convert_messages(given, to="anthropic", source=source, options=options)
    assert json.dumps(kept_all.body).count("cache_control") == 6


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
    if target.startswith(source):  # two dialects of one maker, who takes it back
        steps = [it for it in conversion.body["input"] if it["type"] == "thought"]
        assert [it["signature"] for it in steps] == ["c2ln", "dGV4dA=="]
        assert steps[0]["summary"] == [{"type": "text", "text": " hm"}]
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


def test_thinking_blocks_of_litellm_are_claudes_own() -> None:
    blocks = {"thinking_blocks": [THINKING, REDACTED], "reasoning_content": THINKING["thinking"]}
    message = {**calls(call("a")), **blocks}
    conversion = convert_messages(chat(USER, message, result("a")), to="anthropic")
    assert conversion.messages[1]["content"][:2] == [THINKING, REDACTED]
    assert len(conversion.messages[1]["content"]) == 3
    unsigned = {"thinking_blocks": [{"type": "thinking", "thinking": "hm"}]}
    conversion = convert_messages(chat(USER, {**calls(call("a")), **unsigned}), to="anthropic")
    assert "hm" not in json.dumps(conversion.body)
    assert "messages[1].thinking_blocks" in where(conversion, "field")


def test_openai_reasoning_needs_no_id_if_it_is_encrypted() -> None:
    proof = {"openai": {"reasoningEncryptedContent": "c2Vj"}}
    part = {"type": "reasoning", "text": "hm", "providerOptions": proof}
    messages = [USER, {"role": "assistant", "content": [part]}]
    conversion = convert_messages(messages, to="openai-responses", source="ai-sdk")
    item = {"type": "reasoning", "summary": ITEM["summary"], "encrypted_content": "c2Vj"}
    assert conversion.messages[1] == item
    assert "reasoning" not in kinds(conversion)


@pytest.mark.parametrize("target", DIALECTS)
def test_empty_reasoning_makes_no_part(target: Any) -> None:
    body = chat({"role": "assistant", "content": "x", "reasoning_content": ""}, USER)
    conversion = convert_messages(body, to=target)
    assert target == "openai-chat" or "reasoning" not in json.dumps(conversion.body)


@pytest.mark.parametrize("name", ["google", "vertex", "googleVertex"])
def test_a_signature_is_found_where_the_ai_sdk_puts_it(name: str) -> None:
    signed = {"providerOptions": {name: {"thoughtSignature": "c2ln", "other": 1}}}
    parts = [
        {"type": "reasoning", "text": "hm", **signed},
        {"type": "tool-call", "toolCallId": "a", "toolName": "f", "input": {}, **signed},
    ]
    messages = [USER, {"role": "assistant", "content": parts}]
    conversion = convert_messages(messages, to="gemini", source="ai-sdk")
    assert [part["thoughtSignature"] for part in conversion.messages[1]["parts"]] == ["c2ln"] * 2
    lost = where(conversion, "field")
    assert [f"[{at}].providerOptions" in path for at, path in enumerate(lost)] == [True, True]


SIGNED = {**call("a"), "extra_content": {"google": {"thought_signature": "c2ln"}}}


def test_a_signature_passes_through_googles_endpoint_for_openai() -> None:
    body = chat(USER, calls(SIGNED), result("a"))
    part = convert_messages(body, to="gemini").messages[1]["parts"][0]
    assert part["thoughtSignature"] == "c2ln"
    there = convert_messages({**body, "model": "gemini-2.5-pro"}, to="ai-sdk")
    back = convert_messages(there.body, to="openai-chat", source="ai-sdk")
    assert back.messages[1]["tool_calls"] == [SIGNED]
    other = convert_messages({**there.body, "model": "gpt-4o"}, to="openai-chat", source="ai-sdk")
    assert other.messages[1]["tool_calls"] == [call("a")]
    assert "signature" in kinds(other)


@pytest.mark.parametrize("model", ["gemini-3-pro-preview", "google/gemini-3.5-flash"])
def test_a_call_for_gemini_3_without_a_signature_gets_the_stand_in(model: str) -> None:
    body = chat(USER, calls(call("a"), call("b")), result("a"), result("b"), model=model)
    conversion = convert_messages(body, to="gemini")
    signatures = [part.get("thoughtSignature") for part in conversion.messages[1]["parts"]]
    assert signatures == ["skip_thought_signature_validator", None]
    assert [str(note.where) for note in conversion.warnings] == [
        "messages[1].tool_calls[0].thoughtSignature"
    ]
    older = convert_messages({**body, "model": "gemini-2.5-pro"}, to="gemini")
    assert "thoughtSignature" not in json.dumps(older.body)
    signed = convert_messages({**body, "messages": [USER, calls(SIGNED), result("a")]}, to="gemini")
    assert signed.messages[1]["parts"][0]["thoughtSignature"] == "c2ln"


def test_a_signature_on_a_call_comes_back() -> None:
    part = {"functionCall": {"name": "f", "args": {}, "id": "a"}, "thoughtSignature": "c2ln"}
    answer = {"functionResponse": {"name": "f", "id": "a", "response": {"output": "ok"}}}
    body = {
        "contents": [{"role": "model", "parts": [part]}, {"role": "user", "parts": [answer]}],
    }
    there = convert_messages(body, to="ai-sdk")
    assert convert_messages(there.body, to="gemini", source="ai-sdk").body == body
    assert "signature" in kinds(convert_messages(body, to="anthropic"))
