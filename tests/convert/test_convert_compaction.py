"""A summary that the provider made is text elsewhere, and stands for what was said before it."""

from __future__ import annotations

from typing import Any

import pytest

from tokenctx import convert_messages

BLOCK = {"type": "compaction", "content": "Summary: greetings were exchanged."}
BODY: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 64,
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "first words"},
        {"role": "assistant", "content": [{"type": "text", "text": "second words"}]},
        {"role": "user", "content": "third words"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "passing"},
                BLOCK,
                {"type": "text", "text": "Yes."},
            ],
        },
        {"role": "user", "content": "Go on."},
    ],
}


@pytest.mark.parametrize("to", ["openai-chat", "openai-responses", "gemini", "ai-sdk"])
def test_a_block_becomes_text_and_what_it_stands_for_is_left_out(to: Any) -> None:
    converted = convert_messages(BODY, to, source="anthropic")
    text = str(converted.body)
    assert "Summary: greetings were exchanged." in text
    assert "Be brief." in text
    assert "Yes." in text
    assert not any(word in text for word in ("first", "second", "third", "passing"))
    assert [(it.kind, it.where) for it in converted.losses if it.kind == "summary"] == [
        ("summary", "messages[3].content[1]")
    ]


def test_its_own_dialect_keeps_all() -> None:
    assert convert_messages(BODY, "anthropic", source="anthropic").body == BODY


def test_a_block_of_a_failed_attempt_stands_for_nothing() -> None:
    messages = [
        *BODY["messages"][:3],
        {"role": "assistant", "content": [{**BLOCK, "content": None}]},
    ]
    text = str(convert_messages({**BODY, "messages": messages}, "openai-chat").body)
    assert "first words" in text
    assert "second words" in text
