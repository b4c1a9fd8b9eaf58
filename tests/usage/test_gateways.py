"""Gateways tell beside an answer what they reckon that it cost, that their own cache has answered,
and which model has; the provider's own bill comes before that, and a cached answer is no bill."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, PrivateAttr

import tokenctx
from tokenctx import NotRecorded, normalize_usage
from tokenctx.gateway import Gateway
from tokenctx.money.budgets import Budget, Budgets
from tokenctx.usage import ContextWindowScaler, Usage, UsageReader

USAGE = {"prompt_tokens": 100, "completion_tokens": 20}
BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 50}
ANSWER = {
    "model": "gpt-4o",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
    ],
    "usage": USAGE,
}
JSON = {"content-type": "application/json"}


def told_by(headers: Any, usage: Any = USAGE) -> Usage:
    """The usage of an answer with these headers."""
    reader = UsageReader(headers=headers)
    reader.feed(json.dumps({**ANSWER, "usage": usage}).encode())
    return reader.finish()


def litellm_answer(**hidden: Any) -> Any:
    """An object as litellm's are."""
    return SimpleNamespace(**{**ANSWER, "_hidden_params": hidden})


@pytest.mark.parametrize(
    "usage",
    [
        told_by({"x-litellm-response-cost": "1.335e-05"}),
        told_by([(b"X-LiteLLM-Response-Cost", b"0.00001335")]),
        normalize_usage(litellm_answer(response_cost=1.335e-05)),
        normalize_usage({**ANSWER, "_hidden_params": {"response_cost": 1.335e-05}}),
    ],
)
def test_a_gateways_own_sum_is_told_and_named(usage: Usage) -> None:
    assert (usage.input_tokens, usage.output_tokens) == (100, 20)
    assert (usage.reported_cost, usage.cost_source) == (Decimal("0.00001335"), "litellm")
    assert usage.origin == ""
    for model, table in (("gpt-4o", Decimal("0.00045")), ("nobody-1", None)):
        cost = usage.cost(model)
        assert cost is not None
        assert (cost.total, cost.high) == (usage.reported_cost, usage.reported_cost)
        assert (cost.source, cost.table_total) == ("litellm", table)


def test_hidden_members_of_pydantic_are_read() -> None:
    """As litellm's classes have them."""
    hidden = {"response_cost": 0.25}

    class Answer(BaseModel):
        usage: dict[str, int]
        _hidden_params: dict[str, Any] = PrivateAttr(default_factory=lambda: dict(hidden))

    usage = normalize_usage(Answer(usage=USAGE))
    assert usage is not None
    assert (usage.reported_cost, usage.cost_source) == (Decimal("0.25"), "litellm")


def test_the_provider_s_own_bill_comes_first() -> None:
    billed = {**USAGE, "cost": 0.5}
    for usage in (
        told_by({"x-litellm-response-cost": "0.7"}, billed),
        normalize_usage(SimpleNamespace(usage=billed, _hidden_params={"response_cost": 0.7})),
    ):
        assert usage is not None
        assert (usage.reported_cost, usage.cost_source) == (Decimal("0.5"), "")
        cost = usage.cost("nobody-1")
        assert cost is not None
        assert cost.source == "billed"


@pytest.mark.parametrize("cost", ["", "None", "nan", "-1", "1e99", None])
def test_what_is_no_sum_is_none(cost: Any) -> None:
    assert told_by({"x-litellm-response-cost": str(cost)}).reported_cost is None
    usage = normalize_usage(litellm_answer(response_cost=cost, cache_hit=None))
    assert usage is not None
    assert usage.reported_cost is None


CACHED = {
    "litellm": {"x-litellm-cache-key": "586b", "x-litellm-response-cost": "0.0"},
    "helicone": {"Helicone-Cache": "HIT"},
    "cloudflare": {"cf-aig-cache-status": "HIT"},
    "portkey": {"x-portkey-cache-status": "SEMANTIC HIT"},
}
ASKED = [
    {},
    {"x-litellm-cache-key": ""},
    {"x-litellm-cache-key": "586b", "x-litellm-response-cost": "0.1"},
    {"helicone-cache": "MISS"},
    {"cf-aig-cache-status": "MISS"},
    {"x-portkey-cache-status": "DISABLED"},
]


