"""An agent sees the share of its window that the real one is filled to; the true numbers stay."""

from __future__ import annotations

import asyncio
import json
import random
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

import tokenctx
from reference.scale import Scale
from tokenctx import ContextWindowScaler, UsageReader, _core, normalize_usage
from tokenctx.usage import Usage, agent_hints

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

EXAMPLE = {"prompt_tokens": 50_000, "completion_tokens": 5_000, "total_tokens": 55_000}
SCALED = {"prompt_tokens": 78_125, "completion_tokens": 7_812, "total_tokens": 85_937}
BODY = json.dumps({"usage": EXAMPLE}).encode()
STREAM = b'data: {"choices":[],"usage":' + json.dumps(EXAMPLE).encode() + b"}\n\n"
MAX_U64 = 2**64 - 1
CASES = 100_000


@pytest.fixture
def scaler() -> Any:
    return tokenctx.ContextWindowScaler(128_000)


# The adapter's document


def test_the_example_of_the_document(scaler: Any) -> None:
    scaled = scaler.scale(EXAMPLE)
    adjusted = scaled.adjusted
    assert (adjusted.input_tokens, adjusted.output_tokens) == (78_125, 7_812)
    assert adjusted.total_tokens == adjusted.reported_total_tokens == 85_937
    assert scaled.real == normalize_usage(EXAMPLE)
    assert (scaled.status, scaled.real_window_tokens) == ("scaled", 128_000)
    assert scaler.scale_body({"usage": EXAMPLE}) == {"usage": SCALED}
    assert scaler.scale_body(BODY) == json.dumps({"usage": SCALED}).encode()
    stream = b"".join(scaler.scale_stream([STREAM]))
    assert stream == b'data: {"choices":[],"usage":' + json.dumps(SCALED).encode() + b"}\n\n"


@pytest.mark.parametrize("model", ["gpt-4o-mini", "openai/gpt-4o-mini"])
def test_an_exempt_model_is_told_the_truth(scaler: Any, model: str) -> None:
    scaled = scaler.scale(EXAMPLE, model=model)
    assert (scaled.status, scaled.adjusted.total_tokens) == ("exempt", 55_000)
    assert b"".join(scaler.scale_stream([STREAM], model=model)) == STREAM
    assert scaler.scale(EXAMPLE, model="gpt-4o-mini-2").status == "scaled"


@pytest.mark.parametrize("usage", [None, {}, {"usage": None}])
def test_no_usage_is_zeros(scaler: Any, usage: Any) -> None:
    scaled = scaler.scale(usage)
    assert scaled.real == Usage()
    assert scaled.adjusted == Usage(is_scaled=True)


@pytest.mark.parametrize(
    ("window", "status"),
    [
        (None, "unknown_window"),
        (0, "unknown_window"),
        (200_000, "equal_window"),
        (1_000_000, "larger_window"),
    ],
)
def test_other_windows_are_left_alone_and_reported(window: int | None, status: str) -> None:
    seen: list[Any] = []
    scaler = tokenctx.ContextWindowScaler(window, on_usage=seen.append)
    assert scaler.scale(EXAMPLE).status == status
    assert scaler.scale_body({"usage": EXAMPLE}) == {"usage": EXAMPLE}
    assert b"".join(scaler.scale_stream([STREAM])) == STREAM
    assert [usage.status for usage in seen] == [status] * 3
    assert {usage.adjusted.total_tokens for usage in seen} == {55_000}


@pytest.mark.parametrize(
    ("rounding", "tokens"), [("floor", 7_812), ("nearest", 7_813), ("ceil", 7_813)]
)
def test_rounding(rounding: Any, tokens: int) -> None:
    scaler = tokenctx.ContextWindowScaler(128_000, rounding=rounding)
    assert scaler.scale(EXAMPLE).adjusted.output_tokens == tokens


# Windows, factors, strategies


def test_factors_by_model() -> None:
    scaler = tokenctx.ContextWindowScaler(
        128_000,
        factors={"learned": Fraction(3, 2), "half": 0.5, "exact": 1.1},
    )

    def tokens(model: str) -> int:
        return int(scaler.scale(50_000, model=model).adjusted.input_tokens)

    assert tokens("other") == 78_125
    assert tokens("vendor/learned") == tokens("learned") == 75_000
    assert tokens("half") == 50_000
    assert tokens("exact") == 55_000


def test_a_factor_is_learned_from_recorded_calls() -> None:
    factor = ContextWindowScaler.learned_factor([(120, 100), (30, 20)])
    assert factor == Fraction(5, 4)
    scaler = ContextWindowScaler(None, factors={"m": factor})
    assert scaler.scale(1000, model="m").adjusted.input_tokens == 1250
    with pytest.raises(ValueError, match="2 calls with 3 and 0 tokens give no factor"):
        ContextWindowScaler.learned_factor([(1, 0), (2, 0)])


