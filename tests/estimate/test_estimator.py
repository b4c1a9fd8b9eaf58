"""The promises of the estimator: estimate, record, and what comes back."""

from __future__ import annotations

import base64
import copy
import json
import random
import types
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenctx
from dialect_calls import CALLS, DIALECTS, SDK, assistant, chat, message_of, user
from tokenctx._estimate.profiles import bundled_profiles
from tokenctx.usage.normal import normalize_usage

if TYPE_CHECKING:
    from collections.abc import Callable

TOOL = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object"},
}


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
    assert len(estimator) == 2  # the response has the reply too


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
    row = bundled_profiles()[estimate.profile]
    assert (estimate.source, estimate.new_message_count) == ("delta", 1)
    assert estimate.known_tokens == 100 + 20 - call.reasoning_tokens + row.get("reply_tokens", 0)
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
    assert 60 < estimate.known_tokens <= 80 + 4  # counted, since the bill confirms it


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


def test_what_is_recorded_expires_and_is_bounded() -> None:
    seconds = [0.0]
    estimator = tokenctx.HybridTokenEstimator(
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
    assert normal is not None
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
    assert normalize_usage(types.GenerateContentResponse(candidates=[])) is None


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
def test_a_senseless_total_is_no_bill(most: int) -> None:
    estimator, reply = tokenctx.HybridTokenEstimator(), assistant("x")
    usage = {"input_tokens": most, "cache_read_input_tokens": most, "output_tokens": most}
    for billed in (most, usage, {"input_tokens": 5, "output_tokens": most}):
        event = estimator.record_event(chat(user("hi")), billed, reply=reply)
        assert event == tokenctx.NotRecorded("out_of_range")
    assert len(estimator) == 0
    assert estimator.record(chat(user("hi")), 2**40 - 1, reply=reply)
    grown = estimator.estimate(chat(user("hi"), reply, user("y")))
    assert 2**39 < grown.low <= grown.tokens <= grown.high < 2**50
    tracker: Any = tokenctx.ConversationStateTracker()
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


@pytest.mark.parametrize("end", ["", "=", "\n", "!", " !"])
def test_a_long_image_is_the_same_whether_it_was_met_before_or_not(end: str) -> None:
    letters = base64.b64encode(random.Random(end).randbytes(60_000)).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{letters}{end}"}}
    body: Any = {"model": "gpt-4o", "messages": [{"role": "user", "content": [image]}]}
    spaced = copy.deepcopy(body)
    spaced["messages"][0]["content"][0]["image_url"]["url"] += " "
    is_broken = "!" in end
    for sent in (body, json.dumps(body).encode(), body):
        estimate = tokenctx.HybridTokenEstimator(secret=b"the same one").estimate(sent)
        assert ("malformed_base64" in estimate.assumptions) is is_broken
    made = tokenctx.HybridTokenEstimator(secret=b"the same one")
    assert made.record(body, 1000)
    assert made.estimate(json.dumps(body).encode()).source == "exact"
    assert (made.estimate(spaced).source == "exact") is not is_broken
