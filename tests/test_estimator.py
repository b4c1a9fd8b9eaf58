"""The promises of the estimator: estimate, record, and what comes back, on both implementations."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import pickle
import signal
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenctx
import tokenctx.reference
from tokenctx._usage import normalize_usage
from tokenctx.reference.profile import profiles

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent / "data"
CANARY = "canary-7f3a"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\4\0\0\0\3\0\x08\x06\0\0\0"
TOOL = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object"},
}


@pytest.fixture
def estimator(implementation: Any) -> Any:
    return implementation.HybridTokenEstimator()


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": list(messages), **fields}


# One conversation in every dialect: request, response, and the answer as it comes back


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


# Exact, delta, estimated


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_request_is_estimated(estimator: Any, dialect: str) -> None:
    estimate = estimator.estimate(CALLS[dialect].request)
    assert (estimate.source, estimate.known_tokens, estimate.dialect) == ("estimated", 0, dialect)
    assert estimate.tokens == estimate.estimated_tokens >= 5
    assert (estimate.new_message_count, estimate.method) == (1, "estimated")
    assert estimate.tokens == estimator.count_request(CALLS[dialect].request).tokens


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_billed_request_is_exact(estimator: Any, dialect: str) -> None:
    call = CALLS[dialect]
    assert estimator.record(call.request, call.response) is True
    estimate = estimator.estimate(json.dumps(call.request).encode())
    assert (estimate.source, estimate.tokens, estimate.known_tokens) == ("exact", 100, 100)
    assert (estimate.low, estimate.high, estimate.quality) == (100, 100, "exact")
    assert (estimate.estimated_tokens, estimate.new_message_count) == (0, 0)
    assert (estimate.assumptions, estimate.confidence, estimate.method) == ((), 1.0, "actual")
    assert len(estimator) == 1


@pytest.mark.parametrize("form", ["response", "message", "json", "sdk"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_next_turn_starts_from_input_and_output(
    estimator: Any, dialect: str, form: str
) -> None:
    call = CALLS[dialect]
    if form == "sdk" and dialect not in SDK:
        pytest.skip("the SDK of Bedrock answers with dicts")
    forms: dict[str, Callable[[], Any]] = {
        "response": lambda: call.response,
        "message": lambda: message_of(call.response),
        "json": lambda: json.dumps(call.response),
        "sdk": lambda: SDK[dialect](call.response),
    }
    reply = forms[form]()
    usage = reply if form == "sdk" else call.response
    assert estimator.record(call.request, usage, reply=reply)
    assert len(estimator) == 2
    estimate = estimator.estimate(call.next_request)
    profile = profiles()[estimate.profile]
    assert (estimate.source, estimate.new_message_count) == ("delta", 1)
    assert estimate.known_tokens == 100 + 20 - call.reasoning_tokens + profile.reply_tokens
    assert estimate.tokens == estimate.known_tokens + estimate.estimated_tokens
    new = estimator.count_request(call.next_request).message_tokens[-1]
    assert estimate.estimated_tokens == new


@pytest.mark.parametrize("dialect", sorted(SDK))
def test_a_request_of_sdk_objects_is_the_request(estimator: Any, dialect: str) -> None:
    """The answer's own objects in the next request, as SDK users append them."""
    call = CALLS[dialect]
    estimator.record(call.request, call.response, reply=call.response)
    response = SDK[dialect](call.response)
    answers: dict[str, Callable[[], list[Any]]] = {
        "openai-chat": lambda: [response.choices[0].message],
        "openai-responses": lambda: list(response.output),
        "anthropic": lambda: [{"role": "assistant", "content": response.content}],
        "gemini": lambda: [response.candidates[0].content],
    }
    answer = answers[dialect]()
    name = next(name for name in ("messages", "contents", "input") if name in call.request)
    turns = call.next_request[name]
    request = {**call.next_request, name: [turns[0], *answer, turns[2]]}
    assert estimator.estimate(request) == estimator.estimate(call.next_request)
    assert estimator.estimate(request).source == "delta"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_derived_total_is_no_billed_one(estimator: Any, dialect: str) -> None:
    """Input and output together are a good guess of the next input, but not exact."""
    call = CALLS[dialect]
    estimator.record(call.request, call.response, reply=call.response)
    name = next(name for name in ("messages", "contents", "input") if name in call.request)
    answered = {**call.next_request, name: call.next_request[name][:2]}
    estimate = estimator.estimate(answered)
    assert (estimate.source, estimate.new_message_count) == ("delta", 0)
    assert estimate.quality != "exact"
    assert estimate.low < estimate.tokens < estimate.high
    estimator.record(answered, 117)
    assert (estimator.estimate(answered).source, estimator.estimate(answered).tokens) == (
        "exact",
        117,
    )
    estimator.record(call.request, call.response, reply=call.response)
    assert estimator.estimate(answered).tokens == 117


