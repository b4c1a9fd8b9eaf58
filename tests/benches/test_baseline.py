"""The baseline of the benchmarks gives the core's answers on the benchmarks' conversations."""

from __future__ import annotations

from typing import Any

import pytest

from conversations import agent_conversation, encoded, with_new_turn
from dialect_calls import CALLS
from reference.baseline import Baseline
from tokenctx import ConversationStateTracker, HybridTokenEstimator

SECRET = b"secret of the baseline"


@pytest.mark.parametrize("count", [4, 8, 40])
def test_it_counts_and_knows_what_the_core_does(count: int) -> None:
    body = agent_conversation(count, 20_000)
    core, plain = HybridTokenEstimator(secret=SECRET, learning=False), Baseline(SECRET)
    for request in (body, with_new_turn(body)):
        counted = core.count_request(request)
        assert plain.count(encoded(request)) == (counted.context_tokens, counted.message_tokens)
        estimate = core.estimate(request)
        expected = (estimate.tokens, estimate.known_tokens, estimate.new_message_count)
        assert plain.estimate(request) == expected
        core.record(body, 9_000)
        plain.record(encoded(body), 9_000)
    assert plain.estimate(body).tokens == 9_000


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
def test_it_finds_the_conversations_that_the_core_finds(dialect: str) -> None:
    call = CALLS[dialect]
    core, plain = ConversationStateTracker(secret=SECRET), Baseline(SECRET)
    assert plain.lookup(call.request, "family") == core.lookup(call.request, "family")
    core.record_actual(call.request, "family", 7)
    plain.record_actual(call.request, "family", 7)
    for request in (call.request, call.next_request):
        assert plain.lookup(request, "family") == core.lookup(request, "family")


TWO_CALLS = [{"function": {"name": "f", "arguments": "{}"}}] * 2
BEYOND: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    {"messages": [{"role": "assistant", "content": "", "tool_calls": TWO_CALLS}]},
    {
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"function": {"name": "f", "parameters": {"properties": {"a": {}}}}}],
    },
]


@pytest.mark.parametrize("body", BEYOND)
def test_it_refuses_what_it_does_not_count(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the baseline"):
        Baseline(SECRET).count(body)
