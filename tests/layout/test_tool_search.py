"""Tools that are loaded later: OpenAI's search, what it finds, namespaces; Claude's sets."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tokenctx import HybridTokenEstimator, count_tokens

Json = dict[str, Any]

PARAMETERS: Final = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "The city to look up"}},
}
WEATHER: Final[Json] = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather of a city.",
    "parameters": PARAMETERS,
}
DEFERRED: Final = {**WEATHER, "defer_loading": True}
SEARCH: Final = {"type": "tool_search"}
ASKED: Final = {"role": "user", "content": "What is the weather in Paris?"}
CALL: Final = {
    "type": "tool_search_call",
    "call_id": "s",
    "execution": "server",
    "arguments": {"paths": ["get_weather"]},
}


def found(*tools: Json) -> Json:
    return {"type": "tool_search_output", "call_id": "s", "tools": [*tools]}


def estimate(*items: Json, model: str = "gpt-5.4", **fields: Any) -> Any:
    body = {"model": model, "input": [ASKED, *items], **fields}
    it = HybridTokenEstimator(learning=False).estimate(body)
    of_bytes = HybridTokenEstimator(learning=False).estimate(json.dumps(body).encode())
    assert (it.low, it.tokens, it.high) == (of_bytes.low, of_bytes.tokens, of_bytes.high)
    return it


def test_a_search_is_in_the_prompt_until_all_tools_are_loaded() -> None:
    plain, hidden = estimate(), estimate(tools=[SEARCH, DEFERRED])
    names = count_tokens("get_weather") + count_tokens("Tells the weather of a city.")
    assert hidden.tokens == plain.tokens + 369 + names
    assert "tool_search" in hidden.assumptions
    assert "builtin_tool" not in hidden.assumptions
    loaded = estimate(CALL, found(WEATHER), tools=[SEARCH, DEFERRED])
    assert loaded.tokens < hidden.tokens
    assert "tool_search" not in loaded.assumptions
    assert loaded.tokens == estimate(CALL, found(WEATHER)).tokens


def test_high_reaches_what_a_search_may_load_and_no_further() -> None:
    long = {**DEFERRED, "parameters": {"type": "object", "description": "word " * 1000}}
    short, far = estimate(tools=[SEARCH, DEFERRED]), estimate(tools=[SEARCH, long])
    assert far.tokens == short.tokens
    assert 950 < far.high - short.high < 1100
    assert short.high < 2 * short.tokens
    assert 0 < short.tokens - short.low < 20


def test_what_a_search_finds_is_a_block_of_definitions() -> None:
    added = {"type": "additional_tools", "role": "developer"}
    block = estimate({**added, "tools": [WEATHER]}).tokens - estimate({**added, "tools": []}).tokens
    one, two = estimate(found(WEATHER)), estimate(found(WEATHER), found(WEATHER))
    none = estimate(found())
    assert one.tokens - none.tokens == block + 20
    assert two.tokens - one.tokens >= block + 20, "each item has a block"
    assert "unknown_part" not in one.assumptions
    assert one.low < one.tokens < one.high


def test_tools_that_are_no_list_are_counted_as_they_are() -> None:
    words = {"type": "tool_search_output", "call_id": "s", "tools": "word " * 300}
    assert estimate(words).tokens > estimate(found()).tokens + 290


def test_the_search_of_a_client_is_a_function() -> None:
    own = {**SEARCH, "execution": "client", "description": "Finds.", "parameters": PARAMETERS}
    function = {**WEATHER, "name": "tool_search", "description": "Finds."}
    it = estimate(tools=[own, DEFERRED])
    assert it.tokens == estimate(tools=[function]).tokens + 18
    assert "builtin_tool" not in it.assumptions
    assert 0 < it.high - it.low < 40


def test_tools_of_a_namespace_are_counted() -> None:
    def named(*tools: Json) -> Any:
        space = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [*tools]}
        return estimate(tools=[space])

    empty, one, two = named(), named(WEATHER), named(WEATHER, {**WEATHER, "name": "get_time"})
    assert one.tokens - empty.tokens > 35
    assert two.tokens - one.tokens > 20
    assert named(WEATHER, DEFERRED).tokens == one.tokens
    assert one.low < one.tokens < one.high


@pytest.mark.parametrize(("model", "more"), [("gpt-5.4", 4), ("gpt-5.6", 0)])
def test_a_call_names_the_namespace_of_its_tool(model: str, more: int) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"}
    plain = estimate(call, model=model)
    spaced = estimate({**call, "namespace": "look_up_weather"}, model=model)
    assert spaced.tokens == plain.tokens + more
    assert spaced.low < spaced.tokens < spaced.high


@pytest.mark.parametrize("kind", ["additional_tools", "tool_search_output"])
def test_a_field_of_an_added_tool_is_labelled(kind: str) -> None:
    item = {"type": kind, "tools": [{**WEATHER, "frobnicate": "word " * 90}]}
    it = estimate(item)
    assert "unknown_field" in it.assumptions
    assert it.high > it.tokens + 90


def test_a_server_whose_tools_come_later_is_a_guess() -> None:
    server = {"type": "mcp", "server_label": "x", "defer_loading": True}
    assert "builtin_tool" in estimate(tools=[SEARCH, server]).assumptions


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5-5"])
def test_a_version_that_no_list_has_is_a_guess(model: str) -> None:
    def with_tool(kind: str) -> Any:
        body = {"model": model, "max_tokens": 9, "messages": [ASKED], "tools": [{"type": kind}]}
        return HybridTokenEstimator(learning=False).estimate(body)

    listed, newer = with_tool("bash_20250124"), with_tool("bash_20991231")
    assert "builtin_tool" not in listed.assumptions
    assert "builtin_tool" in newer.assumptions
    assert newer.high > listed.high + 500


@pytest.mark.parametrize(("kind", "tokens"), [("computer", 4520), ("browser", 6610)])
def test_a_set_of_tools_has_its_own_size(kind: str, tokens: int) -> None:
    body = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": [ASKED]}
    estimator = HybridTokenEstimator(learning=False)
    plain = estimator.estimate(body).tokens
    it = estimator.estimate({**body, "tools": [{"type": f"{kind}_toolset_20260801"}]})
    assert abs(it.tokens - plain - tokens) < 40
    assert "builtin_tool" in it.assumptions
