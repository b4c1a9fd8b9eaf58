"""On every record the error of the estimate before it is kept, by profile."""

from __future__ import annotations

from typing import Any

import pytest

import tokenctx
from tokenctx import AccuracyEvent, ContextWindow
from tokenctx.context import ModelLimits

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
COUNTED = 13


def asked(number: int) -> dict[str, Any]:
    return {**BODY, "messages": [{"role": "user", "content": f"Why is the sky blue? {number:03}"}]}


def test_running_figures_of_a_profile() -> None:
    estimator = tokenctx.HybridTokenEstimator(learning=False)
    expected = estimator.count_request(asked(0)).tokens
    for number in range(100):
        billed = expected if number < 90 else expected * 2
        assert estimator.record(asked(number), billed)
    (figures,) = estimator.accuracy().values()
    assert (figures.profile, figures.call_count) == ("gpt-4o", 100)
    assert figures.bias_percent == pytest.approx(-5.0)
    assert figures.mape == pytest.approx(5.0)
    assert figures.p95_percent == pytest.approx(50.0)
    assert figures.warning_count == 10
    assert figures.last_error_tokens == -expected


def test_a_hook_sees_each_call_and_20_percent_is_a_warning() -> None:
    events: list[AccuracyEvent] = []
    estimator = tokenctx.HybridTokenEstimator(on_accuracy=events.append, learning=False)
    for number, billed in enumerate([100, 120, 125, 126]):
        longer = {**BODY, "messages": [{"role": "user", "content": "word " * 93 + str(number)}]}
        counted = estimator.count_request(longer).tokens
        estimator.record(longer, counted * billed // 100)
    assert [event.is_warning for event in events] == [False, False, False, True]
    assert {event.source for event in events} == {"estimated"}
    event = AccuracyEvent("gpt-4o", "delta", 5_120, 5_115)
    assert (event.error_tokens, f"{event.error_percent:+.1f}") == (5, "+0.1")


def test_the_second_turn_is_judged_as_a_delta() -> None:
    events: list[AccuracyEvent] = []
    estimator = tokenctx.HybridTokenEstimator(on_accuracy=events.append)
    estimator.record(BODY, 500)
    longer = {**BODY, "messages": [*BODY["messages"], {"role": "user", "content": "Why?"}]}
    estimator.record(longer, 508)
    assert [event.source for event in events] == ["estimated", "delta"]
    assert abs(events[1].error_tokens) <= 4


def test_what_is_not_recorded_is_not_judged() -> None:
    estimator = tokenctx.HybridTokenEstimator()
    assert not estimator.record(BODY, {"prompt_tokens": None})
    assert not estimator.record({"messages": []}, 5)
    assert estimator.accuracy() == {}
    estimator.record(BODY, COUNTED)
    assert estimator.stats()["estimated"] == 0
    estimator.reset()
    assert estimator.accuracy() == {}


def test_false_and_missed_compactions() -> None:
    limits = ModelLimits(1_000)
    window = ContextWindow("gpt-4o", limits=limits, threshold=100, output_reserve=0)
    full = {**BODY, "messages": [{"role": "user", "content": "word " * 150}]}
    assert window.usage(full).should_compact
    window.record(full, 90)
    assert not window.usage(BODY).should_compact
    window.record(BODY, 120)
    (figures,) = window.estimator.accuracy().values()
    assert (figures.false_compactions, figures.missed_compactions) == (1, 1)
