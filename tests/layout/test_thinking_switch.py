"""Chat templates that are told whether the model thinks lay a thought behind the messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator

ASKED = {"messages": [{"role": "user", "content": "What is the capital of France?"}]}
OFF: list[dict[str, Any]] = [
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"chat_template_kwargs": {"enable_thinking": "false", "other": 1}},
    {"enable_thinking": False},
]
ON: list[dict[str, Any]] = [
    {},
    {"chat_template_kwargs": {"enable_thinking": True}},
    {"chat_template_kwargs": None},
]


def tokens(model: str, **fields: Any) -> int:
    body = {"model": model, **ASKED, **fields}
    counts = {HybridTokenEstimator().estimate(it).tokens for it in (body, json.dumps(body))}
    assert len(counts) == 1
    return counts.pop()


@pytest.mark.parametrize(
    ("model", "on", "off"),
    [
        ("Qwen/Qwen3-30B-A3B", 15, 19),
        ("qwen3-8b", 15, 19),
        ("qwen3.5-35b-a3b", 17, 19),
        ("qwen3-30b-a3b-thinking-2507", 17, 17),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", 17, 17),
        ("qwen3-vl-8b-thinking", 17, 17),
        ("Qwen/QwQ-32B", 17, 17),
        ("qwen3-30b-a3b-instruct-2507", 15, 15),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 15, 15),
        ("gpt-4o", 14, 14),
    ],
)
def test_a_switch_counts_as_the_template_of_the_model_has_it(model: str, on: int, off: int) -> None:
    assert {tokens(model, **fields) for fields in ON} == {on}
    assert {tokens(model, **fields) for fields in OFF} == {off}


def test_the_switch_is_billed_and_no_identity() -> None:
    estimator = HybridTokenEstimator()
    body = {"model": "qwen3-8b", **ASKED}
    estimator.record(body, 15)
    switched = estimator.estimate({**body, **OFF[0]})
    assert (switched.known_tokens, switched.tokens) == (19, 19)
    assert "changed_options" in switched.assumptions
