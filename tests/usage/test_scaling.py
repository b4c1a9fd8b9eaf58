"""An agent sees the share of its window that the real one is filled to; the true numbers stay."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

import tokenctx
from reference.scale import Scale
from scaled_example import EXAMPLE, SCALED, STREAM
from tokenctx import ContextWindowScaler, UsageReader, _core, normalize_usage
from tokenctx.usage import Usage, agent_hints

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = json.dumps({"usage": EXAMPLE}).encode()
MAX_U64 = 2**64 - 1
CASES = 100_000


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


# Bodies and counts


# message_start


# Limits


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
