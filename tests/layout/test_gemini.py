"""What Gemini's frames bill, as recorded calls show it; the same in both implementations."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import tokenctx

PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (800).to_bytes(4, "big") * 2 + b"\x08\x06\0\0\0"
).decode()
"""The header of a picture of 800 by 800."""
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


WEATHER = {
    "name": "get_weather",
    "description": "weather in a city",
    "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
}
ANSWER = {"type": "object", "properties": {"sky": {"type": "string"}}, "required": ["sky"]}


def declared(**more: Any) -> dict[str, Any]:
    tools = [{"functionDeclarations": [{**WEATHER, **more}]}]
    return {"contents": [said("Is it sunny?")], "tools": tools}


@pytest.mark.parametrize(
    ("model", "json_schema", "own_form"),
    [("gemini-2.0-flash", 0, 4), ("gemini-2.5-flash", 42, 42), ("gemini-3-flash", 24, 24)],
)
def test_the_schema_of_a_result_is_billed_by_generation(
    estimator: Any, model: str, json_schema: int, own_form: int
) -> None:
    """A dataclass with 2.5, a part of the declaration with 3; with 2.0 texts of its own form."""
    plain = tokens(estimator, model, declared())
    for key in ("responseJsonSchema", "response_json_schema"):
        assert tokens(estimator, model, declared(**{key: ANSWER})) - plain == json_schema
    assert tokens(estimator, model, declared(response=ANSWER)) - plain == own_form


def test_a_result_that_is_no_object_is_a_type_of_python(estimator: Any) -> None:
    text = declared(responseJsonSchema={"type": "string"})
    model = "gemini-2.5-flash"
    assert tokens(estimator, model, text) == tokens(estimator, model, declared())


def test_another_schema_of_a_result_is_another_context(estimator: Any) -> None:
    estimator.record(declared(responseJsonSchema=ANSWER), 100, model="gemini-3-flash")
    same = estimator.estimate(declared(responseJsonSchema=ANSWER), model="gemini-3-flash")
    other = estimator.estimate(declared(), model="gemini-3-flash")
    assert (same.source, other.source) == ("exact", "estimated")


def thought(*, signature: str, is_over: bool, part: dict[str, Any] | None = None) -> dict[str, Any]:
    call = part or {"functionCall": {"name": "get_weather", "args": {}}}
    answer = {"functionResponse": {"name": "get_weather", "response": {"sky": "blue"}}}
    contents = [
        said("Is it sunny?"),
        {"role": "model", "parts": [{**call, "thoughtSignature": signature}]},
        {"role": "user", "parts": [answer]},
    ]
    return {"contents": [*contents, said("And now?")] if is_over else contents}


def signature(*lengths: int) -> str:
    """One of thoughts in pieces of these lengths, each below 128 bytes."""
    pieces = (bytes([10, length]) + bytes(length) for length in lengths)
    return base64.b64encode(b"".join(pieces)).decode()


@pytest.mark.parametrize(
    ("model", "lengths", "is_over", "is_billed"),
    [
        ("gemini-2.5-flash", (100, 120), False, True),
        ("gemini-2.5-flash", (100, 120), True, False),
        ("gemini-2.5-flash", (120,), False, False),
        ("gemini-2.5-flash", (120, 34), False, False),
        ("gemini-3-flash", (120, 120), False, True),
        ("gemini-3-flash", (120, 120), True, False),
        ("gemini-3.5-flash", (120, 120), True, True),
        ("gemini-2.0-flash", (120, 120), False, False),
    ],
)
def test_signatures_are_billed_by_generation_and_turn(
    estimator: Any, model: str, lengths: tuple[int, ...], *, is_over: bool, is_billed: bool
) -> None:
    def count(value: str) -> int:
        return tokens(estimator, model, thought(signature=value, is_over=is_over))

    assert (count(signature(*lengths)) - count("") > 10) is is_billed


def test_a_signature_on_text_is_billed_too(estimator: Any) -> None:
    def count(value: str) -> int:
        body = thought(signature=value, is_over=True, part={"text": "Blue."})
        return tokens(estimator, "gemini-3.5-flash", body)

    assert count(signature(120, 120)) - count("") > 10


def test_a_signature_is_no_part_of_the_identity(estimator: Any) -> None:
    estimator.record(thought(signature="a" * 400, is_over=False), 60, model="gemini-3-flash")
    body = thought(signature="", is_over=False)
    assert estimator.estimate(body, model="gemini-3-flash").tokens == 60


def test_a_list_within_parts_is_read(estimator: Any) -> None:
    image = {"inline_data": {"mime_type": "image/png", "data": PNG}}
    flat = {"contents": [{"parts": [{"text": "A book"}, image]}]}
    nested = {"contents": [{"parts": [{"text": "A book"}, [image]]}]}
    model = "gemini-2.5-flash"
    assert tokens(estimator, model, nested) == tokens(estimator, model, flat) == 2 + 258


def test_an_image_has_one_price_with_1_5(estimator: Any) -> None:
    image = {"inline_data": {"mime_type": "image/png", "data": PNG}}
    body = {"contents": [{"parts": [image]}]}
    assert tokens(estimator, "gemini-1.5-flash", body) == 258
    assert tokens(estimator, "gemini-2.0-flash", body) > 258
