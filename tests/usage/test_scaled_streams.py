"""A stream is scaled as it goes by: events, count answers, what is left alone."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

import tokenctx
from scaled_example import EXAMPLE, SCALED, STREAM
from tokenctx import ContextWindowScaler, normalize_usage
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def test_a_stream_that_is_left_is_partial_and_closes_its_source(scaler: Any) -> None:
    closed = []

    def source() -> Iterator[bytes]:
        try:
            yield STREAM
            yield b": more\n\n"
        finally:
            closed.append(True)

    stream = scaler.scale_stream(source())
    next(stream)
    stream.close()
    assert closed == [True]
    assert stream.usage.real.is_partial
    assert stream.usage.adjusted.total_tokens == 85_937


def test_async_streams(scaler: Any) -> None:
    async def source() -> AsyncIterator[bytes]:
        for index in range(0, len(STREAM), 7):
            yield STREAM[index : index + 7]

    async def collect() -> tuple[bytes, Any]:
        stream = scaler.scale_stream(source())
        return b"".join([chunk async for chunk in stream]), stream.usage

    out, usage = asyncio.run(collect())
    assert json.loads(out[len("data: ") :])["usage"] == SCALED
    assert usage.real == normalize_usage(EXAMPLE)


async def left_early(scaler: Any, closed: list[bool]) -> Any:
    async def source() -> AsyncIterator[bytes]:
        try:
            yield STREAM
            yield b": more\n\n"
        finally:
            closed.append(True)

    stream = scaler.scale_stream(source())
    await anext(stream)
    await stream.aclose()
    return stream.usage


def test_an_async_stream_that_is_left_is_partial(scaler: Any) -> None:
    closed: list[bool] = []
    assert asyncio.run(left_early(scaler, closed)).real.is_partial
    assert closed == [True]


@pytest.mark.parametrize("body", [b"", b"not json", b'{"usage":', b"[1]", b"\xff", b'{"usage":7}'])
def test_what_has_no_usage_stays(scaler: Any, body: bytes) -> None:
    assert scaler.scale_body(body) == body
    assert scaler.scale_body(body).usage.real == Usage()


def test_only_known_places_change(scaler: Any) -> None:
    body = {
        "content": [{"type": "tool_use", "input": {"usage": {"input_tokens": 128}}}],
        "tools": [{"usage": {"input_tokens": 128}}],
        "input_tokens": 128,
        "usage": {
            "input_tokens": 128,
            "cost": 128,
            "server_tool_use": {"web_search_requests": 128},
        },
    }
    expected = json.loads(json.dumps(body))
    expected["usage"]["input_tokens"] = 200
    assert scaler.scale_body(body) == expected


@pytest.mark.parametrize(
    ("answer", "scaled"),
    [
        ({"input_tokens": 128}, {"input_tokens": 200}),
        (
            {"object": "response.input_tokens", "input_tokens": 128},
            {"object": "response.input_tokens", "input_tokens": 200},
        ),
        (
            {"input_tokens": 64, "context_management": {"original_input_tokens": 128}},
            {"input_tokens": 100, "context_management": {"original_input_tokens": 200}},
        ),
        ({"totalTokens": 128}, {"totalTokens": 200}),
        ({"inputTokens": 128}, {"inputTokens": 200}),
    ],
)
def test_answers_of_count_endpoints_are_scaled(scaler: Any, answer: Any, scaled: Any) -> None:
    body = scaler.scale_count_response(answer)
    assert body == scaled
    assert body.usage.real.input_tokens in (64, 128)
    raw = scaler.scale_count_response(json.dumps(answer).encode())
    assert json.loads(raw) == scaled
    assert scaler.scale_count_response(raw) is raw


def start(usage: dict[str, Any]) -> bytes:
    event = {"type": "message_start", "message": {"type": "message", "usage": usage}}
    return b"event: message_start\ndata: " + json.dumps(event).encode() + b"\n\n"


def first_usage(stream: Any) -> Any:
    data = b"".join(stream).split(b"data: ")[1]
    return json.loads(data.split(b"\n")[0])["message"]["usage"]


def test_message_start_gets_the_estimate_in_the_measure_of_the_agent(scaler: Any) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    body = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "hi" * 99}]}
    estimate = estimator.estimate(body)
    zeros = {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    usage = first_usage(scaler.scale_stream([start(zeros)], first_input_tokens=estimate))
    assert usage["input_tokens"] == estimate.tokens * 200_000 // 128_000 > 0
    assert (usage["cache_read_input_tokens"], usage["output_tokens"]) == (0, 1)
    unscaled = ContextWindowScaler(None).scale_stream([start(zeros)], first_input_tokens=estimate)
    assert first_usage(unscaled)["input_tokens"] == estimate.tokens


def test_what_the_provider_says_in_message_start_stays(scaler: Any) -> None:
    for usage in (
        {"input_tokens": 128, "output_tokens": 0},
        {"input_tokens": 0, "cache_read_input_tokens": 128, "output_tokens": 0},
    ):
        found = first_usage(scaler.scale_stream([start(usage)], first_input_tokens=9_999))
        assert found["input_tokens"] + found.get("cache_read_input_tokens", 0) == 200
    stream = scaler.scale_stream([start({"input_tokens": 0})], first_input_tokens=9_999)
    assert first_usage(stream)["input_tokens"] > 0
    assert stream.usage.real.input_tokens == 0


def test_an_event_above_the_limit_passes_as_it_is() -> None:
    limit = 1 << 20
    head, tail = b'data: {"usage":{"input_tokens":128},"x":"', b'"}\n'
    scaler = ContextWindowScaler(128_000)
    for size, is_scaled in ((limit, True), (limit + 1, False)):
        event = head + b"x" * (size - len(head) - len(tail)) + tail + b"\n"
        for chunks in (
            [event],
            [event[:100], event[100:]],
            [event[:-1], event[-1:]],
            [event[: limit + 1], event[limit + 1 :]],
        ):
            stream = scaler.scale_stream([*chunks, STREAM])
            out = b"".join(stream)
            assert (out[: len(event)] == event) != is_scaled
            assert stream.long_event_count == (not is_scaled)
            assert b'"prompt_tokens": 78125' in out[len(event) :]
            assert len(out) == len(event) + len(STREAM)


def test_what_is_complete_is_sent_at_once() -> None:
    stream = ContextWindowScaler(128_000).scale_stream([b": ping\n\ndata: [DO", b"NE]\n\n"])
    assert list(stream) == [b": ping\n\n", b"data: [DONE]\n\n"]


def test_a_chunk_without_usage_is_the_same_object() -> None:
    chunk = b"data: {}\n\n"
    assert next(ContextWindowScaler(128_000).scale_stream([chunk])) is chunk
