"""A bill that cannot be one of its prompt is refused, teaches nothing, and says why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenctx import AccuracyEvent, HybridTokenEstimator, NotRecorded

SENTENCE = "The quick survey of rivers begins with a long list of names and places. "


def ask(name: object, count: int, **more: Any) -> dict[str, Any]:
    content = f"case {name} " + SENTENCE * count
    return {"model": "qwen3-coder:30b", "messages": [{"role": "user", "content": content}], **more}


def test_a_server_that_cuts_prompts_is_not_believed() -> None:
    estimator = HybridTokenEstimator()
    clean = estimator.estimate(ask(9, 100), provider="ollama")
    for number in range(8):
        usage = {"prompt_eval_count": 2050, "eval_count": 3}
        event = estimator.record_event(ask(number, 600), usage, provider="ollama")
        assert isinstance(event, NotRecorded)
        assert event.reason == "truncated_by_server"
    assert estimator.estimate(ask(9, 100), provider="ollama") == clean
    assert estimator.stats()["not_recorded_truncated_by_server"] == 8
    assert estimator.stats()["recorded"] == 0


def test_the_next_turn_of_a_cut_prompt_is_counted_in_whole() -> None:
    estimator = HybridTokenEstimator()
    body = ask(1, 600)
    answer = {"role": "assistant", "content": "ok"}
    bill = {"message": answer, "prompt_eval_count": 2050, "eval_count": 3}
    estimator.record(body, bill, provider="ollama")
    body["messages"] += [answer, {"role": "user", "content": "and then?"}]
    after = estimator.estimate(body, provider="ollama")
    assert after.source == "estimated"
    assert after.tokens > 8_000


@pytest.mark.parametrize("share", [0.2, 0.6, 1, 1.5, 40])
def test_other_bills_are_those_of_their_requests(share: float) -> None:
    estimator = HybridTokenEstimator()
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": SENTENCE * 100}]}
    billed = round(estimator.estimate(body).tokens * share)
    assert estimator.record(body, billed)
    assert estimator.estimate(body).tokens == billed


def test_what_is_a_guess_refuses_nothing() -> None:
    estimator = HybridTokenEstimator()
    body = {"model": "nobody-1", "messages": [{"role": "user", "content": SENTENCE * 100}]}
    assert estimator.record(body, 1026)


@settings(max_examples=25, deadline=None)
@given(
    false=st.lists(st.sampled_from([1026, 2050, 4098, 2048, 4090]), min_size=1, max_size=20),
    order=st.randoms(use_true_random=False),
)
def test_false_bills_among_true_ones_move_nothing(false: list[int], order: Any) -> None:
    """A clean request stays within its bounds, for all tenants; true bills are recorded."""
    estimator = HybridTokenEstimator()
    fresh = HybridTokenEstimator()
    calls: list[tuple[dict[str, Any], int, bool]] = [
        (ask(f"f{at}", 600), tokens, False) for at, tokens in enumerate(false)
    ]
    for number in range(12):
        body = ask(f"t{number}", 20 + number)
        calls.append((body, fresh.estimate(body, provider="ollama").tokens, True))
    order.shuffle(calls)
    for body, tokens, is_true in calls:
        usage = {"prompt_eval_count": tokens, "eval_count": 3}
        assert estimator.record(body, usage, provider="ollama", tenant="a") is is_true
    clean = ask("clean", 100)
    truth = fresh.estimate(clean, provider="ollama").tokens
    for tenant in ("a", "b"):
        after = estimator.estimate(clean, provider="ollama", tenant=tenant)
        assert after.low <= truth <= after.high


def test_a_turn_of_several_calls_goes_on_from_the_last() -> None:
    estimator = HybridTokenEstimator()
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": SENTENCE * 100}],
    }
    first = {"type": "message", "input_tokens": 2_002, "output_tokens": 1}
    advisor = {"type": "advisor_message", "input_tokens": 823, "output_tokens": 200}
    last = {"type": "message", "input_tokens": 2_052, "output_tokens": 1}
    usage = {"input_tokens": 4_054, "output_tokens": 2, "iterations": [first, advisor, last]}
    event = estimator.record_event(body, usage)
    assert isinstance(event, AccuracyEvent)
    assert event.billed_tokens == 2_052
    assert estimator.estimate(body).tokens == 2_052
