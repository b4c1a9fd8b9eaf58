"""The old lines of docs/migration.md, run beside the new ones where the old package is there."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator, encoding_for_model, get_encoding
from tokenctx.context import model_limits

MESSAGES: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Why is the sky blue, and red at dusk?"},
]
TEXT = "Why is the sky blue, and red at dusk?"


def counted(**more: Any) -> int:
    return HybridTokenEstimator().estimate({"model": "gpt-4o", "messages": MESSAGES} | more).tokens


def test_from_litellm() -> None:
    os.environ.setdefault(
        "LITELLM_LOCAL_MODEL_COST_MAP", "True"
    )  # its import asks the network else
    litellm: Any = pytest.importorskip("litellm", reason="python3 dev.py clients has it")
    assert litellm.token_counter(model="gpt-4o", messages=MESSAGES) == counted()
    text = litellm.token_counter(model="gpt-4o", text=TEXT)
    assert text == encoding_for_model("gpt-4o").count(TEXT)
    assert litellm.encode(model="gpt-4o", text=TEXT) == get_encoding("cl100k_base").encode(TEXT)
    assert litellm.get_max_tokens("gpt-4o") == model_limits("gpt-4o").max_output_tokens
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    claude = {"model": "claude-sonnet-4-5", "messages": MESSAGES, "tools": tools}
    assert 300 < counted(**claude) - litellm.token_counter(**claude) < 700
    assert litellm.get_model_info("gpt-4o")["max_input_tokens"] == 128_000
    assert callable(litellm.utils.trim_messages)
    assert callable(litellm.create_pretrained_tokenizer)


def test_from_langchain() -> None:
    messages: Any = pytest.importorskip("langchain_core.messages")
    utils: Any = pytest.importorskip("langchain_core.messages.utils")
    read = messages.convert_to_messages(MESSAGES)
    estimator = HybridTokenEstimator()
    assert estimator.count_request(read, model="gpt-4o").tokens == counted()
    assert abs(utils.count_tokens_approximately(read) - counted()) < 10
    kept = messages.trim_messages(
        read,
        max_tokens=counted(),
        token_counter=lambda it: estimator.count_request(it, model="gpt-4o").tokens,
    )
    assert kept == read
