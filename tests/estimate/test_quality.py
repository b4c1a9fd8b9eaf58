"""How good an estimate says it is: bounds, quality, assumptions, models by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tokenctx
from dialect_calls import CALLS, DIALECTS, assistant, chat, user

DATA = Path(__file__).parents[1] / "data"
TOOL = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object"},
}


# Bounds, quality, assumptions


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("method", ["profile", "universal", "characters"])
def test_the_bounds_hold_the_answer(dialect: str, method: Any) -> None:
    estimator = tokenctx.HybridTokenEstimator(method=method)
    call = CALLS[dialect]
    for _ in range(2):
        for body in (call.request, call.next_request):
            estimate = estimator.estimate(body)
            assert 0 <= estimate.low <= estimate.tokens <= estimate.high
            assert 0 <= estimate.confidence <= 1
        estimator.record(call.request, call.response, reply=call.response)


def test_a_delta_is_surer_than_a_full_count(estimator: Any) -> None:
    turns = [user("tell me " * 200), assistant("so " * 200), user("go on")]
    body = {"model": "nobody-knows", "messages": turns}
    full = estimator.estimate(body)
    estimator.record({**body, "messages": turns[:1]}, 400)
    delta = estimator.estimate(body)
    assert delta.high - delta.low < full.high - full.low
    assert delta.confidence > full.confidence


QUALITIES = [
    (chat(user("hi")), "exact", set()),
    (chat(user("hi"), tools=[{"type": "function", "function": TOOL}]), "calibrated", set()),
    ({"model": "claude-sonnet-4-5", "messages": [user("hi")]}, "calibrated", set()),
    ({"model": "nobody-knows", "messages": [user("hi")]}, "heuristic", {"unknown_model"}),
    ({"messages": [user("hi")]}, "heuristic", {"unknown_model"}),
    (
        chat(user([{"type": "image_url", "image_url": {"url": "https://a/b.png"}}])),
        "heuristic",
        {"remote_image"},
    ),
    (
        chat(user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])),
        "heuristic",
        {"unreadable_image"},
    ),
    (
        {"model": "gpt-4o", "input": "hi", "previous_response_id": "r"},
        "heuristic",
        {"server_state"},
    ),
    (chat({"role": "chorus", "content": "la"}), "heuristic", {"unknown_role"}),
    (chat(user([{"shape": "round"}])), "heuristic", {"unknown_part"}),
    (chat(user("hi"), tools=[{"type": "web_search"}]), "calibrated", {"builtin_tool"}),
]


@pytest.mark.parametrize(("body", "quality", "assumptions"), QUALITIES)
def test_quality_and_assumptions_say_what_was_guessed(
    estimator: Any, body: Any, quality: str, assumptions: set[str]
) -> None:
    for answer in (estimator.estimate(body), estimator.count_request(body)):
        assert answer.quality == quality
        assert set(answer.assumptions) == assumptions
        assert list(answer.assumptions) == sorted(answer.assumptions)


def test_openai_text_is_counted_to_the_token(estimator: Any) -> None:
    # The cookbook's framing: 3 for the reply, 3 and the role for each message, 1 for a name.
    body = chat({"role": "system", "content": "hello world"}, {**user("hello world"), "name": "hi"})
    assert estimator.estimate(body).tokens == 3 + 2 * (3 + 1 + 2) + (1 + 1)
    count = estimator.count_request(body)
    assert count.tokens == count.context_tokens + sum(count.message_tokens)
    assert count.message_tokens[1] - count.message_tokens[0] == 2
    assert (count.encoding, count.profile) == ("o200k_base", "gpt-4o")


# Models by name

MODELS = json.loads((DATA / "models.json").read_text())["cases"]


@pytest.mark.parametrize("case", MODELS, ids=lambda case: repr(case["model"]))
def test_models_are_known_by_name(estimator: Any, case: dict[str, Any]) -> None:
    names = {name: case.get(name) for name in ("model", "dialect", "provider")}
    estimate = estimator.estimate([user("hi")], **names)
    assert (estimate.profile, estimate.model) == (case["profile"], case["model"])
    ignored = ("ignored_provider",) * (case.get("provider") == "nobody")
    unknown = ("unknown_model",) * (not case.get("is_known", True))
    assert estimate.assumptions == ignored + unknown


def test_a_very_long_name_is_unknown(estimator: Any) -> None:
    estimate = estimator.estimate([user("hi")], model="x-" * 99_999)
    assert (estimate.profile, estimate.assumptions) == ("unknown", ("unknown_model",))


@pytest.mark.parametrize("model", ["nobody-knows", "my-gpt-4o"])
def test_an_unknown_model_is_a_guess(estimator: Any, model: str) -> None:
    estimate = estimator.estimate([user("hi")], model=model)
    assert estimate.quality == "heuristic"
    assert estimate.low < estimate.tokens < estimate.high


def test_a_provider_changes_no_known_total(estimator: Any) -> None:
    body = {"model": "gpt-4o", "messages": [user("hi")]}
    estimator.record(body, 500, provider="azure")
    assert estimator.estimate(body, provider="openai").source == "exact"


def test_the_caller_overrides_what_the_body_says(estimator: Any) -> None:
    body = {"model": "gpt-4o", "messages": [user("hi")]}
    estimate = estimator.estimate(body, model="claude-sonnet-4-5", dialect="anthropic")
    assert (estimate.profile, estimate.dialect) == ("claude-4.5", "anthropic")
