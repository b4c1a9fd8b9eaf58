"""Names of the operator's own for models of others."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx.gateway import Gateway
from tokenctx.money.budgets import Budget, Budgets

PATH = "/v1/chat/completions"
BODY = {"model": "fast", "messages": [{"role": "user", "content": "How long is a day?"}]}


def _answer(model: str, tokens: int = 13) -> bytes:
    message = {"role": "assistant", "content": "24 hours."}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    usage = {"prompt_tokens": tokens, "completion_tokens": 7}
    return json.dumps({"model": model, "choices": choices, "usage": usage}).encode()


@pytest.mark.parametrize("as_bytes", [True, False])
@pytest.mark.parametrize("answers", ["fast", "gpt-4o-mini-2024-07-18"])
def test_an_alias_is_the_model_that_it_stands_for(answers: str, *, as_bytes: bool) -> None:
    budgets = Budgets(
        [Budget("day", money=1, per="day"), Budget("each", tokens=99_999, by="model")],
        refuses_unpriced=True,
    )
    front = Gateway(HybridTokenEstimator(), aliases={"fast": "gpt-4o-mini"}, budgets=budgets)
    body: Any = json.dumps(BODY).encode() if as_bytes else BODY
    call = front.call(body, path=PATH)
    assert call.refusal is None
    assert call.estimate is not None
    assert call.estimate.model == "gpt-4o-mini"
    assert json.loads(call.upstream_body)["model"] == "fast"
    call.response(_answer(answers))
    assert call.event is not None
    assert budgets.balance("each", {"model": "gpt-4o-mini"}).taken == 20
    assert 0 < budgets.balance("day").taken < 0.001
    again = front.call(body, path=PATH)
    assert again.estimate is not None
    assert again.estimate.source == "exact"


def test_what_is_no_alias_is_asked_for_as_it_is() -> None:
    front = Gateway(HybridTokenEstimator(), aliases={"fast": "gpt-4o-mini"})
    for model in ("gpt-4o", ["fast"], None):
        call = front.call(json.dumps({**BODY, "model": model}).encode(), path=PATH)
        assert call.estimate is not None
        assert call.estimate.model != "gpt-4o-mini"
    assert front.call(b"{", path=PATH).failure is not None


@pytest.mark.parametrize("aliases", [{"": "a"}, {"a": ""}, {"a": 1}, ["a"]])
def test_what_are_no_aliases(aliases: Any) -> None:
    with pytest.raises(ValueError, match="aliases"):
        Gateway(HybridTokenEstimator(), aliases=aliases)


FALLBACKS = {"fast": ["gpt-4", "big"], "gpt-4": ["gpt-4-32k"]}
NAMES = {"fast": "gpt-4", "big": "gpt-4.1"}


def _long(model: str, words: int) -> bytes:
    messages = [{"role": "user", "content": "word " * words}]
    return json.dumps({"model": model, "messages": messages}).encode()


async def _called(front: Gateway, body: bytes, *, is_async: bool) -> Any:
    return await front.acall(body, path=PATH) if is_async else front.call(body, path=PATH)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("model", "words", "sent", "meant"),
    [
        ("fast", 10, None, "gpt-4"),
        ("fast", 9_000, "big", "gpt-4.1"),
        ("gpt-4", 9_000, "gpt-4-32k", "gpt-4-32k"),
    ],
)
def test_what_is_too_long_goes_to_the_first_that_holds_it(
    model: str, words: int, sent: str | None, meant: str, *, is_async: bool
) -> None:
    budgets = Budgets([Budget("day", money=10), Budget("each", tokens=10**6, by="model")])
    front = Gateway(HybridTokenEstimator(), aliases=NAMES, fallbacks=FALLBACKS, budgets=budgets)
    call = asyncio.run(_called(front, _long(model, words), is_async=is_async))
    assert (call.refusal, call.fallback, call.estimate.model) == (None, sent, meant)
    assert json.loads(call.upstream_body)["model"] == (sent or model)
    assert call.headers.get("x-tokenctx-fallback") == sent
    assert budgets.balance("each", {"model": meant}).taken >= call.estimate.high
    call.response(_answer(sent or model, call.estimate.tokens))
    again = front.call(_long(model, words), path=PATH)
    assert again.estimate is not None
    assert (again.estimate.source, again.estimate.model) == ("exact", meant)
    assert budgets.balance("each", {"model": meant}).taken >= call.estimate.tokens + 7
    counts = front.stats()
    assert counts["estimated"] == 2
    assert counts.get("fallbacks", 0) == (2 if sent else 0)
    assert "refused" not in counts


def test_what_no_fallback_holds_is_refused_once() -> None:
    front = Gateway(HybridTokenEstimator(), fallbacks=FALLBACKS)
    call = front.call(_long("gpt-4", 40_000), path=PATH)
    assert call.refusal is not None
    assert (call.fallback, call.estimate and call.estimate.model) == (None, "gpt-4")
    assert not call.is_changed
    assert front.stats() == {"estimated": 1, "refused": 1}


def test_a_fallback_of_another_provider_is_counted_as_its_own() -> None:
    front = Gateway(HybridTokenEstimator(), fallbacks={"gpt-4": ["claude-sonnet-4-5"]})
    call = front.call(_long("gpt-4", 9_000), path=PATH, provider="azure")
    assert call.estimate is not None
    own = HybridTokenEstimator().estimate(_long("claude-sonnet-4-5", 9_000), dialect="openai-chat")
    assert (call.estimate.tokens, call.estimate.profile) == (own.tokens, own.profile)


def test_who_refuses_nothing_needs_no_fallback() -> None:
    front = Gateway(HybridTokenEstimator(), fallbacks=FALLBACKS, refuse_by=None)
    assert front.call(_long("gpt-4", 9_000), path=PATH).fallback is None


@pytest.mark.parametrize("fallbacks", [{"": ["a"]}, {"a": "b"}, {"a": [1]}, {"a": ["a"]}, ["a"]])
def test_what_are_no_fallbacks(fallbacks: Any) -> None:
    with pytest.raises(ValueError, match="fallbacks"):
        Gateway(HybridTokenEstimator(), fallbacks=fallbacks)


@pytest.mark.parametrize("word", ["service_tier", "speed", "inference_geo"])
def test_a_word_without_a_price_is_no_way_around_a_budget_of_money(word: str) -> None:
    budgets = Budgets([Budget("day", money="0.05", per="day")])
    front = Gateway(HybridTokenEstimator(), budgets=budgets)
    body = {**BODY, "model": "gpt-4o", "max_tokens": 1_000, word: "warp"}
    passed = 0
    while (call := front.call(json.dumps(body).encode(), path=PATH)).refusal is None:
        call.response(_answer("gpt-4o", 1_000))
        passed += 1
        assert passed < 100
    assert 0 < passed <= 20
    assert budgets.balance("day").taken > 0


def test_the_price_of_a_deployment_is_that_of_the_model_that_answers() -> None:
    budgets = Budgets([Budget("day", money=1, per="day")])
    front = Gateway(HybridTokenEstimator(), budgets=budgets)
    for answers, taken in (
        ("ours", 0),
        ("gpt-4o-2024-08-06", Decimal("0.0025") + Decimal("0.00007")),
    ):
        call = front.call(json.dumps({**BODY, "model": "ours"}).encode(), path=PATH)
        assert call.refusal is None
        call.response(_answer(answers, 1_000))
        assert budgets.balance("day").taken == taken
    stats = budgets.stats()
    assert (stats["unpriced"], stats["unpriced_bills"], stats["settled"]) == (2, 1, 2)