def test_the_deepest_known_prefix_counts(estimator: Any) -> None:
    turns = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    estimator.record(chat(*turns[:1]), 10)
    estimator.record(chat(*turns[:3]), 30)
    estimate = estimator.estimate(chat(*turns))
    assert (estimate.known_tokens, estimate.new_message_count) == (30, 2)
    branch = estimator.estimate(chat(*turns[:2], user("other")))
    assert (branch.known_tokens, branch.new_message_count) == (10, 2)


def test_a_reply_of_several_items_is_known_as_a_whole(estimator: Any) -> None:
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a": 1}'}
    text = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "x"}],
    }
    body = {"model": "gpt-4.1", "input": [user("go")]}
    estimator.record(
        body, {"input_tokens": 50, "output_tokens": 30}, reply={"output": [text, call]}
    )
    result = {"type": "function_call_output", "call_id": "9", "output": "ok"}
    estimate = estimator.estimate({**body, "input": [user("go"), text, call, result]})
    assert (estimate.source, estimate.new_message_count) == ("delta", 1)
    assert estimate.known_tokens > 80


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {"message": "overloaded"}},
        {"choices": []},
        {"choices": [{"message": assistant("a")}, {"message": assistant("b")}]},
        [],
        "7",
        b"null",
    ],
    ids=["error", "no choice", "two choices", "nothing", "a number", "null"],
)
def test_an_unclear_reply_leaves_the_input_known(estimator: Any, reply: Any) -> None:
    assert estimator.record(
        chat(user("hi")), {"prompt_tokens": 9, "completion_tokens": 5}, reply=reply
    )
    assert len(estimator) == 1


def test_an_answer_without_output_tokens_is_not_known(estimator: Any) -> None:
    estimator.record(chat(user("hi")), 9, reply=assistant("hello"))
    assert len(estimator) == 1


# What makes another conversation


@pytest.mark.parametrize(
    "change",
    [
        {"tools": [TOOL]},
        {"tools": [{**TOOL, "description": "Another"}]},
        {"system": "Be brief."},
        {"system": [{"type": "text", "text": "Be brief!"}]},
        {"model": "claude-opus-4-6"},
    ],
    ids=["tools added", "tool changed", "system added", "system changed", "model changed"],
)
def test_a_changed_context_is_another_conversation(estimator: Any, change: Any) -> None:
    body = {"model": "claude-sonnet-4-5", "messages": [user("hi")], "tools": [], "system": None}
    if change.get("tools") and change["tools"][0] is not TOOL:
        body["tools"] = [TOOL]
    if isinstance(change.get("system"), list):
        body["system"] = "Be brief."
    estimator.record(body, 500)
    assert estimator.estimate(body).source == "exact"
    assert estimator.estimate({**body, **change}).source == "estimated"


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.5, "max_tokens": 7, "stream": True, "metadata": {"user": "x"}},
        {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
        {"tools": [{**TOOL, "cache_control": {"type": "ephemeral"}}]},
        {"tools": [dict(reversed(TOOL.items()))]},
        {"model": "claude-sonnet-4-5-20250929"},
    ],
    ids=["sampling", "system marked", "tool marked", "keys in another order", "dated model"],
)
def test_what_the_model_never_sees_is_the_same_conversation(estimator: Any, change: Any) -> None:
    body = {
        "model": "claude-sonnet-4-5",
        "messages": [user("hi")],
        "tools": [TOOL],
        "system": "Be brief.",
    }
    estimator.record(body, 500)
    assert estimator.estimate({**body, **change}).source == "exact"


def test_unknown_models_do_not_share_totals(estimator: Any) -> None:
    estimator.record({"model": "foo-1", "messages": [user("hi")]}, 500)
    assert estimator.estimate({"model": "foo-1", "messages": [user("hi")]}).source == "exact"
    assert estimator.estimate({"model": "bar-1", "messages": [user("hi")]}).source == "estimated"


# RFC 029's own signature


class Model:
    family = "gpt-4o"


@pytest.mark.parametrize(
    "model", ["gpt-4o", Model(), {"id": "gpt-4o"}, types.SimpleNamespace(name="gpt-4o")]
)
def test_a_list_of_messages_is_a_conversation(estimator: Any, model: Any) -> None:
    messages = [user("hello"), assistant("world")]
    assert estimator.estimate_conversation(messages, model).source == "estimated"
    assert estimator.record_actual(messages, model, 500)
    assert estimator.estimate_conversation(messages, model).tokens == 500
    estimate = estimator.estimate_conversation([*messages, user("new message")], model)
    assert (estimate.source, estimate.known_tokens, estimate.new_message_count) == ("delta", 500, 1)
    assert estimate.estimated_tokens == estimator.estimate_message(user("new message"), model)
    assert estimate.model == "gpt-4o"


