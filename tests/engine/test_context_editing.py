"""What the provider does to a request before it bills it is in the estimate, or it is assumed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator

WORDS = "alpha beta gamma delta " * 750


def turn(number: int, text: str = WORDS, name: str = "look") -> list[dict[str, Any]]:
    """A call of a tool and its result."""
    call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": {"at": text[:2_000]}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": text}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def body(turns: Any = 10, **edit: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "go on"}]
    for number in range(turns):
        messages += turn(number, name="read" if number % 2 else "look")
    found: dict[str, Any] = {"model": "claude-sonnet-4-5", "system": "s", "messages": messages}
    if edit:
        rule = {"type": "clear_tool_uses_20250919", **edit}
        found["context_management"] = {"edits": [rule]}
    return found


def tokens(value: int) -> dict[str, Any]:
    return {"type": "input_tokens", "value": value}


def uses(value: int) -> dict[str, Any]:
    return {"type": "tool_uses", "value": value}


def counted(request: dict[str, Any]) -> int:
    return HybridTokenEstimator().estimate(request).tokens


def with_results(kept: set[int]) -> int:
    """The count of the body where only these results have their text."""
    request = body()
    for number in set(range(10)) - kept:
        request["messages"][2 + 2 * number]["content"][0]["content"] = "x"
    return counted(request)


@pytest.mark.parametrize(
    ("edit", "kept"),
    [
        ({"trigger": tokens(10_000), "keep": uses(2)}, {8, 9}),
        ({"trigger": uses(9), "keep": uses(2)}, {8, 9}),
        ({"trigger": uses(10), "keep": uses(2)}, set(range(10))),
        ({"trigger": tokens(10_000)}, {7, 8, 9}),
        ({}, set(range(10))),
        ({"trigger": tokens(10_000), "exclude_tools": ["look"]}, {0, 2, 4, 6, 7, 8, 9}),
        ({"trigger": tokens(10_000), "clear_at_least": tokens(5_000)}, {7, 8, 9}),
        ({"trigger": tokens(10_000), "clear_at_least": tokens(500_000)}, set(range(10))),
    ],
)
def test_cleared_results_are_not_counted(edit: dict[str, Any], kept: set[int]) -> None:
    estimate = HybridTokenEstimator().estimate(body(**edit or {"keep": uses(3)}))
    expected = with_results(kept)
    assert expected <= estimate.tokens <= expected + 20 * (10 - len(kept))
    assert estimate.low <= expected <= estimate.high
    if len(kept) < 10:
        assert "cleared_tool_uses" in estimate.assumptions


@pytest.mark.parametrize("inputs", [True, ["look"]])
def test_arguments_are_cleared_where_that_is_asked_for(inputs: Any) -> None:
    plain = {"trigger": tokens(10_000), "keep": uses(2)}
    with_inputs = counted(body(**plain, clear_tool_inputs=inputs))
    share = 8 if inputs is True else 4
    saved = (counted(body(**plain)) - with_inputs) / share
    assert 300 < saved < 600


def test_a_close_trigger_leaves_both_answers_within_the_bounds() -> None:
    uncleared = counted(body())
    cleared = counted(body(trigger=tokens(1), keep=uses(2)))
    for trigger in (uncleared - 1, uncleared):
        estimate = HybridTokenEstimator().estimate(body(trigger=tokens(trigger), keep=uses(2)))
        assert estimate.low <= cleared < uncleared <= estimate.high
        assert "cleared_tool_uses" in estimate.assumptions


def test_a_bill_of_a_cleared_request_is_known_for_cleared_ones_only() -> None:
    estimator = HybridTokenEstimator()
    asked = {"trigger": tokens(10_000), "keep": uses(2)}
    estimator.record(body(**asked), 9_999)
    again = estimator.estimate(body(**asked))
    assert (again.tokens, again.source, again.assumptions) == (9_999, "exact", ())
    bare = estimator.estimate(body())
    assert bare.tokens > 20_000
    more = body(**asked)
    more["messages"].append({"role": "assistant", "content": "done"})
    more["messages"].append({"role": "user", "content": "thanks"})
    delta = estimator.estimate(more)
    assert (delta.source, delta.known_tokens) == ("delta", 9_999)
    assert "cleared_tool_uses" in delta.assumptions


def test_a_bill_near_the_trigger_is_no_exact_prefix() -> None:
    estimator = HybridTokenEstimator()
    near = body(trigger=tokens(counted(body()) - 1), keep=uses(2))
    estimator.record(near, 30_000)
    again = estimator.estimate(near)
    assert again.source == "delta"
    assert again.high - again.low > 10_000


@pytest.mark.parametrize("keep", [{"type": "thinking_turns", "value": 1}, "all", {"type": "all"}])
def test_thinking_is_dropped_but_for_the_last_turns(keep: Any) -> None:
    def request(**fields: Any) -> dict[str, Any]:
        thought = {"type": "thinking", "thinking": WORDS, "signature": "c2ln"}
        messages = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "d"}]},
            {"role": "user", "content": "e"},
        ]
        return {"model": "claude-opus-4-5", "messages": messages, **fields}

    rule = {"edits": [{"type": "clear_thinking_20251015", "keep": keep}]}
    edited = HybridTokenEstimator().estimate(request(context_management=rule))
    bare = HybridTokenEstimator().estimate(request())
    if isinstance(keep, dict) and "value" in keep:
        assert edited.tokens <= bare.tokens
        assert edited.assumptions == ("cleared_thinking",)
    else:
        assert edited.tokens == bare.tokens
        assert not {"cleared_thinking"} & {*edited.assumptions}


def managed(edit: dict[str, Any]) -> dict[str, Any]:
    return {"context_management": [edit]}


def responses(**fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4.1", "input": WORDS, **fields}


@pytest.mark.parametrize(
    ("fields", "assumption"),
    [
        (managed({"type": "compaction", "compact_threshold": 1_000}), "server_compaction"),
        (managed({"type": "compact_20260112", "trigger": tokens(1_000)}), "server_compaction"),
        (managed({"type": "compaction", "compact_threshold": 900_000}), None),
        (managed({"type": "new"}), "unknown_context_edit"),
        ({"truncation": "auto"}, None),
        ({"truncation": "auto", "model": "gpt-4"}, None),
        ({"truncation": "auto", "model": "gpt-4", "input": WORDS * 4}, "server_truncation"),
        ({"truncation": "disabled", "model": "gpt-4", "input": WORDS * 4}, None),
        ({"personality": "friendly"}, "unknown_personality"),
        ({"conversation": "conv_1"}, "server_state"),
        ({"previous_response_id": "resp_1"}, "server_state"),
    ],
)
def test_what_has_no_public_rule_is_assumed(fields: dict[str, Any], assumption: str | None) -> None:
    request = responses(**fields)
    estimate = HybridTokenEstimator().estimate(request)
    assert estimate.assumptions == ((assumption,) if assumption else ())
    if assumption == "server_truncation":
        window = estimate.limits.window_tokens
        assert estimate.tokens == estimate.high == window == estimate.estimated_tokens
    if assumption == "server_compaction":
        assert estimate.low == 0


def test_a_body_with_edits_is_read_in_whole_each_time() -> None:
    estimator, fresh = HybridTokenEstimator(secret=b"s" * 16), HybridTokenEstimator()
    asked = {"trigger": tokens(10_000), "keep": uses(2)}
    estimator.record(json.dumps(body(5)).encode(), counted(body(5)))
    later = json.dumps(body(10, **asked)).encode()
    estimate = estimator.estimate(later)
    assert estimator.stats()["resumed"] == 0
    assert "cleared_tool_uses" in estimate.assumptions
    assert abs(estimate.tokens - fresh.estimate(later).tokens) < 200
