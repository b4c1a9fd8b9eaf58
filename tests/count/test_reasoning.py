"""Reasoning that a new turn of the user drops from what was billed."""

from __future__ import annotations

from typing import Any

import tokenctx
from dialect_calls import assistant, user

THINKING = {"type": "thinking", "thinking": "Let me see. " * 40, "signature": "x"}


def loop_estimator() -> tuple[Any, dict[str, Any], list[Any]]:
    """A tool loop of Claude 4 with thinking, billed up to the tool's result."""
    call = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "ok"}
    turns = [user("go"), assistant([THINKING, call]), user([result])]
    estimator = tokenctx.HybridTokenEstimator()
    body = {"model": "claude-sonnet-4-0", "messages": turns}
    estimator.record(body, 1000)
    return estimator, body, turns


def test_reasoning_stays_within_the_loop() -> None:
    estimator, body, turns = loop_estimator()
    estimate = estimator.estimate({**body, "messages": [*turns, assistant("done")]})
    assert (estimate.source, estimate.known_tokens) == ("delta", 1000)


def test_a_new_turn_of_the_user_drops_the_reasoning_of_the_last() -> None:
    estimator, body, turns = loop_estimator()
    grown = {**body, "messages": [*turns, assistant("done"), user("next")]}
    dropped = 1000 - estimator.estimate(grown).known_tokens
    plain = [turns[0], assistant(turns[1]["content"][1:]), turns[2]]
    counts = [
        estimator.count_request({**body, "messages": messages}).tokens
        for messages in (turns, plain)
    ]
    assert dropped > 100
    assert abs(dropped - (counts[0] - counts[1])) <= 1  # each part is rounded up by itself


def test_models_that_keep_reasoning_drop_none() -> None:
    _, body, turns = loop_estimator()
    estimator = tokenctx.HybridTokenEstimator()
    body = {**body, "model": "claude-opus-4-6"}
    estimator.record(body, 1000)
    grown = {**body, "messages": [*turns, assistant("done"), user("next")]}
    assert estimator.estimate(grown).known_tokens == 1000
