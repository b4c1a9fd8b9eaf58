"""Tools of Claude's vendor cost their listed sizes, and a tool search keeps deferred ones away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator

OWN = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
LATER = {
    "name": "rate",
    "description": "Looks up an exchange rate. " * 20,
    "input_schema": {"type": "object"},
    "defer_loading": True,
}
SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def estimate(model: str, *tools: dict[str, Any], **fields: Any) -> Any:
    body = {
        "model": model,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [*tools],
        **fields,
    }
    found = HybridTokenEstimator().estimate(body)
    assert HybridTokenEstimator().estimate(json.dumps(body)).tokens == found.tokens
    return found


@pytest.mark.parametrize(
    ("model", "kind", "tokens"),
    [
        ("claude-sonnet-4-6", "bash_20250124", 244),
        ("claude-sonnet-4-6", "text_editor_20250728", 745),
        ("claude-sonnet-4-5", "text_editor_20250124", 700),
        ("claude-sonnet-4-5", "memory_20250818", 1069),
        ("claude-sonnet-4-5", "web_search_20250305", 1710),
        ("claude-opus-4-7", "bash_20250124", 325),
        ("claude-opus-5", "text_editor_20250728", 974),
    ],
)
def test_a_tool_costs_its_listed_size_beside_the_others(model: str, kind: str, tokens: int) -> None:
    tool = {"type": kind, "name": kind.rpartition("_")[0]}
    found, without = estimate(model, OWN, tool), estimate(model, OWN)
    assert found.tokens - without.tokens == tokens
    is_known = not kind.startswith("web_search")
    assert found.assumptions == (() if is_known else ("builtin_tool",))
    assert (found.high < 1.4 * found.tokens) == is_known


def test_a_tool_that_is_not_listed_is_assumed() -> None:
    found = estimate("claude-opus-5", OWN, {"type": "teleport_20270101", "name": "teleport"})
    assert found.assumptions == ("builtin_tool",)
    assert found.high > 2 * found.tokens


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-8", "claude-opus-5"])
def test_a_deferred_tool_counts_once_a_search_has_loaded_it(model: str) -> None:
    searched = estimate(model, OWN, SEARCH).tokens
    assert estimate(model, OWN, SEARCH, LATER).tokens == searched
    reference = {"type": "tool_reference", "tool_name": "rate"}
    block = {
        "type": "tool_search_tool_result",
        "tool_use_id": "s",
        "content": {"type": "tool_search_tool_search_result", "tool_references": [reference]},
    }
    found = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [block]}]
    loaded = estimate(model, OWN, SEARCH, LATER, messages=[*found, found[0]])
    alone = estimate(model, OWN, SEARCH, messages=[*found, found[0]])
    assert loaded.tokens > alone.tokens + 80


def test_a_profile_of_the_user_may_list_tools() -> None:
    row = {
        "name": "mine",
        "like": "claude-5",
        "models": ["mine"],
        "vendor_tools": {"probe_": 77},
    }
    estimator = HybridTokenEstimator(profiles=[row])
    body: dict[str, Any] = {"model": "mine", "messages": [{"role": "user", "content": "hi"}]}
    counts = [
        estimator.estimate({**body, "tools": [OWN, *more]}).tokens
        for more in ([], [{"type": "probe_1", "name": "probe"}])
    ]
    assert counts[1] - counts[0] == 77
