"""What is said of the context window of a known conversation, beside its estimate.

The same dict of 435 messages and 24 tools, of which all but the last turn is known. `reference` is
one estimate of it, in the same process.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from conversations import agent_conversation, with_new_turn
from tokenctx import ContextWindow, HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

WINDOW_TOKENS = 1_000_000


def should_compact_above(window: ContextWindow, body: Any) -> bool:
    """The decision above the threshold: what is around the messages is counted."""
    above = ContextWindow("gpt-4o", limits=1_000, estimator=window.estimator)
    return above.should_compact(body)


QUESTIONS: dict[str, Callable[[ContextWindow, Any], object]] = {
    "context-usage": ContextWindow.usage,
    "context-should-compact": ContextWindow.should_compact,
    "context-should-compact-above": should_compact_above,
    "context-retain": ContextWindow.retain,
    "context-prune": ContextWindow.prune,
    "context-trim": ContextWindow.trim,
}


def known_conversation() -> tuple[ContextWindow, dict[str, Any]]:
    """A window that knows all but the last turn of a conversation, and the conversation."""
    body = agent_conversation(435)
    body["tools"] *= 2
    window = ContextWindow("gpt-4o", limits=WINDOW_TOKENS, estimator=HybridTokenEstimator())
    assert window.record(body, window.usage(body).total_tokens)
    return window, with_new_turn(body)


@pytest.mark.parametrize("implementation", ["rust", "reference"])
@pytest.mark.parametrize("group", QUESTIONS)
def test_context(benchmark: BenchmarkFixture, group: str, implementation: str) -> None:
    window, body = known_conversation()
    assert window.estimator.estimate(body).source == "delta"
    work: Callable[[Any], object] = functools.partial(QUESTIONS[group], window)
    if implementation == "reference":
        work = functools.partial(window.estimator.estimate, model="gpt-4o")
    benchmark.group = group
    benchmark(work, body)
