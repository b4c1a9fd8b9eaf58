"""Gemini's Interactions as a dialect to convert from and to: steps, thoughts, answers, forms."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx.convert import convert_messages, convert_response

Json = dict[str, Any]

MODEL: Final = "gemini-3.5-flash"
INTERACTIONS: Final = "gemini-interactions"


def said(text: str) -> Json:
    return {"type": "text", "text": text}


ASKED: Final[Json] = {"type": "user_input", "content": [said("What is the weather in Paris?")]}
THOUGHT: Final[Json] = {"type": "thought", "signature": "c2ln", "summary": [said("It may rain.")]}
CALL: Final[Json] = {
    "type": "function_call",
    "id": "call_1",
    "name": "weather",
    "arguments": {"city": "Paris"},
}
RESULT: Final[Json] = {
    "type": "function_result",
    "call_id": "call_1",
    "name": "weather",
    "result": {"sky": "grey"},
}
TOLD: Final[Json] = {"type": "model_output", "content": [said("It rains.")]}
STEPS: Final = [ASKED, THOUGHT, CALL, RESULT, TOLD]
PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}}
REQUEST: Final[Json] = {
    "model": MODEL,
    "input": STEPS,
    "system_instruction": "Be brief.",
    "tools": [{"type": "function", "name": "weather", "parameters": PARAMETERS}],
    "generation_config": {
        "max_output_tokens": 50,
        "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["weather"]}},
    },
}


def test_generate_content_is_the_same_in_other_words() -> None:
    """Nothing is lost on the way there and back: the signature stands at the call there."""
    there = convert_messages(REQUEST, to="gemini")
    assert there.source == INTERACTIONS
    _, answer, results, last = there.body["contents"]
    assert answer["parts"] == [
        {"text": "It may rain.", "thought": True},
        {
            "functionCall": {"name": "weather", "args": {"city": "Paris"}, "id": "call_1"},
            "thoughtSignature": "c2ln",
        },
    ]
    assert results["parts"][0]["functionResponse"]["response"] == {"sky": "grey"}
    assert last["parts"] == [{"text": "It rains."}]
    assert not there.losses
    back = convert_messages(there.body, to=INTERACTIONS, source="gemini")
    assert back.body == REQUEST


@pytest.mark.parametrize("to", ["openai-chat", "openai-responses", "anthropic", "ai-sdk"])
def test_all_that_is_said_goes_to_other_vendors(to: Any) -> None:
    there = convert_messages(REQUEST, to=to)
    back = convert_messages(there.body, to=INTERACTIONS, source=to)
    steps = [it for it in back.body["input"] if it["type"] != "thought"]
    result = steps[2].pop("result")
    assert result in ({"sky": "grey"}, '{"sky":"grey"}')
    assert steps == [ASKED, CALL, {k: v for k, v in RESULT.items() if k != "result"}, TOLD]
    assert back.body["tools"] == REQUEST["tools"]
    assert back.body["system_instruction"] == "Be brief."
    lost = {loss.kind for loss in there.losses}
    assert lost <= {"reasoning", "signature", "json_as_text", "added", "form"}
    if to != "ai-sdk":
        assert "reasoning" in lost


@pytest.mark.parametrize(
    "asked",
    ["hi", said("hi"), [said("hi")], [{"type": "user_input", "content": [said("hi")]}]],
    ids=["text", "content", "contents", "steps"],
)
def test_every_form_of_input_is_read(asked: Any) -> None:
    body = {"model": MODEL, "input": asked}
    found = convert_messages(body, to="openai-chat", source=INTERACTIONS)
    assert found.messages in (
        [{"role": "user", "content": "hi"}],
        [{"role": "user", "content": [said("hi")]}],
    )
    assert convert_messages(body, to=INTERACTIONS, source=INTERACTIONS).body == body


def test_the_sdk_takes_what_is_written() -> None:
    from google.genai._gaos.types.interactions import CreateModelInteraction

    url = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    picture = {"type": "image_url", "image_url": {"url": url}}
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]
    body = {
        "model": MODEL,
        "max_completion_tokens": 9,
        "reasoning_effort": "low",
        "tool_choice": "required",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [said("look"), picture]},
            {"role": "assistant", "content": "I look.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "a", "content": "seen"},
        ],
    }
    found = convert_messages(body, to=INTERACTIONS)
    assert CreateModelInteraction.model_validate(found.body).model == MODEL
    kinds = [it["type"] for it in found.messages]
    assert kinds == ["user_input", "model_output", "function_call", "function_result"]
    assert found.body["generation_config"] == {
        "max_output_tokens": 9,
        "thinking_level": "low",
        "tool_choice": "any",
    }
    assert not {loss.kind for loss in found.losses} - {"form", "added"}
    assert HybridTokenEstimator().estimate(found.body).dialect == INTERACTIONS


@pytest.mark.parametrize(
    ("field", "value"),
    [("previous_interaction_id", "v1_a"), ("cached_content", "c"), ("tools", [{"type": "x"}])],
)
def test_state_and_tools_of_the_server_are_named(field: str, value: Any) -> None:
    body = {"model": MODEL, "input": "hi", field: value}
    losses = convert_messages(body, to="anthropic", source=INTERACTIONS).losses
    assert any(loss.path[0] == field for loss in losses)


def test_steps_of_the_vendors_tools_are_named() -> None:
    search = {"type": "google_search_call", "id": "s", "arguments": {"queries": ["a"]}}
    found = convert_messages({"model": MODEL, "input": [ASKED, search, TOLD]}, to="anthropic")
    assert [it.path for it in found.losses if it.kind == "unknown_part"] == [("input",)]
    assert [it["role"] for it in found.messages] == ["user", "assistant"]


ANSWER: Final[Json] = {
    "id": "v1_b",
    "model": MODEL,
    "status": "requires_action",
    "steps": [THOUGHT, CALL],
    "usage": {
        "total_input_tokens": 100,
        "total_cached_tokens": 40,
        "total_output_tokens": 20,
        "total_thought_tokens": 7,
        "total_tokens": 127,
    },
}


def test_an_answer_is_read_and_written() -> None:
    there = convert_response(ANSWER, to="gemini")
    assert there.source == INTERACTIONS
    assert there.body["usageMetadata"]["candidatesTokenCount"] == 20
    assert there.body["usageMetadata"]["thoughtsTokenCount"] == 7
    assert convert_response(there.body, to=INTERACTIONS).body == ANSWER
    chat = convert_response(ANSWER, to="openai-chat").body
    assert chat["choices"][0]["finish_reason"] == "tool_calls"
    assert (chat["usage"]["prompt_tokens"], chat["usage"]["completion_tokens"]) == (100, 27)
    cut = convert_response({**ANSWER, "steps": [TOLD], "status": "incomplete"}, to="anthropic")
    assert cut.body["stop_reason"] == "max_tokens"
