"""What Gemini's frames bill, as recorded calls show it; the same in both implementations."""

from __future__ import annotations

from typing import Any

import pytest

import tokenctx

CALL_ID = "tool_weather_j0DpU01anCLITtFWepce"


@pytest.fixture
def estimator() -> Any:
    return tokenctx.HybridTokenEstimator(learning=False)


def tokens(estimator: Any, model: str, body: dict[str, Any], provider: str = "google") -> int:
    return int(estimator.estimate(body, model=model, provider=provider).tokens)


def said(*texts: str, role: str | None = "user") -> dict[str, Any]:
    content: dict[str, Any] = {"parts": [{"text": text} for text in texts]}
    return content if role is None else {"role": role, **content}


@pytest.mark.parametrize(("model", "frame"), [("gemini-2.5-flash", 1), ("gemini-2.0-flash", 0)])
def test_the_frame_is_billed_with_the_role(estimator: Any, model: str, frame: int) -> None:
    with_role = tokens(estimator, model, {"contents": [said("hello there")]})
    assert with_role - tokens(estimator, model, {"contents": [said("hello there", role=None)]}) == (
        frame
    )
    system = {"contents": [said("hello")], "systemInstruction": said("be brief")}
    bare = {"contents": [said("hello")], "systemInstruction": said("be brief", role=None)}
    assert tokens(estimator, model, system) - tokens(estimator, model, bare) == frame


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-2.0-flash", "gemini-3-flash"])
def test_blocks_of_text_are_counted_one_by_one(estimator: Any, model: str) -> None:
    joined = tokens(estimator, model, {"contents": [said("Hello lion! Hello")]})
    apart = tokens(estimator, model, {"contents": [said("Hel", "lo li", "on! Hello")]})
    assert apart > joined


def test_a_claude_model_reads_blocks_as_one_text(estimator: Any) -> None:
    model = "claude-sonnet-4-5"
    joined = tokens(estimator, model, {"contents": [said("Hello lion!")]}, "anthropic")
    assert joined == tokens(estimator, model, {"contents": [said("Hel", "lo lion!")]}, "anthropic")


def test_an_empty_message_is_one_token_where_texts_alone_are_billed(estimator: Any) -> None:
    assert tokens(estimator, "gemini-2.0-flash", {"contents": [said("")]}) == 1


def test_a_number_of_a_call_is_one_token_where_texts_alone_are_billed(estimator: Any) -> None:
    def called(arguments: dict[str, Any]) -> dict[str, Any]:
        call = {"functionCall": {"name": "add", "args": arguments}}
        return {"contents": [said("add"), {"role": "model", "parts": [call]}]}

    number, truth = called({"a": 30_000}), called({"a": True})
    model = "gemini-2.0-flash"
    assert tokens(estimator, model, number) - tokens(estimator, model, truth) == 1


def test_openrouter_names_results_by_the_id_and_reads_json(estimator: Any) -> None:
    def answered(content: str, call_id: str = CALL_ID) -> dict[str, Any]:
        call = {"id": call_id, "function": {"name": "weather", "arguments": "{}"}}
        return {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call_id, "content": content},
            ]
        }

    def count(body: dict[str, Any], provider: str = "openrouter") -> int:
        return tokens(estimator, "google/gemini-2.5-flash", body, provider)

    name = count(answered("ok")) - count(answered("ok", ""))
    assert name > 8
    assert count(answered("ok"), "vertex") == count(answered("ok", ""), "vertex")
    assert count(answered('{"a": "b"}')) == count(answered('{"a":   "b"}'))
    assert count(answered('{"a": "b"}'), "vertex") != count(answered('{"a":   "b"}'), "vertex")


def test_the_id_of_a_call_is_no_part_of_the_identity(estimator: Any) -> None:
    def body(call_id: str) -> dict[str, Any]:
        result = {"role": "tool", "tool_call_id": call_id, "content": "ok"}
        return {"model": "google/gemini-2.5-flash", "messages": [result]}

    estimator.record(body(CALL_ID), 40)
    assert estimator.estimate(body("another")).tokens == 40


def test_items_of_the_interactions_api_are_messages(estimator: Any) -> None:
    text = [{"type": "text", "text": "hello"}]
    named = {"input": [{"type": "user_input", "content": text}]}
    spoken = {"input": [{"role": "user", "content": text}]}
    model = "gemini-3-flash-preview"
    assert tokens(estimator, model, named) == tokens(estimator, model, spoken)
    named = {"input": [{"type": "model_output", "content": text}]}
    spoken = {"input": [{"role": "assistant", "content": text}]}
    assert tokens(estimator, model, named) == tokens(estimator, model, spoken)