def test_a_model_without_a_name_is_unknown(estimator: Any) -> None:
    estimate = estimator.estimate_conversation([user("hi")], object())
    assert estimate.model == ""
    assert "unknown_model" in estimate.assumptions


# What is never recorded


@pytest.mark.parametrize(
    "usage",
    [
        *(0, -5, None, "500", 7.5, {}, {"usage": None}, {"usage": {}}),
        *({"prompt_tokens": None}, {"prompt_tokens": 0}, {"input_tokens": "9"}),
        {"usageMetadata": {"promptTokenCount": 0}},
    ],
)
def test_a_call_without_input_tokens_is_not_recorded(estimator: Any, usage: Any) -> None:
    body = chat(user("hi"))
    assert estimator.record(body, usage, reply=assistant("x")) is False
    assert len(estimator) == 0
    assert estimator.estimate(body).source == "estimated"


@pytest.mark.parametrize("body", [[], {}, {"messages": []}, {"model": "gpt-4o"}, b"[]", None])
def test_a_request_without_messages_is_not_recorded(estimator: Any, body: Any) -> None:
    assert estimator.record(body, 500) is False
    assert len(estimator) == 0


def test_reset_forgets_everything(estimator: Any) -> None:
    estimator.record(chat(user("hi")), 500)
    estimator.reset()
    assert len(estimator) == 0
    assert estimator.estimate(chat(user("hi"))).source == "estimated"


def test_what_is_recorded_expires_and_is_bounded(implementation: Any) -> None:
    seconds = [0.0]
    estimator = implementation.HybridTokenEstimator(
        ttl_seconds=60, capacity_bytes=96, clock=lambda: seconds[0]
    )
    for text in "abc":
        estimator.record(chat(user(text)), 9)
    assert len(estimator) == 2
    sources = [estimator.estimate(chat(user(text))).source for text in "abc"]
    assert sources == ["estimated", "exact", "exact"]
    seconds[0] = 60
    assert estimator.estimate(chat(user("c"))).source == "estimated"


# Usage


def billed_tokens(usage: Any) -> tuple[int, int, int]:
    normal = normalize_usage(usage)
    return normal.input_tokens, normal.output_tokens, normal.reasoning_tokens


@pytest.mark.parametrize("dialect", DIALECTS)
def test_usage_of_responses_is_read(dialect: str) -> None:
    call = CALLS[dialect]
    expected = (100, 20, call.reasoning_tokens)
    assert billed_tokens(call.response) == expected
    if dialect in SDK:
        response = SDK[dialect](call.response)
        assert billed_tokens(response) == expected
        usage = response.usage_metadata if dialect == "gemini" else response.usage
        assert billed_tokens(usage) == expected


def test_usage_of_an_sdk_without_a_count_is_nothing() -> None:
    types = pytest.importorskip("google.genai.types")
    assert billed_tokens(types.GenerateContentResponse(candidates=[])) == (0, 0, 0)


# Reasoning that a new turn drops

THINKING = {"type": "thinking", "thinking": "Let me see. " * 40, "signature": "x"}


def loop_estimator(implementation: Any) -> tuple[Any, dict[str, Any], list[Any]]:
    """A tool loop of Claude 4 with thinking, billed up to the tool's result."""
    call = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "ok"}
    turns = [user("go"), assistant([THINKING, call]), user([result])]
    estimator = implementation.HybridTokenEstimator()
    body = {"model": "claude-sonnet-4-0", "messages": turns}
    estimator.record(body, 1000)
    return estimator, body, turns


def test_reasoning_stays_within_the_loop(implementation: Any) -> None:
    estimator, body, turns = loop_estimator(implementation)
    estimate = estimator.estimate({**body, "messages": [*turns, assistant("done")]})
    assert (estimate.source, estimate.known_tokens) == ("delta", 1000)


def test_a_new_turn_of_the_user_drops_the_reasoning_of_the_last(implementation: Any) -> None:
    estimator, body, turns = loop_estimator(implementation)
    grown = {**body, "messages": [*turns, assistant("done"), user("next")]}
    dropped = 1000 - estimator.estimate(grown).known_tokens
    plain = [turns[0], assistant(turns[1]["content"][1:]), turns[2]]
    counts = [
        estimator.count_request({**body, "messages": messages}).tokens
        for messages in (turns, plain)
    ]
    assert dropped > 100
    assert abs(dropped - (counts[0] - counts[1])) <= 1  # each part is rounded up by itself


