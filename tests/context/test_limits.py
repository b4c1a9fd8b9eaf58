"""One truth for windows: an estimate and `model_limits` never tell different limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tokenctx
from tokenctx import HybridTokenEstimator
from tokenctx._estimate.profiles import bundled_profiles
from tokenctx.context import ModelLimits, model_limits

TABLE = json.loads((Path(tokenctx.__file__).parent / "data/limits.json").read_text("utf-8"))
HELLO = {"messages": [{"role": "user", "content": "hi"}]}
SPELLINGS = (
    *("{}", "openai/{}", "azure/{}", "azure-{}", "bedrock/us.anthropic.{}-v1:0", "anthropic--{}"),
    *("fw-{}", "vertex_ai/{}@20250101", "{}:free", "FT:{}:acme::x"),
)
NAMES = sorted(
    {
        *TABLE["models"],
        *(name for row in bundled_profiles().values() for name in row["models"]),
    }
)


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_an_estimate_has_the_limits_that_the_table_tells(dialect: Any) -> None:
    estimator = HybridTokenEstimator()
    for name in NAMES:
        limits = estimator.estimate(HELLO, model=name, dialect=dialect).limits
        assert limits == model_limits(name), name
        row = TABLE["models"].get(name)
        if row is not None:
            numbers = (limits.window_tokens, limits.max_input_tokens, limits.max_output_tokens)
            assert [*numbers] == row[:3], name
            assert limits.is_doubtful == row[3].endswith("?")
        else:
            assert limits.window_tokens or name in UNKNOWN, name


UNKNOWN = {"gpt-realtime", "text-embedding"}
"""Beginnings of names in profiles that are too short for a row and whose profile has no window."""


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_name_has_one_truth(spelling: str) -> None:
    estimator = HybridTokenEstimator()
    for name in ("gpt-3.5-turbo", "claude-sonnet-4-5", "gpt-4.1", "deepseek-v4-pro"):
        for written in (name, name.replace(".", "-"), name.replace("-", "_")):
            model = spelling.format(written)
            estimate = estimator.estimate(HELLO, model=model)
            assert estimate.limits == model_limits(model) == model_limits(name), model
            assert estimate.window_tokens == estimate.limits.window_tokens


def limits(*numbers: int | None) -> dict[str, int | None]:
    return dict(zip(("window_tokens", "max_output_tokens"), numbers, strict=True))


@pytest.mark.parametrize(
    ("model", "window", "output"),
    [
        ("gpt-3.5", 16_385, 4_096),
        ("gpt-3.5-turbo", 16_385, 4_096),
        ("gpt-35-turbo", 16_385, 4_096),
        ("gpt-35-turbo-16k-0613", 16_385, 4_096),
        ("gpt-3.5-turbo-0125", 16_385, 4_096),
        ("gpt-3.5-turbo-1106", 16_385, 4_096),
        ("code-davinci-002", 8_001, None),
        ("code-cushman-001", 2_048, None),
        ("gpt-4-32k", 32_768, None),
        ("gpt-4-1-mini", 1_047_576, 32_768),
        ("deepseek-chat", 1_000_000, None),
        ("claude_haiku_4_5", 200_000, 64_000),
        ("nobody-knows", None, None),
    ],
)
def test_windows_of_well_known_names(model: str, window: int | None, output: int | None) -> None:
    limits = model_limits(model)
    assert limits.window_tokens == window
    assert output is None or limits.max_output_tokens == output


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        ("anthropic--claude-4-5-sonnet", "claude-4.5"),
        ("anthropic--claude-4-7-opus", "claude-opus-4.7"),
        ("azure-gpt-4o", "gpt-4o"),
        ("fw-deepseek-v4-pro", "deepseek-v4"),
        ("cohere-command-r-plus", "cohere"),
        ("claude_sonnet_4_5", "claude-4.5"),
        ("duo-chat-haiku-4-5", "claude-4.5"),
        ("gpt-4-1-nano", "gpt-4.1-nano"),
        ("gpt-4-1106-preview", "gpt-4"),
    ],
)
def test_a_prefix_hides_no_known_family(model: str, profile: str) -> None:
    estimate = HybridTokenEstimator().estimate(HELLO, model=model)
    assert (estimate.profile, estimate.assumptions) == (profile, ())


OUTPUTS: list[dict[str, Any]] = [
    {"max_tokens": 77},
    {"max_completion_tokens": 77, "max_tokens": 5},
    {"max_output_tokens": 77},
    {"maxOutputTokens": 77},
    {"generationConfig": {"maxOutputTokens": 77}},
    {"generation_config": {"max_output_tokens": 77}},
    {"inferenceConfig": {"maxTokens": 77}},
    {"options": {"num_predict": 77}},
    {"parameters": {"max_new_tokens": 77}},
]


@pytest.mark.parametrize("said", OUTPUTS, ids=str)
def test_the_wanted_output_is_read_by_all_of_its_names(said: dict[str, Any]) -> None:
    estimate = HybridTokenEstimator().estimate({**HELLO, **said}, model="gpt-4o")
    assert estimate.requested_output_tokens == 77


@pytest.mark.parametrize(
    "said", [{}, {"max_tokens": None}, {"max_tokens": -1}, {"max_tokens": "9"}]
)
def test_no_wanted_output_is_none(said: dict[str, Any]) -> None:
    assert HybridTokenEstimator().estimate({**HELLO, **said}).requested_output_tokens is None


def test_a_request_fits_with_the_output_that_is_wanted() -> None:
    estimator = HybridTokenEstimator(
        profiles={"name": "gpt-4o", "window_tokens": 100, "max_output_tokens": 50}
    )
    estimate = estimator.estimate({**HELLO, "max_tokens": 93}, model="gpt-4o")
    assert (estimate.tokens, estimate.limits.source) == (8, "profile gpt-4o")
    assert (estimate.window_tokens, estimate.limits.max_output_tokens) == (100, 50)
    assert [estimate.fits(), estimate.fits(92), estimate.fits(0)] == [False, True, True]
    assert estimate.fits(100 - estimate.high, by="high")
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a", "detail": "low"}}
    wide = estimator.estimate([{"role": "user", "content": [image]}], model="gpt-4o")
    assert wide.tokens < 100 < wide.high
    assert (wide.fits(), wide.fits(by="high")) == (True, False)
    with pytest.raises(ValueError, match="by is 'low'; it must be 'tokens' or 'high'"):
        estimate.fits(by="low")  # type: ignore[arg-type]


def test_an_unknown_window_is_no_yes() -> None:
    estimate = HybridTokenEstimator().estimate(HELLO, model="nobody-knows")
    assert estimate.limits == ModelLimits(source="unknown")
    assert (estimate.window_tokens, estimate.fits(), estimate.fits(10**9)) == (None,) * 3


def test_the_most_input_counts_too() -> None:
    limits = model_limits("gpt-5")
    assert limits.max_input_tokens
    assert limits.missing_tokens(limits.max_input_tokens) == 0
    assert limits.missing_tokens(limits.max_input_tokens + 1) == 1


def test_a_window_of_the_users_profile_comes_first() -> None:
    rows: list[dict[str, Any]] = [
        {"name": "house", "like": "gpt-4o", "models": ["house-"], "window_tokens": 9_000},
        {"name": "annex", "like": "house", "models": ["annex-"]},
        {"name": "gpt-4o", "message_tokens": 4},
    ]
    estimator = HybridTokenEstimator(profiles=rows)
    windows = {
        model: estimator.estimate(HELLO, model=model).window_tokens
        for model in ("house-1", "annex-1", "gpt-4o")
    }
    assert windows == {"house-1": 9_000, "annex-1": 9_000, "gpt-4o": 128_000}


@pytest.mark.parametrize("model", ["\ud800", "x\udfff/gpt-4o", "", "/", ":", "x" * 10_000])
def test_no_name_of_a_model_raises(model: str) -> None:
    estimator = HybridTokenEstimator()
    estimate = estimator.estimate(HELLO, model=model)
    assert estimate.limits == model_limits(model)
    assert estimator.record(HELLO, 9, model=model)
    assert estimator.estimate(HELLO, model=model).source == "exact"
    assert estimator.count_request(HELLO, model=model).tokens > 0


def test_limits_of_a_day_tell_it(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    rows = {"gpt-4o": 100_000, "our-model": {"window_tokens": 50_000, "max_output_tokens": 1_000}}
    path.write_text(json.dumps({"updated": "2999-01-01", "models": rows}))
    found = model_limits("gpt-4o-2024-11-20", path)
    assert (found.window_tokens, found.source) == (100_000, "caller, 2999-01-01")
    path.write_text(json.dumps({"updated": "2020-01-01", "models": rows}))
    assert model_limits("our-model", path).source == "caller, 2020-01-01, stale"
    assert model_limits("gpt-4.1", path) == model_limits("gpt-4.1")
    with pytest.raises(ValueError, match="updated is 'today'"):
        model_limits("our-model", {"updated": "today", "models": rows})
    with pytest.raises(TypeError, match="models holds a list"):
        model_limits("our-model", {"updated": "2020-01-01", "models": []})
