"""What reading usage costs, beside the least that a gateway does by hand.

A stream beside `json.loads` of every event, which finds neither usage nor reply, and beside what
scaling the same stream costs, which reads nothing; one usage object beside a function that knows
the words of one provider alone, and beside parsing it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

from tokenctx import ContextWindowScaler, UsageReader, normalize_usage
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
EXPECTED = Usage(
    uncached_input_tokens=36,
    cache_read_tokens=64,
    output_tokens=20,
    reasoning_tokens=5,
    reported_total_tokens=120,
)


def chunks() -> list[bytes]:
    """A stream of OpenAI: 1,000 deltas, then usage."""
    choice = {"index": 0, "delta": {"content": "and so on, "}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    events = [{**HEAD, "choices": [choice], "usage": None}] * 1_000
    events += [{**HEAD, "choices": [end]}, {**HEAD, "choices": [], "usage": USAGE}]
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events]


def read(stream: list[bytes]) -> Usage:
    reader = UsageReader()
    for chunk in stream:
        reader.feed(chunk)
    return reader.finish()


def parse(stream: list[bytes]) -> Usage | None:
    """As gateways write it, for streams of whole events of one provider."""
    usage = None
    for chunk in stream:
        usage = json.loads(chunk[len("data: ") :]).get("usage") or usage
    return by_hand(usage)


def scale(stream: list[bytes]) -> Usage:
    scaled = ContextWindowScaler(128_000, 200_000).scale_stream(stream)
    for _ in scaled:
        pass
    return scaled.usage.real


def by_hand(usage: Any) -> Usage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return Usage(
        uncached_input_tokens=usage["prompt_tokens"] - cached,
        cache_read_tokens=cached,
        output_tokens=usage["completion_tokens"],
        reasoning_tokens=reasoning,
        reported_total_tokens=usage.get("total_tokens"),
    )


CASES: dict[str, tuple[Any, dict[str, Callable[[Any], Any]]]] = {
    "read-stream": (chunks(), {"rust": read, "reference": parse}),
    "read-stream-scaled": (chunks(), {"rust": read, "reference": scale}),
    "read-usage": (USAGE, {"rust": normalize_usage, "reference": by_hand}),
}


class Counts(pydantic.BaseModel):
    """As the usage of an SDK: fields, and what comes beside them."""

    model_config = {"extra": "allow"}

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


COUNTS = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
FORMS: dict[str, Any] = {"normalize-dict": COUNTS, "normalize-object": Counts(**COUNTS)}


@pytest.mark.parametrize("implementation", ["rust", "reference"])
@pytest.mark.parametrize("group", FORMS)
def test_normalize(benchmark: BenchmarkFixture, group: str, implementation: str) -> None:
    """Three numbers in normal form, beside `json.loads` of their text."""
    given, text = FORMS[group], json.dumps(COUNTS).encode()
    usage = normalize_usage(given)
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.reported_total_tokens) == (100, 20, 120)
    benchmark.group = group
    if implementation == "rust":
        benchmark(normalize_usage, given)
    else:
        benchmark(json.loads, text)


@pytest.mark.parametrize("implementation", ["rust", "reference"])
@pytest.mark.parametrize("group", CASES)
def test_read(benchmark: BenchmarkFixture, group: str, implementation: str) -> None:
    given, implementations = CASES[group]
    assert all(work(given) == EXPECTED for work in implementations.values())
    benchmark.group = group
    benchmark(implementations[implementation], given)
