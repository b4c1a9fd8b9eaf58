"""False bills among true ones: clean requests stay within their bounds, and true bills are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Callable

SENTENCE: Final = "The quick survey of rivers begins with a long list of names and places. "
TOOL: Final = {
    "type": "function",
    "function": {
        "name": "look",
        "description": SENTENCE * 4,
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}
FALSE: Final[dict[str, Callable[[int, int], Any]]] = {
    "a server that cuts prompts": lambda _, __: {"prompt_tokens": 1026, "completion_tokens": 3},
    "a framework's count without tools": lambda _, plain: {"prompt_tokens": plain // 3},
    "the sum of a turn": lambda whole, _: {"prompt_tokens": 5 * whole, "completion_tokens": 9},
    "a sum beside the total of one call": lambda whole, _: {
        "input": 12,
        "output": 90,
        "cacheRead": 4 * whole,
        "cacheWrite": whole,
        "totalTokens": whole + 40,
    },
    "a doubled bill": lambda whole, _: whole * 2,
    "half a bill": lambda whole, _: whole // 2,
    "a foreign model's bill": lambda whole, _: whole * 6 // 5,
}


def ask(model: str, name: object, count: int, *, has_tools: bool = False) -> dict[str, Any]:
    content = f"case {name} " + SENTENCE * count
    tools = {"tools": [TOOL] * 8} if has_tools else {}
    return {"model": model, "messages": [{"role": "user", "content": content}], **tools}


@pytest.mark.parametrize("source", FALSE)
@settings(max_examples=12, deadline=None)
@given(
    model=st.sampled_from(["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "qwen3-coder:30b"]),
    order=st.lists(st.booleans(), min_size=8, max_size=32).filter(lambda it: 1 <= sum(it) <= 20),
    has_tools=st.booleans(),
)
def test_a_clean_request_stays_within_its_bounds(
    source: str, model: str, order: list[bool], *, has_tools: bool
) -> None:
    """`order` says which bills are false; the last three are true."""
    estimator, fresh = HybridTokenEstimator(), HybridTokenEstimator(learning=False)
    for number, is_false in enumerate([*order, False, False, False]):
        body = ask(model, number, 100 + 7 * number, has_tools=has_tools)
        whole = fresh.count_request(body).tokens
        if is_false:
            plain = fresh.count_request(ask(model, number, 100 + 7 * number)).tokens
            estimator.record(body, FALSE[source](whole, plain), tenant="a")
        else:
            assert estimator.record(body, whole, tenant="a"), "a true bill is recorded"
            assert estimator.estimate(body, tenant="a").tokens == whole
    clean = ask(model, "clean", 120, has_tools=has_tools)
    truth = fresh.count_request(clean).tokens
    for tenant in ("a", "b", None):
        after = estimator.estimate(clean, tenant=tenant)
        assert after.low <= truth <= after.high
    assert estimator.estimate(clean, tenant="b").tokens == truth


@pytest.mark.parametrize("share", [0.1, 0.5, 2, 5])
def test_what_is_far_from_a_sure_count_teaches_nothing(share: float) -> None:
    """But the next turn goes on from it: its host may have added a prompt, or have cut this one."""
    estimator = HybridTokenEstimator(metrics=None)
    body = ask("gpt-4o", 1, 100)
    counted = estimator.count_request(body).tokens
    answer = {"role": "assistant", "content": "ok"}
    bill = {"prompt_tokens": round(counted * share), "completion_tokens": 2}
    event: Any = estimator.record_event(body, bill, reply=answer)
    assert event.bill_reasons == ("far_from_count",)
    assert estimator.estimate(body).tokens == round(counted * share)
    after = estimator.estimate({**body, "messages": [*body["messages"], answer]})
    assert after.source == "delta"
    assert after.known_tokens > round(counted * share)
    assert estimator.stats()["far_from_count"] == 1
    assert estimator.learned()["models"] == {}


def test_turns_go_on_from_a_bill_with_a_prompt_of_the_host() -> None:
    """It is in every bill and does not grow; once it has shown twice, nothing is doubted."""
    estimator, found = HybridTokenEstimator(), []
    body = ask("gpt-4o", 1, 100)
    for _ in range(4):
        found.append(estimator.estimate(body).source)
        estimator.record(body, estimator.count_request(body).tokens + 9_000)
        body["messages"].append({"role": "user", "content": SENTENCE * 9})
    assert found == ["estimated", "delta", "delta", "delta"]
    assert estimator.stats()["far_from_count"] == 1


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 1000, "completion_tokens": 5, "total_tokens": 200},
        {"input": 12, "cacheRead": 819_661, "cacheWrite": 93_130, "totalTokens": 163_978},
        {"prompt_tokens": 19, "completion_tokens": 5, "total_tokens": 24, "cached_tokens": 38_000},
        {"input_tokens": 19, "cache_read_input_tokens": 10**9, "output_tokens": 3},
    ],
)
def test_numbers_that_contradict_each_other_are_refused(usage: dict[str, int]) -> None:
    estimator = HybridTokenEstimator()
    event: Any = estimator.record_event(ask("gpt-4o", 1, 100), {"output": 90, **usage})
    assert (bool(event), event.reason) == (False, "inconsistent")
    assert estimator.stats()["not_recorded_inconsistent"] == 1


def test_a_count_that_no_table_names_is_counted_and_named() -> None:
    estimator = HybridTokenEstimator()
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "lunar_tokens": 7}
    event: Any = estimator.record_event(ask("gpt-4o", 1, 1), usage)
    assert event.bill_reasons == ("unknown_usage_field",)
    assert event.usage.unread == ("lunar_tokens",)
    assert estimator.stats()["unknown_usage_field"] == 1
