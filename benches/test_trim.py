"""200 messages of 160,000 tokens cut to half of them, beside langchain_core.

langchain_core's `trim_messages` asks a counter for lists of messages again and again. It gets an
exact one: tiktoken's o200k_base with 4 tokens a message, or ours, which knows texts again. tokenctx
counts the whole request, with tools and framing, and plans from that.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from conversations import agent_conversation
from counters import tiktoken_encoding
from tokenctx import ContextWindow, HybridTokenEstimator, count_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_benchmark.fixture import BenchmarkFixture

    Count = Callable[[str], int]

BUDGET = 80_000
MESSAGE_TOKENS = 4
ROUNDS = itertools.count()


def conversation() -> dict[str, Any]:
    """Its texts are new each time: a text that was counted before would be known by its hash."""
    body, mark = agent_conversation(200, 445_000), f" {next(ROUNDS)}"
    for message in body["messages"]:
        message["content"] = (message["content"] or "") + mark
    return body


def ours(body: dict[str, Any]) -> int:
    """With a new estimator, which knows nothing."""
    window = ContextWindow("gpt-4o", estimator=HybridTokenEstimator())
    return len(window.trim(body, BUDGET).kept)


def langchain(count: Count) -> Callable[[Sequence[Any]], int]:
    """Its newest messages, system prompt included, beginning with the user's; `count` is exact."""
    messages = pytest.importorskip("langchain_core.messages", reason="langchain-core is missing")

    def tokens(given: Sequence[Any]) -> int:
        texts = (str(one.content) + str(getattr(one, "tool_calls", "")) for one in given)
        return sum(MESSAGE_TOKENS + count(text) for text in texts)

    def trim(converted: Sequence[Any]) -> int:
        kept = messages.trim_messages(
            converted,
            max_tokens=BUDGET,
            token_counter=tokens,
            strategy="last",
            include_system=True,
            start_on="human",
        )
        return len(kept)

    return trim


def converted() -> Sequence[Any]:
    messages = pytest.importorskip("langchain_core.messages", reason="langchain-core is missing")
    found: Sequence[Any] = messages.convert_to_messages(conversation()["messages"])
    return found


def tiktoken_count() -> Count:
    """With our ranks, so that nothing is fetched."""
    pytest.importorskip("tiktoken", reason="tiktoken is missing")
    encoding = tiktoken_encoding("o200k_base")
    return lambda text: len(encoding.encode_ordinary(text))


@pytest.mark.benchmark(group="trim-agent")
@pytest.mark.parametrize(
    "implementation", ["tokenctx", "langchain-tiktoken", "langchain-our-count"]
)
def test_trim(benchmark: BenchmarkFixture, implementation: str) -> None:
    work: Callable[[Any], int] = ours
    if implementation != "tokenctx":
        work = langchain(tiktoken_count() if implementation.endswith("tiktoken") else count_tokens)
    made = conversation if implementation == "tokenctx" else converted
    total = HybridTokenEstimator().count_request(conversation()).tokens
    assert 155_000 < total < 165_000
    assert 80 < work(made()) < 120
    rounds = {"setup": lambda: ((made(),), {}), "rounds": 10, "warmup_rounds": 1}
    benchmark.pedantic(work, **rounds)  # type: ignore[no-untyped-call]
