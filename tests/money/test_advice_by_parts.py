"""Advice goes by parts: what stands before a mark or a change inside of a message counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator

MARK = {"cache_control": {"type": "ephemeral"}}
LONG = {"type": "text", "text": "test " * 3_000}
LONGER = {"type": "text", "text": "word " * 5_000}
SHORT = {"type": "text", "text": "more " * 100}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool(words: str) -> dict[str, Any]:
    return {"name": "look", "description": words, "input_schema": {"type": "object"}}


def body(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": list(blocks)}]
    return {"model": "claude-sonnet-4-5", "max_tokens": 5, **more, "messages": messages}


def advice(request: Any, previous: Any = None) -> list[tuple[str, str, int]]:
    found = HybridTokenEstimator().cache_advice(request, previous)
    return [(it.kind, it.place, it.tokens) for it in found]


def near(tokens: int) -> Any:
    return pytest.approx(tokens, abs=30)


def test_what_stands_behind_a_mark_does_not_make_it_worth_it() -> None:
    assert advice(body({**SHORT, **MARK}, LONGER)) == [
        ("mark_below_minimum", "messages[0].content[0]", near(100))
    ]
    assert advice(body({**LONG, **MARK}, SHORT)) == [("nothing_to_do", "", near(3_100))]


def test_a_question_behind_a_mark_may_change() -> None:
    one, other = (body({**LONG, **MARK}, text(f"{it}? " * 50)) for it in ("Why", "How"))
    assert advice(one, other) == [("prefix_changes", "messages[0].content[1].text", near(100))]


def test_a_mark_behind_a_change_in_the_same_message_is_named() -> None:
    one, other = (body(text(f"{it}. " * 50), {**LONG, **MARK}, SHORT) for it in ("Mon", "Sun"))
    assert advice(one, other) == [
        ("prefix_changes", "messages[0].content[0].text", near(3_200)),
        ("mark_behind_change", "messages[0].content[1]", near(3_100)),
    ]


def test_tools_stand_before_the_system_prompt() -> None:
    tools = [{**tool("test " * 2_000), **MARK}]
    one, other = (body(SHORT, tools=tools, system=[text(f"{it} " * 9)]) for it in ("Mon", "Sun"))
    assert [it[:2] for it in advice(one, other)] == [("prefix_changes", "system[0].text")]
    few = [{**tool("Looks."), **MARK}]
    kind, place, tokens = advice(body(LONGER, tools=few))[0]
    assert (kind, place) == ("mark_below_minimum", "tools[0]")
    assert tokens < 700
    system = [{**LONG, **MARK}]
    before, after = (body(SHORT, tools=[tool(it)], system=system) for it in ("Old.", "New."))
    assert [it[:2] for it in advice(after, before)] == [
        ("prefix_changes", "tools[0].description"),
        ("mark_behind_change", "system"),
    ]


def test_bytes_and_other_forms_have_the_same_advice() -> None:
    request = body({**SHORT, **MARK}, LONGER)
    assert advice(json.dumps(request).encode()) == advice(request)
    converse = {
        "modelId": "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "messages": [
            {
                "role": "user",
                "content": [{"text": SHORT["text"]}, {"cachePoint": {"type": "default"}}],
            }
        ],
    }
    kind, place, tokens = advice(converse)[0]
    assert (kind, place, tokens) == ("mark_below_minimum", "messages[0]", near(100))