def test_models_that_keep_reasoning_drop_none(implementation: Any) -> None:
    _, body, turns = loop_estimator(implementation)
    estimator = implementation.HybridTokenEstimator()
    body = {**body, "model": "claude-opus-4-6"}
    estimator.record(body, 1000)
    grown = {**body, "messages": [*turns, assistant("done"), user("next")]}
    assert estimator.estimate(grown).known_tokens == 1000


# Bounds, quality, assumptions


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("method", ["profile", "universal", "characters"])
def test_the_bounds_hold_the_answer(implementation: Any, dialect: str, method: str) -> None:
    estimator = implementation.HybridTokenEstimator(method=method)
    call = CALLS[dialect]
    for _ in range(2):
        for body in (call.request, call.next_request):
            estimate = estimator.estimate(body)
            assert 0 <= estimate.low <= estimate.tokens <= estimate.high
            assert 0 <= estimate.confidence <= 1
        estimator.record(call.request, call.response, reply=call.response)


def test_a_delta_is_surer_than_a_full_count(estimator: Any) -> None:
    turns = [user("tell me " * 200), assistant("so " * 200), user("go on")]
    body = {"model": "nobody-knows", "messages": turns}
    full = estimator.estimate(body)
    estimator.record({**body, "messages": turns[:1]}, 400)
    delta = estimator.estimate(body)
    assert delta.high - delta.low < full.high - full.low
    assert delta.confidence > full.confidence


QUALITIES = [
    (chat(user("hi")), "exact", set()),
    (chat(user("hi"), tools=[{"type": "function", "function": TOOL}]), "calibrated", set()),
    ({"model": "claude-sonnet-4-5", "messages": [user("hi")]}, "calibrated", set()),
    ({"model": "nobody-knows", "messages": [user("hi")]}, "heuristic", {"unknown_model"}),
    ({"messages": [user("hi")]}, "heuristic", {"unknown_model"}),
    (
        chat(user([{"type": "image_url", "image_url": {"url": "https://a/b.png"}}])),
        "heuristic",
        {"remote_image"},
    ),
    (
        chat(user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])),
        "heuristic",
        {"unreadable_image"},
    ),
    (
        {"model": "gpt-4o", "input": "hi", "previous_response_id": "r"},
        "heuristic",
        {"server_state"},
    ),
    (chat({"role": "chorus", "content": "la"}), "heuristic", {"unknown_role"}),
    (chat(user([{"shape": "round"}])), "heuristic", {"unknown_part"}),
    (chat(user("hi"), tools=[{"type": "web_search"}]), "calibrated", {"builtin_tool"}),
]


@pytest.mark.parametrize(("body", "quality", "assumptions"), QUALITIES)
def test_quality_and_assumptions_say_what_was_guessed(
    estimator: Any, body: Any, quality: str, assumptions: set[str]
) -> None:
    for answer in (estimator.estimate(body), estimator.count_request(body)):
        assert answer.quality == quality
        assert set(answer.assumptions) == assumptions
        assert list(answer.assumptions) == sorted(answer.assumptions)


def test_openai_text_is_counted_to_the_token(estimator: Any) -> None:
    # The cookbook's framing: 3 for the reply, 3 and the role for each message, 1 for a name.
    body = chat({"role": "system", "content": "hello world"}, {**user("hello world"), "name": "hi"})
    assert estimator.estimate(body).tokens == 3 + 2 * (3 + 1 + 2) + (1 + 1)
    count = estimator.count_request(body)
    assert count.tokens == count.context_tokens + sum(count.message_tokens)
    assert count.message_tokens[1] - count.message_tokens[0] == 2
    assert (count.encoding, count.profile) == ("o200k_base", "gpt-4o")


# Models by name

MODELS = json.loads((DATA / "models.json").read_text())["cases"]


@pytest.mark.parametrize("case", MODELS, ids=lambda case: repr(case["model"]))
def test_models_are_known_by_name(estimator: Any, case: dict[str, Any]) -> None:
    names = {name: case.get(name) for name in ("model", "dialect", "provider")}
    estimate = estimator.estimate([user("hi")], **names)
    assert (estimate.profile, estimate.model) == (case["profile"], case["model"])
    assert estimate.assumptions == (() if case.get("is_known", True) else ("unknown_model",))


def test_a_very_long_name_is_unknown(estimator: Any) -> None:
    estimate = estimator.estimate([user("hi")], model="x-" * 99_999)
    assert (estimate.profile, estimate.assumptions) == ("unknown", ("unknown_model",))


@pytest.mark.parametrize("model", ["nobody-knows", "my-gpt-4o"])
def test_an_unknown_model_is_a_guess(estimator: Any, model: str) -> None:
    estimate = estimator.estimate([user("hi")], model=model)
    assert estimate.quality == "heuristic"
    assert estimate.low < estimate.tokens < estimate.high