def test_piecewise_tells_the_truth_until_the_window_fills() -> None:
    scaler = tokenctx.ContextWindowScaler(128_000, strategy="piecewise")

    def tokens(real: int) -> int:
        return int(scaler.scale(real).adjusted.input_tokens)

    assert [tokens(real) for real in (0, 1, 64_000)] == [0, 1, 64_000]
    assert tokens(96_000) == 132_000
    assert tokens(128_000) == 200_000
    usage = {"input_tokens": 120_000, "output_tokens": 8_000}
    scaled = scaler.scale(usage).adjusted
    assert scaled.total_tokens == 200_000
    stream = [
        b'data: {"usage":{"input_tokens":120000}}\n\ndata: {"usage":{"output_tokens":8000}}\n\n'
    ]
    out = b"".join(scaler.scale_stream(stream))
    assert f'"output_tokens":{scaled.output_tokens}}}'.encode() in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"assumed_window": 0}, "assumed window is 0 tokens; it must be at least 1"),
        ({"strategy": "other"}, "strategy is 'other'; it must be one of fixed, piecewise"),
        ({"factors": {"m": 0}}, "factor is 0; it must be above 0 and below"),
        ({"rounding": "up"}, 'rounding is "up"; it must be one of floor, nearest, ceil'),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContextWindowScaler(128_000, **options)


# Never twice; the truth is beside


def test_what_is_scaled_is_never_scaled_again(scaler: Any) -> None:
    usage = scaler.scale(EXAMPLE)
    assert scaler.scale(usage) is usage
    assert scaler.scale(usage.adjusted).adjusted == usage.adjusted
    for body in ({"usage": EXAMPLE}, BODY):
        once = scaler.scale_body(body)
        assert scaler.scale_body(once) is once
        assert scaler.scale(once) is once.usage
    stream = scaler.scale_stream([STREAM])
    assert scaler.scale_stream(stream) is stream


def test_only_true_numbers_are_learned_from(scaler: Any) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
    assert not estimator.record(body, scaler.scale(EXAMPLE).adjusted)
    stream = scaler.scale_stream([STREAM])
    assert not estimator.record(body, stream)
    assert list(stream)
    bodies = [scaler.scale_body({"usage": EXAMPLE}), scaler.scale_body(BODY)]
    for usage in (scaler.scale(EXAMPLE), *bodies, stream):
        assert estimator.record(body, usage)
        assert estimator.estimate(body).tokens == 50_000
        estimator.reset()


def test_a_hook_sees_real_and_adjusted_side_by_side() -> None:
    seen: list[Any] = []
    scaler = tokenctx.ContextWindowScaler(128_000, on_usage=seen.append)
    stream = scaler.scale_stream([STREAM], model="m")
    assert seen == []
    assert list(stream)
    (usage,) = seen
    assert (usage.real.total_tokens, usage.adjusted.total_tokens) == (55_000, 85_937)
    assert (usage.model, usage.real.is_partial) == ("m", False)


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


# Bodies and counts


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


# message_start


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


# Limits


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


# Laws, on many cases


def tokens(draw: random.Random) -> int:
    return draw.randrange(1 << draw.choice([1, 8, 18, 40, 63, 64]))


def anthropic(draw: random.Random) -> dict[str, int]:
    names = (
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "input_tokens",
        "output_tokens",
    )
    return {name: tokens(draw) for name in names}


def openai(draw: random.Random) -> dict[str, Any]:
    prompt, completion = tokens(draw) >> 2, tokens(draw) >> 2
    cached, reasoning = draw.randint(0, prompt), draw.randint(0, completion)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
        "prompt_cache_miss_tokens": prompt - cached,
    }


def scaled_by(scale: Any, usage: Any) -> Any:
    body, _ = scale.body(json.dumps({"usage": usage}).encode(), is_count=False)
    return json.loads(body)["usage"]


def drawn_window(draw: random.Random) -> tuple[int, int]:
    return draw.choice([8_000, 32_768, 128_000, draw.randint(1, 2**40)]), draw.choice(
        [200_000, 10**6]
    )


def is_within_a_token(scaled: int, real: int, window: tuple[int, int]) -> bool:
    """Whether `scaled` is the same share of its window as `real`, to a token."""
    exact = Fraction(real * window[1], window[0])
    return scaled == MAX_U64 if exact >= MAX_U64 else abs(scaled - exact) < 1


