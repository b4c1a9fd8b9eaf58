"""Recorded calls teach what a model's constants are; the same in both implementations."""

from __future__ import annotations

import json
import random
import statistics
from dataclasses import replace
from typing import Any

import pytest

from conftest import IMPLEMENTATIONS
from tokenctx.reference.count import Counter
from tokenctx.reference.profile import Profile, resolve
from tokenctx.reference.request import read_request

ESTIMATORS: dict[str, Any] = {
    name: module.HybridTokenEstimator for name, module in IMPLEMENTATIONS.items()
}
RUST = ESTIMATORS["rust"]
MODELS = ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "mistral-large", "grok-4", "nobody-1")
WORDS = "the agent reads a file, finds 3 errors and calls fetch_page(url='x') again\n".split(" ")
NUMBERS = (
    *("request_tokens", "message_tokens", "system_tokens", "tools_tokens", "tools_header_tokens"),
    *("tool_tokens", "tools_permille", "call_tokens", "result_tokens", "text_numerator"),
)


def text(random_: random.Random, words: int) -> str:
    return " ".join(random_.choices(WORDS, k=words))


def tool(random_: random.Random, index: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"url": {"type": "string"}}}
    function = {"name": f"tool_{index}", "description": text(random_, 12), "parameters": schema}
    return {"type": "function", "function": function}