def test_a_provider_changes_no_known_total(estimator: Any) -> None:
    body = {"model": "gpt-4o", "messages": [user("hi")]}
    estimator.record(body, 500, provider="azure")
    assert estimator.estimate(body, provider="openai").source == "exact"


def test_the_caller_overrides_what_the_body_says(estimator: Any) -> None:
    body = {"model": "gpt-4o", "messages": [user("hi")]}
    estimate = estimator.estimate(body, model="claude-sonnet-4-5", dialect="anthropic")
    assert (estimate.profile, estimate.dialect) == ("claude-4.5", "anthropic")


# Methods

HELLO = [user("hello"), assistant("world")]


def characters(implementation: Any, **options: Any) -> Any:
    return implementation.HybridTokenEstimator(method="characters", **options)


def one_each(implementation: Any) -> Any:
    """The mock of the RFC's own tests: one character is one token."""
    options = {"chars_per_token": 1.0, "conservative": False, "provider_overrides": {}}
    return characters(implementation, **options)


def test_a_full_count_adds_four_for_each_message(implementation: Any) -> None:
    estimate = one_each(implementation).estimate_conversation(HELLO, "any")
    assert (estimate.tokens, estimate.source) == (18, "estimated")


def test_known_and_new_add_up(implementation: Any) -> None:
    estimator = one_each(implementation)
    estimator.record_actual(HELLO, "any", 500)
    estimate = estimator.estimate_conversation([*HELLO, user("new message")], "any")
    assert (estimate.tokens, estimate.known_tokens, estimate.estimated_tokens) == (515, 500, 15)


def test_fewer_billed_than_known_is_believed(implementation: Any) -> None:
    # The RFC's system only logs a total below the known one (the host has pruned): the newest
    # total of these very messages is what the next turn starts from.
    estimator = one_each(implementation)
    estimator.record_actual(HELLO[:1], "any", 100)
    estimator.record_actual(HELLO, "any", 90)
    assert estimator.estimate_conversation([*HELLO, user("x")], "any").known_tokens == 90


