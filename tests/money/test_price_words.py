"""All that is billed changes the cost or is named in it: kinds, tiers, speeds, regions."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator, normalize_usage
from tokenctx.money import Cost, Prices
from tokenctx.usage import Usage

MILLION = 10**6
OWN = {
    "updated": "2026-11-20",
    "models": {
        "acme-1": {
            "input": ["2", [1_000, "4"]],
            "cache_read": "0.5",
            "output": "8",
            "output_audio": "60",
            "web_search": "10000",
            "service_tier": {"flex": "0.5", "priority": {"input": "5", "output": "20"}},
            "speed": {"fast": "2"},
            "inference_geo": {"us": "1.1"},
        },
        "acme-2": {"input": "1", "output": "1"},
    },
}
PRICES = Prices(OWN, package=None)


def cost(usage: Any, model: str = "acme-1", prices: Prices = PRICES, **said: Any) -> Cost:
    normal = normalize_usage(usage)
    assert normal is not None
    found = prices.cost(normal, model=model, **said)
    assert found is not None
    return found


def openai(**more: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": 1_000, "completion_tokens": 100}, **more}


def test_a_factor_changes_the_price_of_all_tokens() -> None:
    standard, flex = cost(openai()), cost(openai(service_tier="flex"))
    assert (standard.total, standard.factors) == (Decimal("0.0028"), {})
    assert (flex.total, flex.factors) == (Decimal("0.0014"), {"service_tier=flex": "0.5"})
    assert flex.low == flex.high == flex.total
    assert cost(openai(), service_tier="flex") == flex
    assert cost(openai(service_tier="flex"), service_tier="default") == standard


def test_factors_multiply_and_own_prices_replace() -> None:
    claude = {"input_tokens": 1_000, "output_tokens": 100, "inference_geo": "us", "speed": "fast"}
    both = cost(claude)
    assert both.total == Decimal("0.0028") * 2 * Decimal("1.1")
    assert both.factors == {"speed=fast": "2", "inference_geo=us": "1.1"}
    priority = cost(openai(service_tier="priority"))
    assert priority.total == Decimal("0.005") + Decimal("0.002")
    assert cost(openai(service_tier="fast")).total == priority.total


@pytest.mark.parametrize("word", ["default", "auto", "standard", "STANDARD", "on_demand", ""])
def test_words_of_the_standard_change_nothing(word: str) -> None:
    assert cost(openai(service_tier=word)).unpriced == ()


def test_a_word_without_a_price_is_named_and_widens() -> None:
    scale = cost(openai(service_tier="scale"))
    assert scale.unpriced == ("service_tier=scale",)
    assert (scale.total, scale.low, scale.high) == (Decimal("0.0028"), Decimal("0.0028"), None)


def test_kinds_are_told_apart() -> None:
    usage = Usage(
        uncached_input_tokens=500,
        cache_read_tokens=200,
        tool_use_prompt_tokens=100,
        output_tokens=100,
        output_audio_tokens=30,
        reasoning_tokens=20,
        web_search_requests=3,
    )
    told = cost(usage)
    million = Decimal(MILLION)
    assert told.parts == {
        "input": 600 * 2 / million,
        "cache_read": 200 * Decimal("0.5") / million,
        "output_audio": 30 * 60 / million,
        "output_reasoning": 20 * 8 / million,
        "output": 50 * 8 / million,
        "web_search": Decimal("0.03"),
    }
    assert told.total == sum(told.parts.values())  # type: ignore[arg-type]
    assert told.output == (30 * 60 + 70 * 8) / million
    assert told.unpriced == ()


def test_what_has_no_price_of_its_own_is_named() -> None:
    usage = Usage(uncached_input_tokens=500, input_audio_tokens=100, web_search_requests=2)
    told = cost(usage, "acme-2")
    assert set(told.unpriced) == {"input_audio", "web_search"}
    assert told.parts["web_search"] is None
    assert (told.total, told.high) == (500 / Decimal(MILLION), None)


def test_passes_beside_the_answer_are_paid_by_their_own_model() -> None:
    message = {"type": "message", "input_tokens": 100, "output_tokens": 10}
    advisor = {"type": "advisor_message", "input_tokens": 50, "output_tokens": 5}
    compaction = {"type": "compaction", "input_tokens": 900, "cache_read_input_tokens": 800}
    usage = {"input_tokens": 100, "output_tokens": 10, "iterations": [compaction, message]}
    with_compaction = cost(usage)
    assert with_compaction.parts["passes"] == (900 * 4 + 800 * Decimal("0.5")) / Decimal(MILLION)
    known = {**usage, "iterations": [message, {**advisor, "model": "acme-2"}]}
    assert cost(known).parts["passes"] == 55 / Decimal(MILLION)
    unknown = cost({**usage, "iterations": [message, {**advisor, "model": "nobody-1"}]})
    assert unknown.unpriced == ("advisor_message",)
    assert (unknown.total, unknown.high, unknown.parts["passes"]) == (None, None, None)


def test_a_cost_that_is_told_comes_first() -> None:
    told = cost({"prompt_tokens": 1_000, "completion_tokens": 100, "cost": 0.0123})
    assert (told.total, told.source) == (Decimal("0.0123"), "billed")
    assert told.table_total == Decimal("0.0028")
    unknown = cost({"prompt_tokens": 5, "completion_tokens": 1, "cost": 0.5}, "nobody-1")
    assert (unknown.total, unknown.table_total, unknown.input) == (Decimal("0.5"), None, None)
    nothing = cost({"prompt_tokens": 1_000, "completion_tokens": 100, "cost_in_usd_ticks": 0})
    assert (nothing.total, nothing.source) == (Decimal("0.0028"), "caller")


@pytest.mark.parametrize(
    ("model", "input_price"),
    [
        ("gpt-4o", "2.5"),
        ("gpt-4o-2024-11-20", "2.5"),
        ("openai/gpt-4o", "2.5"),
        ("azure/gpt-4o", "2.5"),
        ("gpt-4o(high)", "2.5"),
        ("ft:gpt-4o:acme::1", "3.75"),
        ("gpt-4o-mini", "0.15"),
        ("gpt-4o-mini-2024-07-18", "0.15"),
        ("claude-opus-4-8[1m]", "5"),
    ],
)
def test_names_have_their_own_rows(model: str, input_price: str) -> None:
    found = Prices().find(model)
    assert found is not None
    assert found.rates.price("input", 1) == Decimal(input_price)


def test_a_fine_tuned_model_without_a_row_has_no_price() -> None:
    assert Prices().find("ft:gpt-5.5:acme::1") is None


def test_prices_need_no_other_package() -> None:
    code = (
        "import sys; sys.modules['genai_prices'] = None; from tokenctx.usage import Usage; "
        "print(Usage(uncached_input_tokens=10**6).cost('gpt-4o').total)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "2.5\n"


def test_what_a_request_asks_for_changes_its_price_before_it_is_sent() -> None:
    estimator = HybridTokenEstimator()
    body: dict[str, Any] = {"model": "acme-1", "max_tokens": 10}
    body["messages"] = [{"role": "user", "content": "How long is a day?"}]

    def before(**said: Any) -> Cost:
        found = PRICES.cost(estimator.estimate({**body, **said}))
        assert found is not None
        return found

    standard = before()
    assert standard.total is not None
    assert before(service_tier="flex").total == standard.total / 2
    assert before(speed="fast").total == standard.total * 2
    assert before(service_tier="auto") == standard
    search = before(tools=[{"type": "web_search_20250305", "name": "web_search"}])
    assert search.unpriced == ("web_search",)
    assert search.parts["web_search"] is None
    assert search.high is not None


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"input": "1", "service_tier": "0.5"}, "service_tier must be an object"),
        ({"input": "1", "service_tier": {"flex": "half"}}, "service_tier.flex is 'half'"),
        ({"input": "1", "speed": {"fast": {"input": "-1"}}}, "speed.fast.input is '-1'"),
        ({"input": "1", "speed": {"fast": {"inputs": "1"}}}, "speed.fast.*inputs"),
    ],
)
def test_what_is_wrong_in_a_row_is_named(row: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Prices({"updated": "2026-11-20", "models": {"m": row}})
