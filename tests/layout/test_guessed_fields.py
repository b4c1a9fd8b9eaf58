"""Fields whose price the calls of one project show: counted, labelled, and `low` without them."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tokenctx import HybridTokenEstimator

Json = dict[str, Any]

TOOL: Final = {
    "name": "add_one",
    "description": "Add one to x.",
    "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}},
}
BODY: Final[Json] = {
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Call the tool."}],
    "tools": [TOOL],
}
BUDGET: Final[Json] = {
    "output_config": {"task_budget": {"type": "tokens", "total": 20000, "remaining": 500}}
}


def examples(*inputs: Json) -> Json:
    return {"tools": [{**TOOL, "input_examples": [*inputs]}]}


def estimate(fields: Json, model: str = "claude-opus-4-8") -> Any:
    body = {"model": model, **BODY, **fields}
    estimator = HybridTokenEstimator(learning=False)
    it = estimator.estimate(body)
    of_bytes = HybridTokenEstimator(learning=False).estimate(json.dumps(body).encode())
    assert (it.low, it.tokens, it.high) == (of_bytes.low, of_bytes.tokens, of_bytes.high)
    assert it.tokens == estimator.count_request(body).tokens
    return it


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-8", "claude-opus-5-5"])
@pytest.mark.parametrize(
    ("fields", "tokens"), [(BUDGET, 35), (examples({"x": 5}), 82)], ids=["budget", "examples"]
)
def test_the_price_is_counted_and_labelled(model: str, fields: Json, tokens: int) -> None:
    plain, it = estimate({}, model), estimate(fields, model)
    assert abs(it.tokens - plain.tokens - tokens) <= 5
    assert "unknown_field" in it.assumptions
    assert it.low == plain.low
    assert it.high >= it.tokens + 96


def test_examples_are_counted_by_their_text() -> None:
    one, long = estimate(examples({"x": 5})), estimate(examples({"x": "word " * 300}))
    assert 290 < long.tokens - one.tokens < 420


def test_other_models_do_not_have_the_price() -> None:
    plain, it = estimate({}, "gpt-5"), estimate(BUDGET, "gpt-5")
    assert it.tokens == plain.tokens
    assert "unknown_field" in it.assumptions


def test_a_budget_that_is_added_to_a_known_request_is_counted_on_top() -> None:
    estimator = HybridTokenEstimator(learning=False)
    body = {"model": "claude-opus-4-8", **BODY}
    assert estimator.record(body, 400)
    it = estimator.estimate(body | BUDGET)
    assert (it.source, it.tokens) == ("delta", 435)
