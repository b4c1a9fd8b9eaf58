"""What stands before the newest compaction is not billed, and what is known behind it is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx.context import ContextWindow

LONG = "alpha beta gamma delta " * 5_000
BLOCK = {"type": "compaction", "content": "Summary: the user said hello and wants a short answer."}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "Z0FBQUFB" * 300}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str, *before: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": [*before, {"type": "text", "text": text}]}


def claude(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "claude-opus-4-8", "max_tokens": 64, "messages": [*messages], **fields}


def responses(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4.1", "input": [*items], **fields}


OLD = [user(LONG), said("Yes."), user("And? " * 2_000)]
REPLY = said("It is done.", BLOCK)
NEXT = user("Go on.")


def test_what_a_block_stands_for_counts_as_if_it_was_not_sent() -> None:
    whole, cut = claude(*OLD, REPLY, NEXT), claude(REPLY, NEXT)
    for body in (whole, cut, json.dumps(whole).encode(), json.dumps(cut)):
        estimate = HybridTokenEstimator().estimate(body)
        assert 100 < estimate.tokens < 140
        assert estimate.high < 2 * estimate.tokens
        assert estimate.assumptions == ("compacted_history",)
    tokens = [HybridTokenEstimator().estimate(body).tokens for body in (whole, cut)]
    assert tokens[0] == tokens[1]


def test_the_newest_block_counts_and_one_without_content_does_not() -> None:
    def count(*messages: dict[str, Any]) -> int:
        return HybridTokenEstimator().estimate(claude(*messages)).tokens

    failed = {"type": "compaction", "content": None}
    assert count(*OLD, said("a", BLOCK), user(LONG), REPLY, NEXT) == count(REPLY, NEXT)
    assert count(*OLD, said("a", failed), NEXT) == count(*OLD, said("a"), NEXT)
    words = {"type": "text", "text": LONG}
    inside = {"role": "assistant", "content": [words, *REPLY["content"]]}
    assert count(user("x"), inside, NEXT) == count(REPLY, NEXT)


def test_an_item_of_openai_stands_for_all_but_the_words_of_the_user() -> None:
    call = {
        "type": "function_call",
        "call_id": "c",
        "name": "f",
        "arguments": json.dumps({"a": LONG}),
    }
    result = {"type": "function_call_output", "call_id": "c", "output": LONG}
    spoken = {"role": "assistant", "content": LONG}
    asked = [{"role": "developer", "content": "Be brief."}, user("One. " * 500)]
    whole = HybridTokenEstimator().estimate(responses(*asked, spoken, call, result, ITEM, NEXT))
    kept = HybridTokenEstimator().estimate(responses(*asked, ITEM, NEXT))
    alone = HybridTokenEstimator().estimate(responses(ITEM, NEXT))
    assert whole.tokens == kept.tokens > alone.tokens + 400
    assert whole.assumptions == ("compacted_history", "opaque_reasoning")
    assert 0 < whole.low < whole.tokens < whole.high < 1.2 * whole.tokens


@pytest.mark.parametrize("form", [dict, json.dumps, lambda body: json.dumps(body).encode()])
@pytest.mark.parametrize("sends_old", [True, False])
def test_what_is_known_reaches_across_a_compaction_and_behind_it(form: Any, sends_old: Any) -> None:
    old = OLD if sends_old else []
    estimator = HybridTokenEstimator()
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
    managed = {"context_management": {"edits": [edit]}}
    usage = {"input_tokens": 190, "output_tokens": 5}
    estimator.record(form(claude(*OLD, **managed)), {**REPLY, "type": "message", "usage": usage})
    across = estimator.estimate(form(claude(*old, REPLY, NEXT, **managed)))
    assert (across.source, across.known_tokens, across.new_message_count) == ("delta", 196, 1)
    assert across.high - across.low < 40

    answer = said("Fine, it goes on.")
    usage = {"input_tokens": 201, "output_tokens": 11}
    estimator.record(form(claude(*old, REPLY, NEXT)), {**answer, "usage": usage})
    for sent in ([], OLD):
        behind = estimator.estimate(form(claude(*sent, REPLY, NEXT, answer, user("More."))))
        assert (behind.source, behind.known_tokens) == ("delta", 212)


def test_a_long_known_conversation_is_not_counted_once_it_is_compacted() -> None:
    estimator = HybridTokenEstimator()
    turns = [it for nth in range(40) for it in (user(f"{nth} " + "word " * 300), said("ok " * 200))]
    for end in (77, 79):
        body = json.dumps(claude(*turns[:end])).encode()
        billed = HybridTokenEstimator().estimate(body).tokens
        estimator.record(body, {"input_tokens": billed, "output_tokens": 1})
    long = claude(*turns[:79], REPLY, NEXT)
    expected = HybridTokenEstimator().estimate(claude(REPLY, NEXT)).tokens
    assert estimator.estimate(json.dumps(long).encode()).tokens == expected
    assert estimator.estimate(long).tokens == expected


def test_the_window_shows_that_what_is_dropped_takes_nothing() -> None:
    body = claude(*OLD, REPLY, NEXT)
    body["messages"][1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    usage = ContextWindow("claude-opus-4-8").usage(body)
    assert usage.total_tokens == HybridTokenEstimator().estimate(body).tokens
    assert sum(it.tokens for it in usage.categories if not it.is_deferred) == usage.total_tokens


def test_marks_before_a_compaction_do_not_matter_to_the_cache() -> None:
    body = claude(*OLD, REPLY, NEXT)
    marked = json.loads(json.dumps(body))
    for at, message in enumerate(marked["messages"]):
        if at in {1, 3}:
            message["content"][-1]["cache_control"] = {"type": "ephemeral"}
    estimates = [HybridTokenEstimator(caching=True).estimate(it) for it in (body, marked)]
    assert estimates[0].tokens == estimates[1].tokens