@pytest.mark.parametrize("name", CACHED)
def test_an_answer_of_a_gateways_own_cache_is_no_bill(name: str) -> None:
    usage = told_by(CACHED[name])
    assert (usage.origin, usage.cost_source) == ("cache", name)
    assert usage.reported_cost == 0
    cost = usage.cost("gpt-4o")
    assert cost is not None
    assert (cost.total, cost.table_total) == (Decimal(0), Decimal("0.00045"))
    assert cost.source == name
    estimator = tokenctx.HybridTokenEstimator()
    reader = UsageReader(headers=CACHED[name])
    reader.feed(json.dumps(ANSWER))
    reader.finish()
    event = estimator.record_event(BODY, reader)
    assert isinstance(event, NotRecorded)
    assert event.reason == "not_of_provider"


def test_an_object_of_litellms_cache_is_no_bill() -> None:
    event = tokenctx.HybridTokenEstimator().record_event(BODY, litellm_answer(cache_hit=True))
    assert not event
    assert tokenctx.HybridTokenEstimator().record_event(BODY, litellm_answer(cache_hit=False))


@pytest.mark.parametrize("headers", ASKED)
def test_what_the_cache_had_not_is_a_bill(headers: Any) -> None:
    usage, plain = told_by(headers), normalize_usage(ANSWER)
    assert replace(usage, reported_cost=None, cost_source="") == plain
    reader = UsageReader(headers=headers)
    reader.feed(json.dumps(ANSWER))
    reader.finish()
    assert tokenctx.HybridTokenEstimator().record(BODY, reader)


def test_the_model_that_answered_is_known() -> None:
    name, group = {"x-litellm-model-name": "openai/gpt-4o-mini"}, {"x-litellm-model-group": "cheap"}
    fallen = {**group, "x-litellm-attempted-fallbacks": "1"}
    for headers, model in (
        ({}, "gpt-4o"),
        (name, "openai/gpt-4o-mini"),
        (group, "gpt-4o"),
        ({**group, "x-litellm-attempted-fallbacks": "0"}, "gpt-4o"),
        ({**group, "x-litellm-attempted-fallbacks": "odd"}, "gpt-4o"),
        (fallen, "cheap"),
        ({**fallen, **name}, "openai/gpt-4o-mini"),
    ):
        reader = UsageReader(headers=headers)
        reader.feed(json.dumps(ANSWER))
        assert reader.model == model


def test_a_gateway_of_ours_books_what_theirs_tells() -> None:
    for headers, reason, dollars in (
        ({}, None, "0.00045"),
        ({"x-litellm-response-cost": "0.002"}, None, "0.002"),
        (CACHED["litellm"], "not_of_provider", "0"),
        ({"x-litellm-model-name": "openai/gpt-4o-mini"}, None, "0.000027"),
    ):
        budgets = Budgets([Budget("all", money=1)])
        ours = Gateway(tokenctx.HybridTokenEstimator(), budgets=budgets)
        call = ours.call(json.dumps(BODY).encode(), path="/v1/chat/completions")
        assert budgets.balance("all").taken != Decimal(dollars)
        call.response(json.dumps(ANSWER).encode(), headers={**JSON, **headers})
        assert (call.reason, budgets.balance("all").taken) == (reason, Decimal(dollars)), headers


def test_a_scaled_usage_says_all_that_the_true_one_says() -> None:
    """Its numbers of tokens are others; nothing else is left out."""
    words = {
        "web_search_requests": 2,
        "file_search_requests": 3,
        "service_tier": "flex",
        "speed": "fast",
        "inference_geo": "us",
        "search_size": "low",
        "reported_cost": Decimal(1),
        "cost_source": "litellm",
        "unread": ("tools.shell",),
        "is_contradictory": True,
        "origin": "sum",
        "is_partial": True,
    }
    numbers = {it.name for it in fields(Usage) if it.name.endswith("_tokens")}
    others = {"is_reasoning_inside", "passes", "last_call", "is_scaled"}
    assert numbers | others | words.keys() == {it.name for it in fields(Usage)}
    usage = Usage(uncached_input_tokens=100, **words)  # type: ignore[arg-type]
    scaled = ContextWindowScaler(100_000).scale(usage, model="m").adjusted
    assert {name: getattr(scaled, name) for name in words} == words