@pytest.mark.parametrize(
    ("model", "chars_per_token"),
    [("gpt-4o", 3.5), ("claude-sonnet-4-5", 4.0), ("gemini-2.5-pro", 4.0), ("nobody-knows", 3.5)],
)
def test_characters_are_divided_by_provider(
    implementation: Any, model: str, chars_per_token: float
) -> None:
    text = "x" * 1001
    plain = characters(implementation, conservative=False)
    exact = -(-1001 * 1000 // round(chars_per_token * 1000))
    assert plain.estimate_message(user(text), model) == exact + 4
    conservative = -(-1001 * 1100 // round(chars_per_token * 1000))
    assert characters(implementation).estimate_message(user(text), model) == conservative + 4


def test_overrides_are_the_callers(implementation: Any) -> None:
    options = {"provider_overrides": {"openai": 2.0}, "chars_per_token": 5.0, "conservative": False}
    estimator = characters(implementation, **options)
    assert estimator.estimate_message(user("x" * 10), "gpt-4o") == 5 + 4
    assert estimator.estimate_message(user("x" * 10), "claude-sonnet-4-5") == 2 + 4


def test_characters_are_code_points(implementation: Any) -> None:
    assert one_each(implementation).estimate_message(user("日本👍"), "any") == 3 + 4


def test_confidence_is_that_of_the_rfc(implementation: Any) -> None:
    estimator = characters(implementation)
    assert estimator.estimate_conversation(HELLO, "gpt-4o").confidence == 0.7
    estimator.record_actual(HELLO, "gpt-4o", 500)
    assert estimator.estimate_conversation(HELLO, "gpt-4o").confidence == 1.0
    hybrid = estimator.estimate_conversation([*HELLO, user("x")], "gpt-4o")
    assert (hybrid.confidence, hybrid.method) == (0.85, "hybrid")


def test_calibration_is_an_average_that_forgets(implementation: Any) -> None:
    estimator = one_each(implementation)
    assert estimator.calibrate(200, 0, 100) == pytest.approx(0.7 * 1.0 + 0.3 * 2.0)
    assert estimator.calibrate(200, 0, 100) == pytest.approx(0.7 * 1.3 + 0.3 * 2.0)
    assert estimator.estimate_conversation(HELLO, "any").tokens == -(-18 * 151 // 100)
    for actual, estimated in ((0, 100), (-1, 100), (100, 0), (100, -1)):
        assert estimator.calibrate(actual, 0, estimated) == pytest.approx(1.51)
    estimator.reset()
    assert estimator.estimate_conversation(HELLO, "any").tokens == 18
    assert estimator.calibrate(100, 0, 100) == 1.0


def test_a_calibrated_call_is_extended_by_its_length(implementation: Any) -> None:
    estimator = one_each(implementation)
    estimator.calibrate(500, 2, 500)
    estimate = estimator.estimate_conversation([*HELLO, user("new message")], "any")
    assert (estimate.tokens, estimate.source, estimate.estimated_tokens) == (515, "delta", 15)
    assert estimate.low <= estimate.tokens <= estimate.high
    # Identity beats length: a recorded prefix is used before the last call's length is.
    estimator.record_actual(HELLO, "any", 700)
    assert estimator.estimate_conversation([*HELLO, user("new message")], "any").tokens == 715


@pytest.mark.parametrize("method", ["profile", "universal"])
def test_other_methods_are_not_calibrated(implementation: Any, method: str) -> None:
    with pytest.raises(ValueError, match="record"):
        implementation.HybridTokenEstimator(method=method).calibrate(1, 1, 1)


def test_the_universal_method_is_one_vocabulary_for_all(implementation: Any) -> None:
    estimator = implementation.HybridTokenEstimator(method="universal")
    for model in ("gpt-4", "claude-sonnet-4-5", "gemini-2.5-pro", "nobody-knows"):
        count = estimator.count_request({"messages": [user("hello world")]}, model=model)
        assert (count.tokens, count.message_tokens) == (6, (6,))
        assert (count.encoding, count.profile) == ("o200k_base", "universal")


def test_the_universal_method_counts_attachments_by_their_metadata(implementation: Any) -> None:
    estimator = implementation.HybridTokenEstimator(method="universal")
    file = {"file_data": "data:application/pdf;base64," + "QUJD" * 9999, "filename": "a.pdf"}
    tokens = estimator.estimate_message(user([{"type": "file", "file": file}]), "gpt-4o")
    count = implementation.count_tokens
    assert tokens == 4 + count("a.pdf") + count("application/pdf")


def test_the_universal_method_counts_tools_by_the_formula(implementation: Any) -> None:
    estimator = implementation.HybridTokenEstimator(method="universal")
    count = implementation.count_tokens
    text = count("get_weather") + count("Weather of a city") + count('{"type":"object"}')
    body = {"messages": [], "tools": [TOOL]}
    assert estimator.count_request(body).tokens == -(-(16 + 8 + text) * 11 // 10)
    assert estimator.count_request({"messages": [], "tools": []}).tokens == 0


# Results


def results(implementation: Any) -> list[Any]:
    estimator = implementation.HybridTokenEstimator(secret=b"s")
    tracker = implementation.ConversationStateTracker(secret=b"s")
    body = chat(user(CANARY), {"role": "system", "content": CANARY}, name=CANARY)
    return [
        estimator.estimate(body),
        estimator.count_request(body),
        tracker.record_actual([user(CANARY)], "family", 5),
        tracker.lookup([user(CANARY), user(CANARY)], "family"),
    ]


def test_results_can_be_pickled_compared_and_hashed(implementation: Any) -> None:
    for result, again in zip(results(implementation)[:2], results(implementation)[:2], strict=True):
        assert result == again
        assert result is not again
        assert len({result, again}) == 1
    for result in results(implementation):
        assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            result.tokens = 1


def test_no_repr_holds_text_of_a_message(implementation: Any) -> None:
    estimator = implementation.HybridTokenEstimator(secret=CANARY.encode())
    estimator.record(chat(user(CANARY)), 5)
    for shown in [*results(implementation), estimator, estimator._engine]:
        assert CANARY not in repr(shown) + str(shown)


# Errors

BROKEN = [
    b"",
    b"   ",
    f'{{"messages": [{{"role": "user", "content": "{CANARY}'.encode(),
    f'{{"messages": ["{CANARY}",]}}'.encode(),
    f'{{"messages": ["{CANARY}"]}} {CANARY}'.encode(),
    f"{CANARY}".encode(),
    f'{{"{CANARY}" "x"}}'.encode(),
    f"{{'messages': '{CANARY}'}}".encode(),
    f'{{"messages": "{CANARY}" // {CANARY}\n}}'.encode(),
    f'{{"a": "{CANARY}"}}'.encode("utf-16"),
    b"\0" + CANARY.encode(),
    (b"[" * 2000) + CANARY.encode(),
    f'{{"messages": "{CANARY}\\x"}}'.encode(),
    f'{{"{CANARY}": 01}}'.encode(),
]


@pytest.mark.parametrize("body", BROKEN, ids=range(len(BROKEN)))
def test_errors_are_typed_and_hold_no_payload(body: bytes) -> None:
    estimator, tracker = tokenctx.HybridTokenEstimator(), tokenctx.ConversationStateTracker()
    attempts: list[Callable[[], object]] = [
        lambda: estimator.estimate(body),
        lambda: estimator.count_request(body),
        lambda: estimator.record(body, 5),
        lambda: estimator.record(chat(user("hi")), 5, reply=body),
        lambda: tracker.lookup(body, "family"),
    ]
    for attempt in attempts:
        with pytest.raises(tokenctx.RequestError) as caught:
            attempt()
        shown = str(caught.value) + repr(caught.value.args) + repr(caught.value.__context__)
        assert CANARY not in shown
        assert caught.value.code
        assert isinstance(caught.value, tokenctx.Error)
        assert isinstance(caught.value, ValueError)
    assert len(estimator) == 0


@pytest.mark.parametrize("body", BROKEN[:11], ids=range(11))
def test_the_reference_refuses_what_the_core_refuses(body: bytes) -> None:
    with pytest.raises(tokenctx.RequestError) as caught:
        tokenctx.reference.HybridTokenEstimator().estimate(body)
    assert CANARY not in str(caught.value)


def test_a_refused_reply_records_nothing(estimator: Any) -> None:
    with pytest.raises(tokenctx.RequestError):
        estimator.record(chat(user("hi")), 5, reply=b"{")
    assert len(estimator) == 0


def test_an_unknown_dialect_is_refused_by_name(estimator: Any) -> None:
    with pytest.raises(ValueError, match="openai-chat"):
        estimator.estimate(chat(user(CANARY)), dialect="smalltalk")
    with pytest.raises(ValueError, match="openai-chat"):
        estimator.record(chat(user(CANARY)), 5, dialect="smalltalk")


@pytest.mark.parametrize(
    "options",
    [
        {"method": "guess"},
        {"chars_per_token": 0},
        {"chars_per_token": float("nan")},
        {"chars_per_token": 1e9},
        {"provider_overrides": {"openai": -1.0}},
    ],
    ids=str,
)
def test_senseless_options_are_refused(implementation: Any, options: Any) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        implementation.HybridTokenEstimator(**options)


# Threads and processes


def bodies(count: int) -> list[bytes]:
    """Requests from a few bytes, read attached, to many KB, read detached."""
    return [
        json.dumps(chat(user(f"message {number} " * (1 + number % 400)))).encode()
        for number in range(count)
    ]


def test_threads_share_an_estimator(implementation: Any) -> None:
    estimator = implementation.HybridTokenEstimator(learning=False)
    several = bodies(60)
    for number, body in enumerate(several[::2]):
        estimator.record(body, 1000 + number)
    expected = [estimator.estimate(body) for body in several]
    start = threading.Barrier(8)

    def work(thread: int) -> bool:
        start.wait()
        same = [estimator.estimate(body) for body in several] == expected
        for number, body in enumerate(several[::2]):
            estimator.record(body, 1000 + number)
            estimator.record(chat(user(f"own {thread} {number}")), 7)
        return same

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert [estimator.estimate(body) for body in several] == expected
    assert len(estimator) == 30 + 8 * 30


def test_threads_share_a_tracker(implementation: Any) -> None:
    tracker = implementation.ConversationStateTracker()
    start = threading.Barrier(8)

    def work(thread: int) -> bool:
        start.wait()
        for number in range(50):
            messages = [user(f"{thread} {number}")]
            tracker.record_actual(messages, "family", 1 + number)
            if tracker.lookup(messages, "family").known_tokens != 1 + number:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(tracker) == 400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_threads_estimate_leaves_a_working_child() -> None:
    """A lock that is held at the fork would never be released in the child."""
    estimator, tracker = tokenctx.HybridTokenEstimator(), tokenctx.ConversationStateTracker()
    several, stopped = bodies(200), threading.Event()
    estimator.record(several[0], 1234)

    def work() -> None:
        while not stopped.is_set():
            for body in several:
                estimator.record(body, 1234)
                estimator.estimate(body)
                tracker.record_actual(body, "family", 5)
                tracker.lookup(body, "family")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        statuses = [in_child(estimator, tracker, several[0]) for _ in range(20)]
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * 20


def in_child(estimator: Any, tracker: Any, body: bytes) -> int:
    """Exit status of a forked process that uses both; of the alarm's signal if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            right = estimator.estimate(body).tokens == 1234
            estimator.record(body, 99)
            tracker.record_actual(body, "family", 5)
            right &= estimator.estimate(body).tokens == 99
            right &= tracker.lookup(body, "family").known_tokens == 5
            os._exit(0 if right else 3)
        finally:
            os._exit(4)
    return os.waitpid(child, 0)[1]


# What was counted before changes no count


def files(*names: str) -> list[dict[str, Any]]:
    """Messages that differ by the name of a file, which is no part of their identity."""
    data = "data:application/pdf;base64,JVBERi0x"
    made = [{"file_data": data, "filename": name} for name in names]
    return [user([{"type": "file", "file": file}]) for file in made]


def test_counts_by_metadata_are_of_the_message_itself(implementation: Any) -> None:
    """A name is no part of the identity, but the method `universal` counts it."""
    names = ("", "a.pdf", "", "a longer name of a file.pdf", "a.pdf")
    shared = implementation.HybridTokenEstimator(method="universal")
    alone = [
        implementation.HybridTokenEstimator(method="universal").estimate_message(message, "gpt-4o")
        for message in files(*names)
    ]
    assert [shared.estimate_message(message, "gpt-4o") for message in files(*names)] == alone


@pytest.mark.parametrize("method", ["profile", "universal", "characters"])
def test_counts_of_one_message_are_of_each_model(implementation: Any, method: str) -> None:
    """The characters method takes the price of an image from the model."""
    data = "data:image/png;base64," + base64.b64encode(PNG).decode()
    message = user(["look", {"type": "image_url", "image_url": {"url": data}}])
    models = (
        "gpt-4o",
        "gpt-4o-mini",
        "gpt-5",
        "claude-sonnet-4-5",
        "gemini-2.5-pro",
        "x",
        "gpt-4o",
    )
    shared = implementation.HybridTokenEstimator(method=method)
    alone = [
        implementation.HybridTokenEstimator(method=method).estimate_message(message, model)
        for model in models
    ]
    assert [shared.estimate_message(message, model) for model in models] == alone


def test_a_result_beside_two_calls_is_no_result_of_theirs() -> None:
    """A generated request: the core wrapped a result that stood in the message of the calls."""
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in "fg"]
    message = {**assistant([{"type": "tool_result", "content": "x"}]), "tool_calls": calls}
    for model in ("gpt-4", "gpt-4o", "gpt-5"):
        counts = [
            each.HybridTokenEstimator().count_request([user("go"), message], model=model)
            for each in (tokenctx, tokenctx.reference)
        ]
        assert counts[0] == counts[1]


# Laws


@given(st.lists(st.text(max_size=20), min_size=1, max_size=6), st.integers(1, 10**9))
def test_what_was_billed_is_what_is_answered(texts: list[str], tokens: int) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    body = chat(*map(user, texts))
    estimator.record(body, tokens)
    assert estimator.estimate(body).tokens == tokens
    grown = estimator.estimate(chat(*map(user, texts), user("more")))
    assert grown.tokens == tokens + estimator.estimate_message(user("more"), "gpt-4o")


@given(st.lists(st.text(max_size=20), min_size=1, max_size=6))
def test_a_count_is_the_sum_of_its_parts(texts: list[str]) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    count = estimator.count_request(chat(*map(user, texts)))
    assert count.tokens == count.context_tokens + sum(count.message_tokens)
    alone = tuple(estimator.estimate_message(user(text), "gpt-4o") for text in texts)
    assert count.message_tokens == alone


@pytest.mark.parametrize("most", [2**40 + 1, 2**63, 2**64 - 1, 10**30])
def test_a_senseless_total_is_cut_off(implementation: Any, most: int) -> None:
    """It found an overflow: the bounds fell below the answer, and above 64 bits it was raised."""
    estimator, reply = implementation.HybridTokenEstimator(), assistant("x")
    usage = {"input_tokens": most, "cache_read_input_tokens": most, "output_tokens": most}
    for billed in (most, usage):
        assert estimator.record(chat(user("hi")), billed, reply=reply)
        assert 2**40 <= estimator.estimate(chat(user("hi"))).tokens <= 2**41
        grown = estimator.estimate(chat(user("hi"), reply, user("y")))
        assert grown.low <= grown.tokens <= grown.high < 2**50
    tracker = implementation.ConversationStateTracker()
    assert tracker.record_actual([user("hi")], "family", most).actual_tokens == 2**40
    assert tracker.lookup([user("hi")], "family").known_tokens == 2**40


WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}
OPTIONS: list[dict[str, Any]] = [
    {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
    {"tool_choice": "none"},
    {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "out", "schema": {"type": "object", "properties": {}}},
        }
    },
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5", "claude-sonnet-4-5", "mistral-large"])
def test_other_options_are_counted_on_top_of_the_known(
    estimator: Any, options: Any, model: str
) -> None:
    plain = chat(user("Weather in Oslo?"), model=model, tools=[WEATHER])
    forced = {**plain, **options}
    more = estimator.count_request(forced).tokens - estimator.count_request(plain).tokens
    estimator.record(plain, 1000)
    changed = estimator.estimate(forced)
    assert (changed.source, changed.tokens) == ("delta", 1000 + more)
    assert "changed_options" in changed.assumptions
    assert changed.low <= changed.tokens <= changed.high
    assert estimator.estimate(plain).source == "exact"
    estimator.record(forced, 2000)
    assert estimator.estimate(forced).source == "exact"
    assert estimator.estimate(plain).tokens == 2000 - more
