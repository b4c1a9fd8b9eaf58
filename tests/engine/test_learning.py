"""Recorded calls teach what a model's constants are."""

from __future__ import annotations

import json
import random
import statistics
from typing import Any

import pytest

import tokenctx
from learned_constants import biller, conversation
from tokenctx import HybridTokenEstimator

MODELS = ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "mistral-large", "grok-4", "nobody-1")


def errors(model: str, *, learning: bool, seed: int, is_perturbed: bool) -> list[float]:
    """Relative errors of 20 requests in a row, each unknown before it is estimated."""
    random_ = random.Random(seed)
    bill = biller(model, random_ if is_perturbed else None)
    estimator = HybridTokenEstimator(learning=learning)
    found = []
    for _ in range(20):
        body = conversation(random_, model)
        billed = bill(body)
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


def taught() -> tuple[Any, dict[str, Any]]:
    """An estimator that has learned that Grok bills 50 more, and a request to estimate."""
    estimator = tokenctx.HybridTokenEstimator()
    for length in range(1, 9):
        body = {"model": "grok-4", "messages": [{"role": "user", "content": "word " * length}]}
        estimator.record(body, estimator.count_request(body).tokens + 50)
    return estimator, {"model": "grok-4", "messages": [{"role": "user", "content": "Hi there"}]}


def test_a_correction_is_named() -> None:
    estimator, body = taught()
    estimate = estimator.estimate(body)
    assert abs(estimate.tokens - estimator.count_request(body).tokens - 50) <= 2
    assert "learned_correction" in estimate.assumptions
    assert estimate.estimated_tokens == estimate.tokens


def test_what_was_learned_goes_to_another_process() -> None:
    estimator, body = taught()
    fresh = tokenctx.HybridTokenEstimator()
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
def test_other_things_are_not_taken_over(learned: Any) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    with pytest.raises(ValueError, match=r"version|learned of 'm'"):
        estimator.learn(learned)
    assert estimator.learned()["models"] == {}


def test_only_the_profile_method_learns_and_only_if_it_may() -> None:
    for options in ({"learning": False}, {"method": "universal"}, {"method": "characters"}):
        estimator = tokenctx.HybridTokenEstimator(**options)
        estimator.record({"model": "grok-4", "messages": [{"role": "user", "content": "a"}]}, 999)
        assert estimator.learned()["models"] == {}


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}],
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
    ],
)
def test_what_the_request_does_not_tell_teaches_nothing(content: Any) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    estimator.record({"model": "gpt-4o", "messages": [{"role": "user", "content": content}]}, 9999)
    assert estimator.learned()["models"] == {}


def test_memory_is_bounded() -> None:
    estimator = tokenctx.HybridTokenEstimator()
    for number in range(1100):
        body = {"model": f"own-{number}", "messages": [{"role": "user", "content": "a"}]}
        estimator.record(body, 99)
    models = list(estimator.learned()["models"])
    assert len(models) == 1024
    assert models[-1].endswith("own-1099")
