"""A provider that begins to count otherwise is told by few bills; no other is."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Any

import pytest

from learned_constants import WORDS, biller, conversation, text
from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenctx import AccuracyEvent

MODELS = ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro", "kimi-k2", "deepseek-chat")


def applications(random_: random.Random, model: str, count: int) -> list[dict[str, Any]]:
    """What requests of some programs have in common: a system prompt, and tools."""
    return [conversation(random_, model) for _ in range(count)]


def requests(random_: random.Random, model: str, count: int = 8) -> Iterator[dict[str, Any]]:
    """First requests of new conversations."""
    programs = applications(random_, model, count)
    while True:
        program = random_.choice(programs)
        first = {"role": "user", "content": text(random_, random_.randrange(5, 400))}
        yield {**program, "messages": [program["messages"][0], first]}


def bills_until_told(
    model: str, changed: Callable[[int], int], estimator: HybridTokenEstimator
) -> int | None:
    """After 400 bills as ever; None if 60 are not enough."""
    random_ = random.Random(model)
    bill, bodies = biller(model), requests(random_, model)
    for _ in range(400):
        body = next(bodies)
        estimator.record(body, bill(body) + random_.choice((*[0] * 9, 1, 400)))
    assert estimator.drifts() == ()
    for nth in range(1, 61):
        body = next(bodies)
        estimator.record(body, changed(bill(body)))
        if estimator.drifts():
            return nth
    return None


@pytest.mark.parametrize(
    "model", [MODELS[0], *(pytest.param(it, marks=pytest.mark.slow) for it in MODELS[1:])]
)
def test_a_hidden_prompt_is_told_with_its_size(model: str) -> None:
    events: list[AccuracyEvent] = []
    estimator = HybridTokenEstimator(on_accuracy=events.append)
    nth = bills_until_told(model, lambda tokens: tokens + 150, estimator)
    assert nth is not None
    assert nth <= 40
    [drift] = estimator.drifts()
    assert 130 <= drift.tokens <= 170
    assert drift.since <= drift.told
    assert drift.bill_count <= nth + 3, "some odd ones may have come right before"
    assert [event.drift for event in events if event.drift] == [drift]
    assert estimator.accuracy()[drift.profile].drifts == (drift,)


@pytest.mark.slow
def test_another_tokenizer_is_told_in_percent() -> None:
    estimator = HybridTokenEstimator()
    assert bills_until_told("gpt-4o", lambda tokens: tokens * 5 // 4, estimator)
    [drift] = estimator.drifts()
    assert 20 <= drift.percent <= 30


def test_one_warning_names_no_text(caplog: pytest.LogCaptureFixture) -> None:
    estimator = HybridTokenEstimator()
    with caplog.at_level(logging.WARNING, logger="tokenctx"):
        bills_until_told("gpt-4o", lambda tokens: tokens + 90, estimator)
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith("gpt-4o has been billed otherwise since ")
    assert not any(f" {word} " in message for word in WORDS if len(word) > 4)


@pytest.mark.slow
def test_bounds_are_wider_after_it_and_the_correction_is_learned() -> None:
    estimator = HybridTokenEstimator()
    bills_until_told("gpt-4o", lambda tokens: tokens + 150, estimator)
    bodies, bill = requests(random.Random(7), "gpt-4o"), biller("gpt-4o")
    body = next(bodies)
    estimate = estimator.estimate(body)
    assert "changed_provider" in estimate.assumptions
    assert estimate.low <= bill(body) + 150 <= estimate.high
    for _ in range(220):
        body = next(bodies)
        estimator.record(body, bill(body) + 150)
    estimate = estimator.estimate(body := next(bodies))
    assert "changed_provider" not in estimate.assumptions
    assert abs(estimate.tokens - bill(body) - 150) <= 15
    estimator.reset()
    assert estimator.drifts() == ()


def test_a_call_through_another_host_is_another_series() -> None:
    random_, model = random.Random(3), "gpt-4o"
    bill, bodies, estimator = biller(model), requests(random_, model), HybridTokenEstimator()
    for nth in range(300):
        body, host = next(bodies), random_.choice(("openai", "azure"))
        more = 200 if host == "azure" and nth >= 150 else 0
        estimator.record(body, bill(body) + more, provider=host)
    assert [drift.provider for drift in estimator.drifts()] == ["azure"]


def test_later_turns_and_one_odd_program_say_nothing() -> None:
    random_, model = random.Random(4), "gpt-4o"
    bill, estimator = biller(model), HybridTokenEstimator()
    bodies = requests(random_, model)
    for _ in range(150):
        body = next(bodies)
        estimator.record(body, bill(body))
    odd = conversation(random_, model)
    messages = list(odd["messages"][:1])
    for _ in range(200):
        messages = [*messages, {"role": "user", "content": text(random_, 9)}]
        estimator.record({**odd, "messages": messages}, bill(odd) + 10_000 + len(messages) * 40)
    assert estimator.drifts() == ()


def test_one_tenant_sees_nothing_of_a_change_that_another_has_shown() -> None:
    random_, model = random.Random(5), "gpt-4o"
    bill, estimator, other = biller(model), HybridTokenEstimator(), HybridTokenEstimator()
    bodies = requests(random_, model)
    asked = next(bodies)
    for nth in range(460):
        body = next(bodies)
        estimator.record(body, bill(body) + (300 if nth >= 400 else 0), tenant="alice")
    assert len(estimator.drifts()) == 1
    assert "changed_provider" in estimator.estimate(asked, tenant="alice").assumptions
    assert estimator.estimate(asked, tenant="bob") == other.estimate(asked)
