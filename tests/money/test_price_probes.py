"""Whatever a call says or uses that is billed changes its price, or is named in it.

Sixteen probes of what vendors bill, with the same call without it beside each.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator, normalize_usage

if TYPE_CHECKING:
    from tokenctx.money import Cost

OPENAI = {"prompt_tokens": 40_000, "completion_tokens": 3_000}
CLAUDE = {"input_tokens": 40_000, "output_tokens": 3_000}
GEMINI = {"promptTokenCount": 40_000, "candidatesTokenCount": 3_000, "totalTokenCount": 43_000}
WRITE = {"cache_write_tokens": 30_000}
HALF_DAY = {"cache_write_tokens_details": {"ttl_12h_tokens": 30_000}}
AUDIO = [{"modality": "AUDIO", "tokenCount": 20_000}, {"modality": "TEXT", "tokenCount": 20_000}]
COMPACTION = [
    {"type": "compaction", "input_tokens": 90_000, "output_tokens": 700},
    {"type": "message", **CLAUDE},
]


def cost(answer: dict[str, Any], model: str) -> Cost:
    usage = normalize_usage(answer)
    assert usage is not None
    found = usage.cost(model)
    assert found is not None
    assert found.total is not None
    return found


@pytest.mark.parametrize(
    ("model", "plain", "with_it", "times"),
    [
        ("gpt-5.4-mini", {"usage": OPENAI}, {"usage": OPENAI, "service_tier": "flex"}, "0.5"),
        ("gpt-6-sol", {"usage": OPENAI}, {"usage": OPENAI, "service_tier": "priority"}, "2"),
        ("gpt-6-sol", {"usage": OPENAI}, {"usage": OPENAI, "service_tier": "fast"}, "2"),
        ("claude-haiku-5-5", CLAUDE, {**CLAUDE, "service_tier": "batch"}, "0.5"),
        ("claude-opus-5-5", CLAUDE, {**CLAUDE, "inference_geo": "us"}, "1.1"),
        ("claude-opus-5-5", CLAUDE, {**CLAUDE, "speed": "fast"}, "2"),
        ("gemini-3.1-pro-preview", GEMINI, {**GEMINI, "trafficType": "ON_DEMAND_FLEX"}, "0.5"),
        ("gemini-2.5-pro", GEMINI, {**GEMINI, "trafficType": "ON_DEMAND_PRIORITY"}, "1.8"),
    ],
)
def test_tiers_speeds_and_regions_are_factors(
    model: str, plain: Any, with_it: Any, times: str
) -> None:
    standard, changed = cost(plain, model), cost(with_it, model)
    assert standard.total is not None
    assert changed.total == standard.total * Decimal(times)
    assert changed.unpriced == ()
    assert len(changed.factors) == 1


@pytest.mark.parametrize(
    ("model", "plain", "with_it", "more"),
    [
        ("claude-sonnet-5-5", CLAUDE, {"server_tool_use": {"web_search_requests": 4}}, "0.04"),
        ("claude-opus-5-5", CLAUDE, {"iterations": COMPACTION}, "0.374"),
        ("gemini-2.5-flash", GEMINI, {"promptTokensDetails": AUDIO}, "0.014"),
        (
            *("gemini-2.5-flash", GEMINI),
            *({"toolUsePromptTokenCount": 10_000, "totalTokenCount": 53_000}, "0.003"),
        ),
        (
            *("gpt-6-sol", {**OPENAI, "prompt_tokens_details": WRITE}),
            {
                "prompt_tokens_details": {
                    **WRITE,
                    "cache_write_tokens_details": {"ttl_12h_tokens": 30_000},
                }
            },
            "0.075",
        ),
        (
            *("claude-opus-5-5", {**CLAUDE, "cache_creation_input_tokens": 10_000}),
            *({"cache_creation": {"ephemeral_1h_input_tokens": 10_000}}, "0.03"),
        ),
    ],
)
def test_what_is_used_is_added(model: str, plain: Any, with_it: Any, more: str) -> None:
    standard, changed = cost(plain, model), cost({**plain, **with_it}, model)
    assert changed.total is not None
    assert standard.total is not None
    assert changed.total - standard.total == Decimal(more)
    assert changed.unpriced == ()


@pytest.mark.parametrize("told", [{"cost": 0.0456}, {"cost_in_usd_ticks": 456_000_000}])
def test_a_bill_that_is_told_is_believed(told: Any) -> None:
    found = cost({**OPENAI, **told}, "grok-4.3")
    assert (found.total, found.source) == (Decimal("0.0456"), "billed")
    assert found.table_total == cost(OPENAI, "grok-4.3").total


@pytest.mark.parametrize(
    ("with_it", "name"),
    [
        ({"service_tier": "scale"}, "service_tier=scale"),
        ({"inference_geo": "mars"}, "inference_geo=mars"),
        ({"speed": "slow"}, "speed=slow"),
        (
            {"server_tool_use": {"code_execution_requests": 2}},
            "server_tool_use.code_execution_requests",
        ),
        (
            {"server_tool_use_details": {"tool_calls_executed": 1}},
            "server_tool_use_details.tool_calls_executed",
        ),
    ],
)
def test_what_has_no_price_is_named(with_it: Any, name: str) -> None:
    found = cost({**CLAUDE, **with_it}, "claude-opus-5-5")
    assert (found.unpriced, found.high) == ((name,), None)


MESSAGES = [{"role": "user", "content": "How long is a day? " * 40}]
CHAT = {"model": "gpt-5.5", "messages": MESSAGES, "max_tokens": 9}
RESPONSES = {"model": "gpt-5.5", "input": MESSAGES, "max_output_tokens": 9}
GROK = {**CHAT, "model": "grok-4.3"}
OPUS = {**CHAT, "model": "claude-opus-5-5"}
CONVERSE = {
    "model": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "messages": [{"role": "user", "content": [{"text": "How long is a day?"}]}],
    "inferenceConfig": {"maxTokens": 9},
}
CONTENTS = {
    "model": "gemini-2.5-flash",
    "contents": [{"role": "user", "parts": [{"text": "How long is a day?"}]}],
    "generationConfig": {"maxOutputTokens": 9},
}


@pytest.mark.parametrize(
    ("body", "more", "name"),
    [
        (CHAT, {"service_tier": "scale"}, "service_tier=scale"),
        (CONVERSE, {"serviceTier": {"type": "flex"}}, "service_tier=flex"),
        (CONVERSE, {"performanceConfig": {"latency": "optimized"}}, "speed=optimized"),
        (CHAT, {"web_search_options": {}}, "web_search"),
        (GROK, {"search_parameters": {"mode": "auto"}}, "web_search"),
        (RESPONSES, {"tools": [{"type": "web_search_preview"}]}, "web_search"),
        (RESPONSES, {"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "file_search"),
        (RESPONSES, {"tools": [{"type": "image_generation"}]}, "image_generation"),
        (
            *(RESPONSES, {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
            "code_interpreter",
        ),
        ({**RESPONSES, "model": "grok-4.3"}, {"tools": [{"type": "x_search"}]}, "x_search"),
        (
            *(OPUS, {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}),
            "code_execution",
        ),
        (CONTENTS, {"tools": [{"googleSearch": {}}]}, "web_search"),
        (CONTENTS, {"tools": [{"googleMaps": {}}]}, "google_maps"),
    ],
)
def test_what_a_request_asks_for_is_named_before_the_call(body: Any, more: Any, name: str) -> None:
    plain = HybridTokenEstimator().estimate(body).cost
    asked = HybridTokenEstimator().estimate({**body, **more}).cost
    assert plain is not None
    assert asked is not None
    assert (plain.unpriced, asked.unpriced) == ((), (name,))


@pytest.mark.parametrize("more", [{"search_parameters": {"mode": "off"}}, {"service_tier": "auto"}])
def test_what_is_switched_off_is_not_named(more: Any) -> None:
    asked = HybridTokenEstimator().estimate({**GROK, **more}).cost
    assert asked is not None
    assert asked.unpriced == ()
