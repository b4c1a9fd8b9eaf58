"""Gemini's Interactions: steps cost what the same contents cost in generateContent."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx._core import _request_view

Json = dict[str, Any]

MODEL: Final = "gemini-3.5-flash"
WORDS: Final = "word " * 500
SIGNATURE: Final = "CiQB" + "A" * 400
PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION: Final = {"name": "weather", "description": "Tells it.", "parameters": PARAMETERS}
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def said(text: str) -> Json:
    return {"type": "text", "text": text}


STEPS: Final[list[tuple[Json, Json]]] = [
    (
        {"type": "user_input", "content": [said("What is the weather in Paris?")]},
        {"role": "user", "parts": [{"text": "What is the weather in Paris?"}]},
    ),
    (
        {"type": "function_call", "id": "c", "name": "weather", "arguments": {"city": "Paris"}},
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "weather", "args": {"city": "Paris"}}}],
        },
    ),
    (
        {"type": "function_result", "call_id": "c", "name": "weather", "result": {"sky": WORDS}},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "weather", "response": {"sky": WORDS}}}],
        },
    ),
    (
        {"type": "model_output", "content": [said("It rains.")]},
        {"role": "model", "parts": [{"text": "It rains."}]},
    ),
    (
        {
            "type": "user_input",
            "content": [{"type": "image", "mime_type": "image/png", "data": PIXEL}],
        },
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]},
    ),
]


def estimated(body: Any, **names: Any) -> Any:
    return HybridTokenEstimator(learning=False).estimate(body, **names)


def interaction(steps: Any, **more: Any) -> Json:
    return {"model": MODEL, "input": steps, **more}


@pytest.mark.parametrize("count", range(1, len(STEPS) + 1))
def test_steps_cost_what_contents_cost(count: int) -> None:
    steps = estimated(interaction([step for step, _ in STEPS[:count]]))
    contents = {"model": MODEL, "contents": [content for _, content in STEPS[:count]]}
    other = estimated(contents)
    assert steps.dialect == "gemini-interactions"
    assert (steps.tokens, steps.low, steps.high) == (other.tokens, other.low, other.high)
    assert steps.assumptions == other.assumptions == ()


def test_a_thought_costs_what_a_signed_thought_costs() -> None:
    ask, call = STEPS[0], STEPS[1]
    thought = {"type": "thought", "signature": SIGNATURE, "summary": [said("It may rain.")]}
    signed = {**call[1]["parts"][0], "thoughtSignature": SIGNATURE}
    parts = [{"text": "It may rain.", "thought": True}, signed]
    steps = estimated(interaction([ask[0], thought, call[0]]))
    other = estimated({"model": MODEL, "contents": [ask[1], {"role": "model", "parts": parts}]})
    assert abs(steps.tokens - other.tokens) <= 1, "a step is rounded by itself"
    assert steps.assumptions == other.assumptions


@pytest.mark.parametrize(
    "result", [WORDS, [said(WORDS)], {"sky": WORDS}], ids=["text", "list", "object"]
)
def test_no_result_is_lost(result: Any) -> None:
    steps = [STEPS[0][0], STEPS[1][0], {**STEPS[2][0], "result": result}]
    assert estimated(interaction(steps)).tokens > 500


def test_what_stands_around_the_steps_costs_what_it_costs_elsewhere() -> None:
    tool_choice = {"allowed_tools": {"mode": "any", "tools": ["weather"]}}
    steps = interaction(
        "hi",
        system_instruction="Be nice.",
        tools=[{"type": "function", **FUNCTION}],
        generation_config={"tool_choice": tool_choice, "max_output_tokens": 77},
        response_format={"type": "text", "mime_type": "application/json", "schema": PARAMETERS},
    )
    contents = {
        "model": MODEL,
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "Be nice."}]},
        "tools": [{"functionDeclarations": [FUNCTION]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"responseJsonSchema": PARAMETERS, "maxOutputTokens": 77},
    }
    one, other = estimated(steps), estimated(contents)
    assert (one.tokens, one.low, one.high) == (other.tokens, other.low, other.high)
    assert one.requested_output_tokens == other.requested_output_tokens == 77
    views = [json.loads(_request_view(body)) for body in (steps, contents)]
    assert views[0]["tool_choice"] == views[1]["tool_choice"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("previous_interaction_id", "v1_abc"),
        ("agent", "deep-research-pro-preview-12-2025"),
        ("cached_content", "cachedContents/a"),
        ("continuation_token", "abc"),
        ("environment", "env_1"),
    ],
)
def test_what_the_server_keeps_is_labelled(field: str, value: str) -> None:
    found = estimated(interaction("hi", **{field: value}))
    assert "server_state" in found.assumptions
    assert found.quality == "heuristic"
    assert 2000 < found.high < 20_000


@pytest.mark.parametrize(("level", "tokens"), [("low", 280), ("medium", 560), ("high", 1120)])
def test_the_resolution_of_an_image_is_read(level: str, tokens: int) -> None:
    image = {"type": "image", "mime_type": "image/png", "data": PIXEL, "resolution": level}
    found = estimated(interaction([{"type": "user_input", "content": [image]}]))
    assert tokens * 0.8 < found.tokens <= tokens + 4


@pytest.mark.parametrize("kind", ["image", "audio", "document", "video"])
def test_media_elsewhere_are_labelled(kind: str) -> None:
    part = {"type": kind, "uri": "files/abc", "mime_type": None}
    found = estimated(interaction([{"type": "user_input", "content": [part]}]))
    assert any(it.startswith("remote_") for it in found.assumptions)


def test_bytes_and_the_types_of_the_sdk_say_the_same() -> None:
    from google.genai._gaos.types.interactions import CreateModelInteraction

    body = interaction([step for step, _ in STEPS], tools=[{"type": "function", **FUNCTION}])
    of_dict = estimated(body)
    of_bytes = estimated(json.dumps(body).encode())
    of_sdk = estimated(CreateModelInteraction.model_validate(body))
    assert of_dict.dialect == of_bytes.dialect == of_sdk.dialect == "gemini-interactions"
    assert of_dict.tokens == of_bytes.tokens == of_sdk.tokens
    assert of_dict.assumptions == of_bytes.assumptions == of_sdk.assumptions


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        ({"model": "gpt-5", "input": "hi"}, "openai-responses"),
        ({"model": MODEL, "input": [{"role": "user", "content": "hi"}]}, "openai-responses"),
        ({"model": MODEL, "input": "hi"}, "gemini-interactions"),
        ({"model": MODEL, "input": [said("hi")]}, "gemini-interactions"),
        ({"input": [STEPS[0][0]]}, "gemini-interactions"),
        ([STEPS[0][0], STEPS[3][0]], "gemini-interactions"),
        ({"agent": "a", "agent_config": {"type": "dynamic"}, "input": "x"}, "gemini-interactions"),
        ({"model": MODEL, "prompt": "hi"}, "openai-chat"),
        ({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}, "openai-chat"),
        ({"model": MODEL, "contents": [{"parts": [{"text": "hi"}]}]}, "gemini"),
        ({"model": MODEL, "contents": [], "system_instruction": "a"}, "gemini"),
    ],
)
def test_the_dialect_is_told(body: Any, dialect: str) -> None:
    found = estimated(body)
    assert found.dialect == dialect
    assert "dialect_guessed" not in found.assumptions


def test_a_turn_behind_a_recorded_reply_goes_on_from_it() -> None:
    estimator = HybridTokenEstimator(learning=False)
    body = interaction([STEPS[0][0]])
    reply = {
        "steps": [STEPS[3][0]],
        "status": "completed",
        "usage": {"total_input_tokens": 9, "total_output_tokens": 4, "total_tokens": 13},
    }
    assert estimator.record(body, reply, reply=reply)
    later = {"type": "user_input", "content": [said("And in Rome?")]}
    found = estimator.estimate(interaction([STEPS[0][0], STEPS[3][0], later]))
    assert (found.source, found.known_tokens, found.new_message_count) == ("delta", 13, 1)