def conversation(random_: random.Random, model: str) -> dict[str, Any]:
    """A request of a few turns, sometimes with tools and calls."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": text(random_, 40)}]
    tools = [tool(random_, index) for index in range(random_.choice((0, 0, 1, 3, 8)))]
    for turn in range(random_.randrange(1, 6)):
        messages.append({"role": "user", "content": text(random_, random_.randrange(5, 300))})
        if tools:
            function = {"name": "tool_0", "arguments": json.dumps({"url": "x" * turn})}
            call = {"id": f"call_{turn}", "type": "function", "function": function}
            result = text(random_, random_.randrange(200))
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"call_{turn}", "content": result},
            ]
        messages.append({"role": "assistant", "content": text(random_, 60)})
    body: dict[str, Any] = {"model": model, "messages": messages}
    return {**body, "tools": tools} if tools else body


def perturbed(profile: Profile, random_: random.Random) -> Profile:
    """`profile` with each constant 20 % more or less."""
    factors = {name: random_.choice((0.8, 1.2)) for name in NUMBERS}
    changed = {name: round(getattr(profile, name) * factors[name]) for name in NUMBERS}
    numerator = round(profile.text_numerator * 10 * factors["text_numerator"])
    return replace(
        profile,
        **{
            **changed,
            "text_numerator": numerator,
            "text_denominator": profile.text_denominator * 10,
        },
    )


def bill(body: dict[str, Any], profile: Profile) -> int:
    request = read_request(body)
    counter = Counter(profile, request)
    return counter.context(request) + sum(counter.messages(0))


def errors(model: str, *, learning: bool, seed: int, is_perturbed: bool) -> list[float]:
    """Relative errors of 20 requests in a row, each unknown before it is estimated."""
    random_ = random.Random(seed)
    profile, _ = resolve(model, "openai-chat")
    billed_by = perturbed(profile, random_) if is_perturbed else profile
    estimator = RUST(learning=learning)
    found = []
    for _ in range(20):
        body = conversation(random_, model)
        billed = bill(body, billed_by)
        found.append(abs(estimator.estimate(body).tokens - billed) / billed)
        estimator.record(body, billed)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_wrong_constants_are_learned_within_ten_calls(model: str) -> None:
    learned, plain = (
        [
            error
            for seed in range(6)
            for error in errors(model, learning=learning, seed=seed, is_perturbed=True)[10:]
        ]
        for learning in (True, False)
    )
    assert statistics.mean(plain) > 0.02
    assert statistics.mean(learned) <= statistics.mean(plain) / 3


@pytest.mark.parametrize("model", MODELS)
def test_right_constants_are_left_alone(model: str) -> None:
    for seed in range(2):
        found = errors(model, learning=True, seed=seed, is_perturbed=False)
        assert found == [0.0] * 20


def test_both_implementations_learn_the_same() -> None:
    for model in MODELS:
        random_ = random.Random(model)
        estimators = [implementation() for implementation in ESTIMATORS.values()]
        profile = perturbed(resolve(model, "openai-chat")[0], random_)
        for _ in range(30):
            body = conversation(random_, model)
            end = random_.randrange(1, len(body["messages"]) + 1)
            start = {**body, "messages": body["messages"][:end]}
            for part in (start, body):
                one, other = (estimator.estimate(part) for estimator in estimators)
                assert one == other
                billed = bill(part, profile) + random_.choice((0, 0, 0, 900))
                for estimator in estimators:
                    estimator.record(part, billed)
        one, other = (estimator.learned() for estimator in estimators)
        assert one == other
        assert one["models"]


def taught(implementation: Any) -> tuple[Any, dict[str, Any]]:
    """An estimator that has learned that Grok bills 50 more, and a request to estimate."""
    estimator = implementation.HybridTokenEstimator()
    for length in range(1, 9):
        body = {"model": "grok-4", "messages": [{"role": "user", "content": "word " * length}]}
        estimator.record(body, estimator.count_request(body).tokens + 50)
    return estimator, {"model": "grok-4", "messages": [{"role": "user", "content": "Hi there"}]}


def test_a_correction_is_named(implementation: Any) -> None:
    estimator, body = taught(implementation)
    estimate = estimator.estimate(body)
    assert abs(estimate.tokens - estimator.count_request(body).tokens - 50) <= 2
    assert "learned_correction" in estimate.assumptions
    assert estimate.estimated_tokens == estimate.tokens


def test_what_was_learned_goes_to_another_process(implementation: Any) -> None:
    estimator, body = taught(implementation)
    fresh = implementation.HybridTokenEstimator()
    assert fresh.estimate(body) != estimator.estimate(body)
    fresh.learn(json.loads(json.dumps(estimator.learned())))
    assert fresh.estimate(body) == estimator.estimate(body)
    fresh.reset()
    assert fresh.learned()["models"] == {}


@pytest.mark.parametrize(
    "learned",
    [
        {},
        {"version": 2, "models": {}},
        {"version": 1, "models": {"m": {}}},
        {"version": 1, "models": {"m": {"wins": 0, "numbers": [1.0]}}},
        {"version": 1, "models": {"m": {"wins": 0, "numbers": [float("nan")] * 90}}},
        {"version": 1, "models": {"m": {"wins": 0, "numbers": ["0"] * 90}}},
    ],
)
def test_other_things_are_not_taken_over(implementation: Any, learned: Any) -> None:
    estimator = implementation.HybridTokenEstimator()
    with pytest.raises(ValueError, match=r"version|learned of 'm'"):
        estimator.learn(learned)
    assert estimator.learned()["models"] == {}


def test_only_the_profile_method_learns_and_only_if_it_may(implementation: Any) -> None:
    for options in ({"learning": False}, {"method": "universal"}, {"method": "characters"}):
        estimator = implementation.HybridTokenEstimator(**options)
        estimator.record({"model": "grok-4", "messages": [{"role": "user", "content": "a"}]}, 999)
        assert estimator.learned()["models"] == {}


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}],
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
    ],
)
def test_what_the_request_does_not_tell_teaches_nothing(implementation: Any, content: Any) -> None:
    estimator = implementation.HybridTokenEstimator()
    estimator.record({"model": "gpt-4o", "messages": [{"role": "user", "content": content}]}, 9999)
    assert estimator.learned()["models"] == {}


def test_memory_is_bounded(implementation: Any) -> None:
    estimator = implementation.HybridTokenEstimator()
    for number in range(1100):
        body = {"model": f"own-{number}", "messages": [{"role": "user", "content": "a"}]}
        estimator.record(body, 99)
    models = list(estimator.learned()["models"])
    assert len(models) == 1024
    assert models[-1].endswith("own-1099")
