"""Tools that the vendor runs: what its rounds were billed within a call is not counted again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenctx
from request_laws import Laws

QUESTION = {"role": "user", "content": "What is the latest Ruby?"}
NEXT = {"role": "user", "content": "And Python?"}
PAGE = "Ruby 4.0.2 is the current stable version. " * 40
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "ruby"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "s1",
    "content": [{"type": "web_search_result", "url": "https://x.y", "encrypted_content": PAGE}],
}
OWN_CALL = {"type": "tool_use", "id": "t1", "name": "save", "input": {"version": "4.0.2"}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def claude(*blocks: Any) -> dict[str, Any]:
    messages = [QUESTION, *([{"role": "assistant", "content": list(blocks)}] if blocks else [])]
    return {"model": "claude-sonnet-4-5", "messages": [*messages, NEXT]}


def responses(*items: Any) -> dict[str, Any]:
    return {"model": "grok-4.3", "input": [QUESTION, *items, NEXT]}


def new_tokens(body: dict[str, Any]) -> int:
    """Tokens counted on top of a first call with the question alone, billed 9,000."""
    estimator = tokenctx.HybridTokenEstimator(learning=False)
    name = "messages" if "messages" in body else "input"
    assert estimator.record({**body, name: body[name][:1]}, 9_000)
    estimate = estimator.estimate(body)
    assert (estimate.source, estimate.known_tokens) == ("delta", 9_000)
    assert estimate.new_message_count == len(body[name]) - 1
    return int(estimate.estimated_tokens)


ANSWERS: list[tuple[list[Any], list[Any]]] = [
    ([text("Let me look."), SEARCH, FOUND, text("It is 4.0.2.")], [text("It is 4.0.2.")]),
    ([SEARCH, FOUND, text("Got it."), OWN_CALL], [text("Got it."), OWN_CALL]),
    ([SEARCH, FOUND, SEARCH, FOUND, text("4.0.2.")], [text("4.0.2.")]),
    (
        [{**SEARCH, "type": "mcp_tool_use"}, {**FOUND, "type": "mcp_tool_result"}, text("x")],
        [text("x")],
    ),
]


@pytest.mark.parametrize(("answer", "new"), ANSWERS)
def test_only_the_last_round_of_an_answer_is_new(answer: list[Any], new: list[Any]) -> None:
    """The same as if the answer had said nothing else."""
    rounds = new_tokens(claude(*answer))
    assert rounds == new_tokens(claude(*new))
    assert rounds < new_tokens(claude(text(PAGE), *new))


def test_only_the_last_message_of_items_is_new() -> None:
    """xAI returns what its tools found as encrypted reasoning."""
    message = {"type": "message", "role": "assistant", "content": [text("It is 4.0.2.")]}
    action = {"type": "search", "query": "ruby"}
    call = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    found = {"type": "reasoning", "id": "tco_1", "summary": [], "encrypted_content": "A" * 4_000}
    rounds = new_tokens(responses(call, found, message))
    assert rounds == new_tokens(responses(message))
    own = {**call, "type": "function_call", "name": "search", "arguments": "{}"}
    assert rounds < new_tokens(responses(own, found, message)) - 500


def test_the_rounds_of_a_call_that_was_not_recorded_count() -> None:
    """Only the answer to the recorded call is in its bill, not one further on."""
    first = {"role": "assistant", "content": [text("4.0.2.")]}
    later = {"role": "assistant", "content": [SEARCH, FOUND, text("3.14.")]}
    body = {**claude(), "messages": [QUESTION, first, NEXT, later, QUESTION]}
    shorter = {**body, "messages": [QUESTION, first, NEXT, QUESTION]}
    page = tokenctx.HybridTokenEstimator().estimate_message(later, body["model"])
    more = new_tokens(body) - new_tokens(shorter)
    assert page > 300
    assert more == pytest.approx(page, abs=10)


def test_nothing_known_is_counted_in_whole() -> None:
    estimator = tokenctx.HybridTokenEstimator()
    whole = claude(*ANSWERS[0][0])
    assert estimator.estimate(whole).tokens == estimator.count_request(whole).tokens


BLOCKS = st.sampled_from(
    [text("so"), SEARCH, FOUND, OWN_CALL, {"type": "thinking", "thinking": "hm", "signature": "x"}]
)
ITEMS = st.sampled_from(
    [
        {"type": "web_search_call", "id": "w", "action": {"query": "q"}},
        {"type": "mcp_call", "id": "m", "name": "f", "arguments": '{"a": 1}', "output": "b"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "A" * 90},
        {"type": "message", "role": "assistant", "content": [text("so")]},
        NEXT,
    ]
)
BODIES = st.one_of(
    st.lists(st.lists(BLOCKS, max_size=6), max_size=4).map(
        lambda answers: {
            **claude(),
            "messages": [QUESTION, *({"role": "assistant", "content": one} for one in answers)],
        }
    ),
    st.builds(
        lambda model, items: {"model": model, "input": [QUESTION, *items]},
        st.sampled_from(["grok-4.3", "gpt-5", "gpt-4.1", "o4-mini"]),
        st.lists(ITEMS, max_size=9),
    ),
)


@settings(max_examples=300)
@given(BODIES, st.integers(1, 9))
def test_rounds_are_left_out_of_what_is_new_and_of_nothing_else(body: Any, known: int) -> None:
    name = "messages" if "messages" in body else "input"
    Laws().check({**body, name: body[name][:known]}, NEXT, (500, 20, 0))
    estimator = tokenctx.HybridTokenEstimator(learning=False)
    if not estimator.record({**body, name: body[name][:known]}, 500):
        return
    estimate, count = estimator.estimate(body), estimator.count_request(body)
    new = count.message_tokens[len(count.message_tokens) - estimate.new_message_count :]
    assert 0 <= estimate.estimated_tokens <= sum(new)
    has_rounds = "server_tool_use" in str(body) or "_call'" in str(body)
    assert has_rounds or estimate.estimated_tokens == sum(new)
