"""Branches and edits of a known conversation start from what was billed for it."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

import tokenctx
from agent_turns import SHAPES, TEXT, TOOLS, edited_anywhere
from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]
CLEARED = "[Old tool result content cleared]"
HIDDEN_TOKENS = 700
"""Billed for what no request shows."""


def conversation() -> Json:
    call = {"name": "read_file", "arguments": '{"path": "a"}'}
    messages: list[Json] = [{"role": "system", "content": "Be brief."}]
    for turn in range(6):
        made = {"id": f"call_{turn}", "type": "function", "function": call}
        messages += [
            {"role": "user", "content": f"Question {turn}. " + TEXT * turn},
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": TEXT * (20 + turn)},
            {"role": "assistant", "content": f"Answer {turn}. " + TEXT * 3},
        ]
    return {"model": "gpt-4o", "messages": messages, "tools": copy.deepcopy(TOOLS)}


def regenerated(body: Json) -> None:
    body["messages"][-1] = {"role": "assistant", "content": "Another answer."}
    body["messages"].append({"role": "user", "content": "Go on."})


def edited_user_message(body: Json) -> None:
    body["messages"][5]["content"] = "Another question."


def pruned_results(body: Json) -> None:
    for message in body["messages"][:-8]:
        if message["role"] == "tool":
            message["content"] = CLEARED


def trimmed_head(body: Json) -> None:
    del body["messages"][1:9]
    body["messages"].append({"role": "user", "content": "Go on."})


def trimmed_tail(body: Json) -> None:
    del body["messages"][-7:]


def moved_messages(body: Json) -> None:
    body["messages"][1:5], body["messages"][5:9] = body["messages"][5:9], body["messages"][1:5]


def other_system_message(body: Json) -> None:
    body["messages"][0]["content"] = "Be brief. It is Sunday."


def other_tool(body: Json) -> None:
    body["tools"][0]["function"]["description"] = "Reads a file."


def more_tools(body: Json) -> None:
    body["tools"].append({"type": "function", "function": {"name": "g", "parameters": {}}})
    body["messages"].append({"role": "user", "content": "Go on."})


EDITS: dict[Callable[[Json], None], set[str]] = {
    regenerated: {"edited_history"},
    edited_user_message: {"edited_history"},
    pruned_results: {"edited_history"},
    trimmed_head: {"edited_history"},
    trimmed_tail: {"edited_history"},
    moved_messages: {"edited_history"},
    other_system_message: {"edited_history"},
    other_tool: {"changed_context"},
    more_tools: {"changed_context"},
}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("form", [json.dumps, dict], ids=["bytes", "dict"])
def test_an_edit_is_the_known_total_and_the_difference(
    edit: Callable[[Json], None], form: Callable[[Json], Any]
) -> None:
    """What is billed and cannot be counted stays in the answer."""
    estimator, body = tokenctx.HybridTokenEstimator(), conversation()
    edited = copy.deepcopy(body)
    edit(edited)
    billed = estimator.count_request(body).tokens + HIDDEN_TOKENS
    assert estimator.record(form(body), billed)
    estimate = estimator.estimate(form(edited))
    assert estimate.tokens == estimator.count_request(edited).tokens + HIDDEN_TOKENS
    assert (estimate.source, set(estimate.assumptions)) == ("delta", EDITS[edit])
    assert estimate.known_tokens + estimate.estimated_tokens == estimate.tokens
    assert estimate.low <= estimate.tokens <= estimate.high
    assert estimate.quality == "calibrated"


def test_what_left_and_what_came_widen_the_bounds() -> None:
    estimator, body = tokenctx.HybridTokenEstimator(), conversation()
    body["model"] = "mistral-large-latest"
    estimator.record(body, 9000)
    widths = []
    for count in (1, 4, 8):
        edited = copy.deepcopy(body)
        del edited["messages"][1 : 1 + count]
        estimate = estimator.estimate(edited)
        assert estimate.source == "delta"
        widths.append(estimate.high - estimate.low)
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_the_known_prefix_wins_where_less_is_counted_beyond_it() -> None:
    """A regenerated last answer: the call before it was billed, and nothing of it left."""
    estimator, body = tokenctx.HybridTokenEstimator(), conversation()
    earlier = {**body, "messages": body["messages"][:-1]}
    estimator.record(earlier, 5000)
    estimator.record(body, 5300)
    regenerated(body)
    estimate = estimator.estimate(body)
    assert (estimate.known_tokens, estimate.assumptions) == (5000, ())


def test_a_pruned_turn_starts_from_the_turn_before() -> None:
    """An agent records each turn with its reply, then clears old results and goes on."""
    estimator = tokenctx.HybridTokenEstimator()
    messages, total = conversation()["messages"], 0
    for end in range(2, len(messages), 2):
        body = {"model": "gpt-4o", "messages": messages[:end]}
        total = estimator.count_request(body).tokens + HIDDEN_TOKENS
        reply = messages[end]
        output = estimator.count_request({**body, "messages": [reply]}).message_tokens[0]
        usage = {"input_tokens": total, "output_tokens": output - 3}
        assert estimator.record(body, usage, reply=reply)
    assert estimator.stats()["known_shapes"] == 1
    body = {"model": "gpt-4o", "messages": copy.deepcopy(messages)}
    pruned_results(body)
    estimate = estimator.estimate(body)
    assert "edited_history" in estimate.assumptions
    assert abs(estimate.tokens - estimator.count_request(body).tokens - HIDDEN_TOKENS) <= 12


def test_another_conversation_is_not_near() -> None:
    estimator, body = tokenctx.HybridTokenEstimator(), conversation()
    estimator.record(body, 9000)
    other = {**body, "messages": [body["messages"][0], {"role": "user", "content": TEXT * 90}]}
    assert estimator.estimate(other).source == "estimated"
    edited = copy.deepcopy(body)
    edited_user_message(edited)
    assert estimator.estimate({**edited, "model": "claude-sonnet-4-5"}).source == "estimated"
    assert estimator.estimate(edited, tenant="other").source == "estimated"
    assert estimator.estimate(edited).source == "delta"
    estimator.reset()
    assert estimator.estimate(edited).source == "estimated"


def test_shapes_expire_and_are_bounded() -> None:
    now = [0.0]
    estimator = tokenctx.HybridTokenEstimator(
        capacity_bytes=8 * 6000, ttl_seconds=10, clock=lambda: now[0]
    )
    for nth in range(20):
        body = conversation()
        for message in body["messages"]:
            message["content"] = f"{nth} {message['content']}"
        estimator.record(body, 9000)
    assert 0 < estimator.stats()["known_shapes"] < 10
    edited_user_message(body)
    assert estimator.estimate(body).source == "delta"
    now[0] = 10.0
    assert estimator.estimate(body).source == "estimated"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_an_edited_session_is_the_same_as_bytes_and_as_objects(shape: str, seed: int) -> None:
    turn, rest, field = SHAPES[shape]
    random_ = random.Random(seed)
    one, other = (HybridTokenEstimator(secret=b"s", capacity_bytes=1 << 18) for _ in range(2))
    messages: list[Json] = []
    for number in range(12):
        messages += turn(random_, number)
        edited = list(messages)
        edited_anywhere(random_, edited)
        for body in ({**rest, field: list(messages)}, {**rest, field: edited}):
            assert one.estimate(body) == other.estimate(json.dumps(body))
        billed = one.count_request(body).tokens * 11 // 10 + 300
        assert one.record(body, billed) == other.record(json.dumps(body), billed)
        assert one.estimate(body).source == "exact"
    for name in ("recorded", "known_prefixes", "known_shapes"):
        assert one.stats()[name] == other.stats()[name]


@pytest.mark.parametrize("shape", SHAPES)
def test_estimates_never_get_worse_than_counting(shape: str) -> None:
    """Bills are counts and what no request shows; each edited request is told its own bill."""
    turn, rest, field = SHAPES[shape]
    by_difference = 0
    for seed in range(14):
        random_ = random.Random(seed)
        estimator = HybridTokenEstimator(learning=False)
        messages = [message for number in range(8) for message in turn(random_, number)]
        body = {**rest, field: messages}
        count = estimator.count_request(body).tokens
        estimator.record(body, count + HIDDEN_TOKENS)
        edited = list(messages)
        edited_anywhere(random_, edited)
        estimate = estimator.estimate({**rest, field: edited})
        count = estimator.count_request({**rest, field: edited}).tokens
        by_difference += "edited_history" in estimate.assumptions
        assert abs(estimate.tokens - count - HIDDEN_TOKENS) <= HIDDEN_TOKENS
        if "edited_history" in estimate.assumptions:
            assert abs(estimate.tokens - count - HIDDEN_TOKENS) <= 0.02 * count
    assert by_difference > 10


def with_a_link(model: str, turns: int = 1) -> Json:
    """A conversation about a picture that only the provider sees."""
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": TEXT}, picture]}]
    for turn in range(1, turns):
        messages += [
            {"role": "assistant", "content": f"Answer {turn}."},
            {"role": "user", "content": f"Question {turn}."},
        ]
    return {"model": model, "messages": messages}


def test_what_a_request_does_not_tell_another_models_bill_does() -> None:
    estimator = HybridTokenEstimator(learning=False)
    body, later = with_a_link("gpt-4o"), with_a_link("claude-sonnet-4-5", 2)
    counted = estimator.estimate(later)
    estimator.record(body, 9_000)
    told = estimator.estimate(later)
    _, *new = estimator.count_request(later).message_tokens
    assert "other_model_bill" in told.assumptions
    assert "other_model_bill" not in counted.assumptions
    assert (told.source, told.tokens) == ("estimated", 9_000 + sum(new))
    assert told.low <= counted.low <= told.tokens <= told.high
    assert told.high >= counted.high
    assert estimator.estimate(json.dumps(later)) == told
    assert estimator.estimate(later, tenant="other").assumptions == counted.assumptions
    estimator.reset()
    assert estimator.estimate(later) == counted


def test_what_a_request_tells_is_counted_whatever_another_model_was_billed() -> None:
    estimator = HybridTokenEstimator(learning=False)
    body = conversation()
    counted = estimator.estimate(body, model="claude-sonnet-4-5")
    estimator.record(body, 9_000)
    assert estimator.estimate(body, model="claude-sonnet-4-5") == counted


def test_another_conversation_with_another_model_tells_nothing() -> None:
    estimator = HybridTokenEstimator(learning=False)
    later = with_a_link("claude-sonnet-4-5", 2)
    counted = estimator.estimate(later)
    other = with_a_link("gpt-4o", 2)
    other["messages"][1]["content"] = "Another answer."
    estimator.record(other, 9_000)
    estimator.record({**with_a_link("gpt-4o"), "tools": TOOLS}, 9_000)
    assert estimator.estimate(later) == counted
