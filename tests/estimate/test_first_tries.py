"""What a newcomer types first either works or is answered by what to call."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import tokenctx
from tokenctx import ContextWindow, HybridTokenEstimator, count_tokens, get_encoding
from tokenctx.usage import Usage

MESSAGES = [{"role": "user", "content": "hi"}]
REQUEST = {"model": "gpt-4o", "messages": MESSAGES}
ESTIMATOR = HybridTokenEstimator()

ANSWERED: list[tuple[str, str]] = [
    ("count_tokens(MESSAGES)", "estimate(body)"),
    ("count_tokens(None)", "estimate(body)"),
    ("count_tokens(REQUEST)", "estimate(body)"),
    ('get_encoding("gpt-4o")', 'encoding_for_model("gpt-4o")'),
    ('tokenctx.encoding_for_model("o200k_base")', "get_encoding"),
    ("tokenctx.token_counter", "estimate(body)"),
    ("tokenctx.completion_cost", "estimate(body).cost"),
    ("tokenctx.trim_messages", "trim(body, budget_tokens)"),
    ("tokenctx.list_encoding_names", "list_encodings()"),
    ("tokenctx.Estimator", "HybridTokenEstimator"),
    ('ESTIMATOR.estimate("Why is the sky blue?")', "count_tokens"),
    ("ESTIMATOR.estimate(None)", "count_tokens"),
    ("ESTIMATOR.estimate(42)", "count_tokens"),
    ("ESTIMATOR.estimate({})", "`messages`"),
    ('ESTIMATOR.estimate({"messages": "hi"})', "`messages`"),
    ('tokenctx.count("hi")', "count_tokens(text, model=model)"),
    ('tokenctx.estimate_cost("gpt-4o", 100, 20)', "normalize_usage(usage).cost(model)"),
    ('tokenctx.get_context_window("gpt-4o")', "model_limits(model)"),
    ("tokenctx.prices", "Prices of the module money"),
    ('tokenctx.Budget("a", tokens=5)', "tokenctx.money.budgets"),
    ('tokenctx.money.Budgets({"tokens": 5})', 'Budgets([Budget("a day"'),
    ("tokenctx.money.Budgets(limit=10)", 'Budgets([Budget("a day"'),
    ("tokenctx.gateway.Gateway()", "Gateway(HybridTokenEstimator())"),
    ('HybridTokenEstimator(model="gpt-4o")', "estimate(body, model)"),
    ('HybridTokenEstimator("gpt-4o")', "estimate(body, model)"),
    ('ESTIMATOR.estimate(model="gpt-4o", messages=MESSAGES)', "estimate({'model': model"),
    ("ESTIMATOR.estimate()", "a list of messages"),
    ('ESTIMATOR.estimate("/tmp/request.json")', "no file is opened"),
    ('ESTIMATOR.estimate("request.json")', "no file is opened"),
    ("ESTIMATOR.estimate(REQUEST).cost_usd", "cost"),
    ("Usage(output_tokens=5).total", "total_tokens"),
    ("Usage(output_tokens=5).completion_tokens", "output_tokens"),
    ('tokenctx.convert_messages(MESSAGES, target="anthropic")', 'to="anthropic"'),
    ("ESTIMATOR.count(MESSAGES)", "estimate(body)"),
    ('ESTIMATOR.count_tokens("hi")', "count_tokens(text)"),
    ("ESTIMATOR.update(REQUEST, 5)", "record(body, usage)"),
    ("ESTIMATOR.estimate(REQUEST).total", "tokens"),
    ("ESTIMATOR.estimate(REQUEST).bounds", "low and high"),
    ("ESTIMATOR.estimate(REQUEST).cost.usd", "total"),
    ('ContextWindow("gpt-4o").window', "limits.window_tokens"),
    ('tokenctx.convert_messages(MESSAGES, "claude")', "anthropic"),
]


@pytest.mark.parametrize(("typed", "named"), ANSWERED, ids=[typed for typed, _ in ANSWERED])
def test_a_wrong_try_is_answered_by_the_right_call(typed: str, named: str) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError)) as answer:
        eval(typed)  # noqa: S307  # the lines above
    assert named in str(answer.value)


def test_guesses_that_work() -> None:
    assert count_tokens("hello world", "gpt-4o") == count_tokens("hello world", model="gpt-4o") == 2
    assert ESTIMATOR.estimate(MESSAGES, "gpt-4o") == ESTIMATOR.estimate(REQUEST)
    assert ESTIMATOR.count_request(MESSAGES, "gpt-4o").tokens == ESTIMATOR.estimate(REQUEST).tokens
    assert get_encoding("o200k_base").count("hi") == 1
    for topic in ("gateway", "money", "budgets", "context", "usage"):
        assert getattr(tokenctx, topic).__name__.startswith("tokenctx.")


def test_names_that_nobody_has_are_refused_plainly() -> None:
    for holder in (tokenctx, ESTIMATOR, ContextWindow("gpt-4o"), ESTIMATOR.estimate(REQUEST)):
        with pytest.raises(AttributeError, match=r"has no attribute 'zebra'$"):
            holder.zebra  # type: ignore[union-attr]  # noqa: B018
        assert not hasattr(holder, "__fspath__")


@pytest.mark.parametrize(
    "body",
    [
        {"model": "gpt-4o", "messages": []},
        {"model": "gpt-4o", "messages": ["hi"]},
        {"model": "gpt-4o", "messages": [{"content": "hi"}]},
        {"model": "gpt-4o", "messages": [{"role": "user"}]},
        {"model": "claude-opus-4-6", "messages": [], "max_tokens": 5},
        {"model": "gemini-2.5-pro", "contents": []},
        {"model": "gpt-5", "input": []},
    ],
)
def test_what_no_provider_takes_is_never_exact(body: dict[str, Any]) -> None:
    estimate = HybridTokenEstimator().estimate(body)
    assert estimate.quality != "exact"
    assert estimate.low < estimate.high


@pytest.mark.parametrize(
    "row",
    [
        {"like": "gpt-4o"},
        {"like": "gpt-4o", "message_tokens": 9},
        {"like": "gpt-4o", "encoding": "cl100k_base", "quality": "exact"},
    ],
)
def test_a_profile_of_ones_own_is_never_exact(row: dict[str, Any]) -> None:
    rows = [{"name": "acme", "models": ["acme"], **row}]
    estimate = HybridTokenEstimator(profiles=rows).estimate(MESSAGES, "acme")
    assert (estimate.profile, estimate.quality) == ("acme", "calibrated")
    assert estimate.low < estimate.high


def test_another_window_leaves_the_count_of_a_profile_exact() -> None:
    rows = [{"name": "gpt-4o", "window_tokens": 5000}]
    estimate = HybridTokenEstimator(profiles=rows).estimate(MESSAGES, "gpt-4o")
    assert (estimate.quality, estimate.limits.window_tokens) == ("exact", 5000)


def test_only_what_is_verified_is_exact() -> None:
    """A row that was guessed, or fitted to few calls, takes over no certainty from its base."""
    for model in ("o1-preview", "gemini-3.5-pro"):
        estimate = HybridTokenEstimator().estimate(MESSAGES, model)
        assert estimate.quality == "calibrated"


def test_a_cost_shows_its_numbers() -> None:
    cost = Usage(uncached_input_tokens=1000, output_tokens=100).cost("gpt-4o")
    assert cost is not None
    assert cost.total == Decimal("0.0035")
    assert repr(cost).startswith("Cost(total=0.0035, ")
    assert "model=" in repr(cost)