@pytest.mark.parametrize("seed", range(10))
def test_parts_add_up_and_shares_are_kept(seed: int) -> None:
    """10^5 bodies of Anthropic and as many of OpenAI, with numbers up to 64 bits."""
    draw = random.Random(seed)
    for _ in range(CASES // 10):
        window = drawn_window(draw)
        scale = _core.Scale([window], draw.choice(["floor", "nearest", "ceil"]))
        real = anthropic(draw)
        told = scaled_by(scale, real)
        all_real = sum(real.values()) - real["output_tokens"]
        all_told = sum(told.values()) - told["output_tokens"]
        if all_real <= MAX_U64:
            assert is_within_a_token(all_told, all_real, window), (real, told, window)
        assert is_within_a_token(told["output_tokens"], real["output_tokens"], window)
        assert all(told[name] == 0 for name in real if real[name] == 0)

        real = openai(draw)
        told = scaled_by(scale, real)
        parts = told["prompt_tokens"] + told["completion_tokens"]
        assert told["total_tokens"] == min(parts, MAX_U64), (real, told)
        cached = told["prompt_tokens_details"]["cached_tokens"]
        assert told["prompt_tokens"] == cached + told["prompt_cache_miss_tokens"]
        assert told["completion_tokens_details"]["reasoning_tokens"] <= told["completion_tokens"]
        assert is_within_a_token(told["prompt_tokens"], real["prompt_tokens"], window)


@pytest.mark.parametrize("strategy", ["fixed", "piecewise"])
def test_cumulative_frames_never_fall(strategy: str) -> None:
    """What grows in the stream grows in the scaled one."""
    draw = random.Random(strategy)
    for _ in range(CASES // 10):
        real, assumed = drawn_window(draw)
        knee = min(real, assumed) // 2 if strategy == "piecewise" else 0
        points = [(knee, knee), (real, assumed)] if 0 < knee < real else [(real, assumed)]
        scale = _core.Scale(points, draw.choice(["floor", "nearest", "ceil"]))
        frame = anthropic(draw)
        frames = [frame]
        for _ in range(4):
            frame = {name: number + draw.randrange(4) for name, number in frame.items()}
            frames.append(frame)
        told = [scaled_by(scale, frame) for frame in frames]
        inputs = [sum(frame.values()) - frame["output_tokens"] for frame in told]
        totals = [sum(frame.values()) for frame in told]
        assert inputs == sorted(inputs)
        assert totals == sorted(totals)
        if strategy == "fixed":
            outputs = [frame["output_tokens"] for frame in told]
            assert outputs == sorted(outputs)


def test_the_core_and_the_reference_agree_on_every_number() -> None:
    """At the borders of pieces and of 64 bits."""
    draw = random.Random(0)
    for _ in range(CASES // 20):
        steps = sorted(draw.sample(range(1, 2 ** draw.randrange(3, 64)), 2))
        points = list(zip(steps, sorted(draw.randrange(2**64) for _ in steps), strict=True))
        rounding = draw.choice(["floor", "nearest", "ceil"])
        rust, plain = _core.Scale(points, rounding), Scale(points, rounding)
        near = [number + step for number in (*steps, 1, MAX_U64 - 1) for step in (-1, 0, 1)]
        for number in (*near, draw.randrange(2**64)):
            assert rust.tokens(number) == plain.tokens(number), (points, rounding, number)


@pytest.mark.parametrize("make", [anthropic, openai])
def test_normal_usage_is_scaled_as_its_bytes_are(make: Any) -> None:
    draw = random.Random(1)
    scaler = ContextWindowScaler(128_000)
    for _ in range(2_000):
        real = json.loads(json.dumps(make(draw)), parse_int=lambda digits: int(digits) % 2**30)
        body = scaler.scale_body({"usage": real})
        told, adjusted = normalize_usage(dict(body)), body.usage.adjusted
        assert told is not None
        assert told.input_tokens == adjusted.input_tokens, real
        assert told.output_tokens == adjusted.output_tokens, real


# Hints


def test_agents_are_told_the_window() -> None:
    hints = agent_hints("qwen3", 128_000)
    assert hints["claude-code"] == {
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "128000",
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "128000",
    }
    assert hints["codex"] == {"model_context_window": 128_000}
    assert hints["opencode"] == {"qwen3": {"limit": {"context": 128_000}}}
    assert hints["models-list"]["id"] == "qwen3"
    assert hints["models-list"]["context_window"] == 128_000
    claude = agent_hints("claude-x", 32_000)["claude-code"]
    assert claude == {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"}
    with pytest.raises(ValueError, match="window is 0 tokens; it must be at least 1"):
        agent_hints("m", 0)


def test_a_reader_beside_a_scaled_stream_learns_the_truth() -> None:
    """The gateway reads what comes from the provider, the agent gets what is scaled."""
    reader = UsageReader()

    def source() -> Iterator[bytes]:
        end = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
        for chunk in (end, STREAM):
            reader.feed(chunk)
            yield chunk

    out = b"".join(ContextWindowScaler(128_000).scale_stream(source()))
    assert b'"prompt_tokens": 78125' in out
    assert (reader.usage, reader.is_partial) == (normalize_usage(EXAMPLE), False)
    assert reader.reply == {"role": "assistant", "content": "Hi"}
