"""One formula for what is shown and what is decided: worked examples, edge cases, resets."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from tokenctx import ContextWindow, HybridTokenEstimator
from tokenctx.context import ContextCategory, ContextCounts, ContextUsage, ModelLimits

SYSTEM = {"role": "system", "content": "You answer in one sentence. " * 20}
QUESTION = {"role": "user", "content": "What is the weather in New York?"}
CALL = {
    "role": "assistant",
    "content": "I'll check.",
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"city":"New York"}'},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "New York: 72 F, sunny"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "The weather of a city, now.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("weather", "mcp__maps__find", "mcp__maps__route")
]


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": [SYSTEM, *messages], "tools": TOOLS, **fields}


def counts(**fields: Any) -> ContextCounts:
    """The counts of the analysis: system prompt 4,000 and tools 8,000."""
    fixed = (ContextCategory("system", 4_000), ContextCategory("tools", 8_000))
    return ContextCounts(fixed, **fields)


def parts_sum(usage: ContextUsage) -> int:
    return sum(part.tokens for part in usage.categories if not part.is_deferred)


def billed(input_tokens: int, output_tokens: int = 0) -> dict[str, int]:
    return {"input_tokens": input_tokens, "output_tokens": output_tokens}


def test_the_flow_of_the_analysis_to_the_digit() -> None:
    window = ContextWindow(limits=ModelLimits(200_000))
    assert window.record_usage(billed(5_000, 100))
    usage = window.usage_of(window.last_counts(counts(), new_tokens=20))
    assert usage.total_tokens == 5_120
    window.record_usage(billed(5_115, 50))
    basis = window.usage_of(window.last_counts(counts(), new_tokens=0)).basis
    assert basis.last_error_tokens == 5
    assert f"{basis.last_error_percent:+.1f} %" == "+0.1 %"
    assert (basis.last_input_tokens, basis.last_output_tokens) == (5_115, 50)


def test_the_display_of_the_analysis_to_the_digit() -> None:
    window = ContextWindow(limits=ModelLimits(200_000), output_reserve=16_000)
    known = counts(last_input_tokens=50_000, last_output_tokens=2_000, new_tokens=100)
    usage = window.usage_of(known)
    tokens = {part.name: part.tokens for part in usage.categories}
    assert tokens == {"system": 4_000, "tools": 8_000, "messages": 40_100}
    assert (usage.total_tokens, usage.window_tokens) == (52_100, 200_000)
    assert usage.percent is not None
    assert f"{usage.percent:.0f} %" == "26 %"
    assert usage.free_tokens == 131_900
    assert usage.basis.method == "actuals"


def test_the_same_flow_from_requests() -> None:
    """Last input and output are the provider's; only what is new is counted."""
    window = ContextWindow("gpt-4o")
    window.usage(body(QUESTION))
    window.record(body(QUESTION), billed(5_000, 100), reply=CALL)
    usage = window.usage(body(QUESTION, CALL, RESULT))
    basis = usage.basis
    assert (basis.method, basis.last_input_tokens, basis.last_output_tokens) == (
        "actuals",
        5_000,
        100,
    )
    assert usage.total_tokens == 5_000 + 100 + (basis.new_tokens or 0)
    assert 5 <= (basis.new_tokens or 0) <= 30
    assert parts_sum(usage) == usage.total_tokens


@pytest.mark.parametrize(
    ("last", "new", "total", "method"),
    [
        ((5_000, 200), 100, 5_300, "actuals"),  # 400 characters by four
        ((5_000, 200), 0, 5_200, "actuals"),
        ((5_000, None), 100, 12_000, "estimated"),
        ((5_000, 200), None, 12_000, "estimated"),
        ((None, None), None, 12_000, "estimated"),
    ],
)
def test_all_three_numbers_or_an_estimate(
    last: tuple[int | None, int | None], new: int | None, total: int, method: str
) -> None:
    """As dexto tests it: last input, last output and the boundary, or a labelled estimate."""
    known = counts(last_input_tokens=last[0], last_output_tokens=last[1], new_tokens=new)
    usage = ContextWindow(limits=ModelLimits(200_000)).usage_of(known)
    assert (usage.total_tokens, usage.basis.method) == (total, method)
    assert parts_sum(usage) == total


