"""What scaling a stream costs, beside a rewrite in plain Python: parse, change, write each event.

Each chunk is one event, as providers send them. Both give the same bytes, asserted before anything
is timed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from conversations import prose_and_code
from tokenctx import _core

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

REAL, ASSUMED = 128_000, 200_000
Rewrite = Callable[[list[bytes]], list[bytes]]


def event(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


def deltas(count: int, text: str) -> list[bytes]:
    """A stream of Anthropic: usage in the first and in the last event."""
    usage = {"input_tokens": 50_000, "cache_read_input_tokens": 7_001, "output_tokens": 1}
    delta = {"type": "content_block_delta", "index": 0}
    return [
        event({"type": "message_start", "message": {"role": "assistant", "usage": usage}}),
        *[event({**delta, "delta": {"type": "text_delta", "text": text}})] * count,
        event({"type": "message_delta", "usage": {"output_tokens": 5_000}}),
    ]


def chunks_with_usage() -> list[bytes]:
    """A stream of Gemini: 1,000 events, each with usage."""
    usage = {"promptTokenCount": 50_000, "candidatesTokenCount": 500, "totalTokenCount": 50_500}
    content = {"role": "model", "parts": [{"text": "and so on, "}]}
    return [event({"candidates": [{"content": content}], "usageMetadata": usage})] * 1_000


STREAMS = {
    "stream-deltas": lambda: deltas(1_000, "and so on, "),
    "stream-long-deltas": lambda: deltas(100, prose_and_code(64_000)),
    "stream-usage": chunks_with_usage,
}


def rewrite_rust(chunks: list[bytes]) -> list[bytes]:
    stream = _core.Scale([(REAL, ASSUMED)], "floor").stream()
    return [*map(stream.push, chunks), stream.finish()]


def rewrite_python(chunks: list[bytes]) -> list[bytes]:
    """As gateways write it, for streams of whole events in the formats above."""
    out = []
    for chunk in chunks:
        content = json.loads(chunk[len("data: ") :])
        for place in (content, content.get("message") or {}):
            for name in ("usage", "usageMetadata"):
                if usage := place.get(name):
                    place[name] = scaled(usage)
        out.append(event(content))
    return out


def scaled(usage: dict[str, int]) -> dict[str, int]:
    told = {name: number * ASSUMED // REAL for name, number in usage.items()}
    if cached := usage.get("cache_read_input_tokens"):
        together = (usage["input_tokens"] + cached) * ASSUMED // REAL
        told["input_tokens"] = together - told["cache_read_input_tokens"]
    if "totalTokenCount" in told:
        told["totalTokenCount"] = told["promptTokenCount"] + told["candidatesTokenCount"]
    return told


REWRITES: dict[str, Rewrite] = {"rust": rewrite_rust, "reference": rewrite_python}


@pytest.mark.parametrize("implementation", REWRITES)
@pytest.mark.parametrize("group", STREAMS)
def test_stream(benchmark: BenchmarkFixture, group: str, implementation: str) -> None:
    chunks = STREAMS[group]()
    assert b"".join(rewrite_rust(chunks)) == b"".join(rewrite_python(chunks)) != b"".join(chunks)
    benchmark.group = group
    rounds = 50 if implementation == "rust" else 5
    benchmark.pedantic(REWRITES[implementation], [chunks], rounds=rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]