def test_no_call_yet_is_a_labelled_estimate() -> None:
    usage = ContextWindow("gpt-4o").usage(body(QUESTION))
    basis = usage.basis
    assert basis.method == "estimated"
    assert basis.last_input_tokens is basis.last_output_tokens is basis.new_tokens is None
    assert usage.total_tokens == HybridTokenEstimator().estimate(body(QUESTION)).tokens
    assert parts_sum(usage) == usage.total_tokens


def test_after_compaction_it_is_an_estimate_until_the_next_call() -> None:
    window = ContextWindow("gpt-4o")
    window.record(body(QUESTION), billed(5_000, 100), reply=CALL)
    before = window.usage(body(QUESTION, CALL, RESULT))
    short = body({"role": "user", "content": "Summary: the weather was asked for."})
    window.compacted(before, window.usage(short))
    assert window.usage(short).basis.method == "estimated"
    window.record(short, billed(700, 10))
    assert window.usage(short).basis.last_input_tokens == 700


def test_counts_above_the_true_total_leave_no_message_and_warn() -> None:
    known = counts(last_input_tokens=9_000, last_output_tokens=0, new_tokens=0)
    usage = ContextWindow(limits=ModelLimits(200_000)).usage_of(known)
    assert usage.warnings == ("counts_above_total",)
    assert usage.message_tokens == 0
    assert parts_sum(usage) == usage.total_tokens == 9_000


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": "system", "content": "Another prompt."}, QUESTION, CALL, RESULT]},
        {"tools": TOOLS[:1]},
    ],
    ids=["system", "tools"],
)
def test_a_changed_context_is_estimated_and_the_next_bill_corrects_it(
    change: dict[str, Any],
) -> None:
    window = ContextWindow("gpt-4o")
    window.record(body(QUESTION), billed(5_000, 100), reply=CALL)
    changed = {**body(QUESTION, CALL, RESULT), **change}
    assert window.usage(changed).basis.method == "estimated"
    window.record(changed, billed(4_000, 10))
    assert window.usage(changed).total_tokens == 4_000


def test_failed_and_cancelled_calls_leave_the_last_numbers() -> None:
    """What came of a cancelled answer counts as new; two of them add up; a success re-syncs."""
    window = ContextWindow("gpt-4o")
    window.record(body(QUESTION), billed(5_000, 100), reply=CALL)
    known = window.usage(body(QUESTION, CALL, RESULT))
    assert not window.record(body(QUESTION, CALL, RESULT), {"prompt_tokens": None})
    assert window.usage(body(QUESTION, CALL, RESULT)) == known
    part = {"role": "assistant", "content": "It is"}
    once = window.usage(body(QUESTION, CALL, RESULT, part, QUESTION))
    twice = window.usage(body(QUESTION, CALL, RESULT, part, QUESTION, part, QUESTION))
    for usage in (once, twice):
        assert (usage.basis.last_input_tokens, usage.basis.last_output_tokens) == (5_000, 100)
    assert known.total_tokens < once.total_tokens < twice.total_tokens
    window.record(body(QUESTION, CALL, RESULT, part, QUESTION), billed(5_200, 9))
    again = window.usage(body(QUESTION, CALL, RESULT, part, QUESTION))
    assert (again.total_tokens, again.basis.last_input_tokens) == (5_200, 5_200)


def test_every_step_of_a_turn_updates() -> None:
    window = ContextWindow("gpt-4o")
    conversation: list[dict[str, Any]] = [QUESTION]
    for input_tokens in (900, 950, 1_000):
        window.record(body(*conversation), billed(input_tokens, 20), reply=CALL)
        conversation += [CALL, RESULT]
        usage = window.usage(body(*conversation))
        assert usage.basis.last_input_tokens == input_tokens
        assert usage.total_tokens < input_tokens + 60


def test_clear_and_model_switch_forget_the_last_call() -> None:
    window = ContextWindow("gpt-4o")
    window.record(body(QUESTION), billed(5_000, 100), reply=CALL)
    window.reset()
    assert window.last_counts(counts(), 0).is_estimated
    window.record(body(QUESTION), billed(5_000, 100), reply=CALL)
    window.switch_model("claude-sonnet-4-5")
    assert window.usage(body(QUESTION, CALL, RESULT)).basis.method == "estimated"
    assert window.limits().window_tokens == 200_000


def test_cached_input_is_input() -> None:
    """1,000 with 900 of them cached is 1,000: dexto once saw a cached chat as almost empty."""
    window = ContextWindow("claude-sonnet-4-5")
    usage = {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 5}
    request = {"model": "claude-sonnet-4-5", "messages": [QUESTION]}
    window.record(request, usage)
    assert window.usage(request).basis.last_input_tokens == 1_000


def test_categories_of_every_kind() -> None:
    note, skill = "Notes of the project. " * 9, "How to write a commit. " * 5
    request = {
        "model": "claude-sonnet-4-5",
        "system": f"You are careful.\n{note}\n{skill}",
        "tools": [
            {"name": "read", "input_schema": {"type": "object"}},
            {"name": "mcp__git__log", "input_schema": {"type": "object"}},
            {"name": "later", "input_schema": {"type": "object"}, "defer_loading": True},
        ],
        "messages": [
            {"role": "user", "content": [PICTURE, {"type": "text", "text": "What is this?"}]},
            {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "I look."}, USE]},
            {"role": "user", "content": [{**ANSWER, "content": "It is a cat. " * 40}]},
        ],
    }
    window = ContextWindow(server_of=lambda name: "disk" if name == "read" else None)
    untouched = copy.deepcopy(request)
    usage = window.usage(request, marked={"memory": {"NOTES": note}, "skills": {"commit": skill}})
    assert request == untouched
    tokens = {part.name: part.tokens for part in usage.categories if not part.is_deferred}
    expected = "system tools memory skills framing user assistant tool_results files reasoning"
    assert set(tokens) == set(expected.split())
    assert sum(tokens.values()) == usage.total_tokens
    tools, deferred = (part for part in usage.categories if part.name == "tools")
    assert [(item.name, item.group) for item in tools.items] == [
        ("read", "disk"),
        ("mcp__git__log", "git"),
    ]
    assert sum(item.tokens for item in tools.items) == tools.tokens
    assert (deferred.is_deferred, deferred.items[0].name) == (True, "later")
    without = {**request, "tools": request["tools"][:2]}
    assert window.usage(without).total_tokens == usage.total_tokens


PICTURE = {
    "type": "image",
    "source": {
        "type": "base64",
        "media_type": "image/png",
        "data": "iVBORw0KGgoAAAANSUhEUgAAAMgAAADICAYAAACtWK6eAAAAAElFTkSuQmCC",
    },
}
THOUGHT = {"type": "thinking", "thinking": "A picture; I read the file. " * 3, "signature": "c2ln"}
USE = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "cat.txt"}}
ANSWER = {"type": "tool_result", "tool_use_id": "t1"}


@pytest.mark.parametrize(("model", "is_kept"), [("grok-4", False), ("claude-sonnet-4-5", True)])
def test_reasoning_counts_where_it_is_kept(model: str, is_kept: bool) -> None:  # noqa: FBT001
    said = {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "I look."}, USE]}
    answered = {"role": "user", "content": [{**ANSWER, "content": "It is a cat."}]}
    usage = ContextWindow(model).usage({"messages": [QUESTION, said, answered]})
    names = [part.name for part in usage.categories]
    assert ("reasoning" in names) is is_kept
    assert parts_sum(usage) == usage.total_tokens


def test_reasoning_is_shown_apart_and_only_what_comes_back_is_next_input() -> None:
    window = ContextWindow("gpt-4o")
    details = {"completion_tokens_details": {"reasoning_tokens": 30}}
    spent = {"prompt_tokens": 900, "completion_tokens": 40, **details}
    window.record(body(QUESTION), spent, reply=CALL)
    basis = window.usage(body(QUESTION, CALL, RESULT)).basis
    assert (basis.last_input_tokens, basis.last_output_tokens) == (900, 10)
    assert basis.last_reasoning_tokens == 30


def test_results_are_frozen_and_as_json() -> None:
    usage = ContextWindow("gpt-4o").usage(body(QUESTION))
    with pytest.raises(dataclasses.FrozenInstanceError):
        usage.total_tokens = 1  # type: ignore[misc]
    values = usage.as_json()
    assert values["total_tokens"] == usage.total_tokens
    assert values["decision"] == usage.decision
