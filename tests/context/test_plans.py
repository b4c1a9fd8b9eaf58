"""Plans change nothing, split no pair, keep to their budget, and come to rest."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import strategies
from generated_conversations import DIALECTS, conversation
from reference.outline import SYSTEM_FIELDS, Outline, Part, outline
from tokenctx import ContextWindow, HybridTokenEstimator
from tokenctx._cli.evaluation.four_characters import four_character_tokens
from tokenctx._core import _outline
from tokenctx.context import ModelLimits, PrunePlan, TrimPlan
from tokenctx.context.placeholders import cleared
from tokenctx.context.plans import prune_plan, retention_plan, trim_plan

PLACEHOLDER = "[Old tool result content cleared]"


def messages_of(request: dict[str, Any]) -> list[Any]:
    found: list[Any] = next(
        request[name] for name in ("messages", "input", "contents") if name in request
    )
    return found


def with_messages(request: dict[str, Any], messages: list[Any]) -> dict[str, Any]:
    name = next(name for name in ("messages", "input", "contents") if name in request)
    return {**request, name: messages}


def window(model: str, *, estimator: HybridTokenEstimator | None = None) -> ContextWindow:
    return ContextWindow(model, limits=ModelLimits(8_000, None, 1_000), estimator=estimator)


def check_the_laws(request: dict[str, Any], context: ContextWindow, budget: int) -> None:
    """Everything that must hold of any conversation, whether something is known of it or not."""
    text = json.dumps(request)
    measured = context._measured(request)
    usage = measured.usage
    parts = [part for part in usage.categories if not part.is_deferred]
    assert sum(part.tokens for part in parts) == usage.total_tokens
    assert all(part.tokens >= 0 for part in parts)
    assert all(sum(it.tokens for it in part.items) in {0, part.tokens} for part in parts)
    threshold = usage.threshold.tokens or 0
    is_over = usage.total_tokens > threshold >= usage.fixed_tokens
    assert context.should_compact(request) == usage.should_compact == is_over
    pairs = outline(request).pairs()
    check_trim(trim_plan(measured, budget), request, budget, usage.total_tokens, pairs)
    kept = retention_plan(measured, budget)
    assert kept.kept_tokens <= budget
    assert not any((call in kept.old) != (result in kept.old) for call, result in pairs)
    assert kept.next_total_tokens == usage.total_tokens - kept.saved_tokens
    check_prune(prune_plan(measured, 60, 40, 0, set()), request)
    assert json.dumps(request) == text


def check_trim(
    plan: TrimPlan, request: dict[str, Any], budget: int, total: int, pairs: list[tuple[int, int]]
) -> None:
    count = len(messages_of(request))
    assert sorted((*plan.kept, *plan.dropped)) == list(range(count))
    assert plan.next_total_tokens == total - plan.saved_tokens
    assert plan.next_total_tokens <= budget or not plan.fits
    assert not any((call in plan.kept) != (result in plan.kept) for call, result in pairs)
    said = outline(request).messages
    newest = max((index for index, it in enumerate(said) if it.is_turn), default=None)
    if plan.fits:
        assert newest in plan.kept or newest is None
    else:  # nothing more can go
        assert all(said[index].speaker == "system" or index == newest for index in plan.kept)


def check_prune(plan: PrunePlan, request: dict[str, Any]) -> None:
    pruned = plan.applied(messages_of(request))
    assert plan.saved_tokens > 40 or not plan.results
    before, after = outline(request), outline(with_messages(request, pruned))
    assert after.pairs() == before.pairs()
    shapes = [
        [[(part.kind, part.call_id) for part in message.parts] for message in read.messages]
        for read in (before, after)
    ]
    assert shapes[0] == shapes[1]
    assert json.dumps(pruned).count(PLACEHOLDER) == len(plan.results)


def test_the_newest_message_of_the_user_stays_while_it_fits() -> None:
    request = {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Answer in one word."},
            {"role": "user", "content": "old question " * 40},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": "the last question, " * 10},
        ],
    }
    context = ContextWindow("gpt-4o")
    estimator = HybridTokenEstimator()
    alone, least = (
        estimator.estimate({**request, "messages": [request["messages"][it] for it in kept]}).tokens
        for kept in ((0,), (0, 3))
    )
    for budget in range(alone, least + 40):
        plan = context.trim(request, budget)
        assert plan.kept == (0, 3)
        assert plan.fits == (budget >= least)


def by_four(read: Outline) -> int:
    """The texts of system prompt, tools and messages by four, and 1,000 for each file."""
    parts = [part for message in read.messages for part in message.parts]
    parts += [Part("text", read.fields[name]) for name in SYSTEM_FIELDS if name in read.fields]
    texts = [text for part in parts if part.kind != "file" for text in part.texts()]
    texts += [json.dumps(it, ensure_ascii=False, separators=(",", ":")) for _, it in read.tools]
    return sum((len(it) + 2) // 4 for it in texts) + 1_000 * sum(it.has_file for it in parts)


def check_the_outline(body: str) -> None:
    """The core reads what the plain reader does: messages, parts, pairs, tools and texts."""
    names: dict[str, Any] = dict.fromkeys(("model", "dialect", "provider", "tenant"))
    counted = HybridTokenEstimator()._count_parts(
        body, wants_categories=True, placeholder=PLACEHOLDER, **names
    )
    parts, read = counted[2], outline(body)
    said = read.messages
    assert [(speaker, [row[:3] for row in rows]) for speaker, rows in _outline(body)] == [
        (it.speaker, [(part.kind, part.call_id, part.name) for part in it.parts]) for it in said
    ]
    assert four_character_tokens(body) == by_four(read)
    assert list(parts.is_system) == [message.speaker == "system" for message in said]
    assert list(parts.is_turn) == [message.is_turn for message in said]
    pairs, count = read.pairs(), len(said)
    parted = [
        0 < at < count
        and bool(said[at - 1].parts)
        and all(part.kind == "reasoning" for part in said[at - 1].parts)
        for at in range(count + 1)
    ]
    assert list(parts.is_safe) == [
        not parted[at] and not any(call < at <= result for call, result in pairs)
        for at in range(count + 1)
    ]
    tools: dict[str | None, str] = {}
    results: list[tuple[int, int, str]] = []
    for index, message in enumerate(said):
        for at, part in enumerate(message.parts):
            if part.kind == "call" and part.call_id is not None:
                tools[part.call_id] = part.name
            elif part.kind == "result":
                found = tools.get(part.call_id, "") if part.call_id is not None else ""
                results.append((index, at, part.name or found))
    assert [(it.message, it.part, it.tool) for it in parts.results] == results
    assert parts.head is not None
    assert [tool.name for tool in parts.head.items] == [name for name, _ in read.tools]
    assert len(parts.message_tokens) == count
    assert not said or sum(parts.message_tokens) == sum(counted[0].message_tokens)


@given(strategies.requests() | st.builds(conversation, st.integers(0, 10**6)))
def test_the_core_has_the_same_outline(request: Any) -> None:
    assume(strategies.is_request(request))
    check_the_outline(json.dumps(request))


@given(strategies.requests(), st.booleans(), st.integers(0, 500))
def test_no_content_raises(request: Any, is_text: bool, budget: int) -> None:  # noqa: FBT001
    """Arbitrary requests of every dialect, damaged: parts sum, plans are made and applied."""
    assume(strategies.is_request(request))
    context = ContextWindow(limits=ModelLimits(1_000))
    body = json.dumps(request) if is_text else request
    usage = context.usage(body)
    assert (
        sum(part.tokens for part in usage.categories if not part.is_deferred) == usage.total_tokens
    )
    read = outline(body)
    trimmed = context.trim(body, budget)
    assert len(trimmed.applied(read.raw_messages)) == len(trimmed.kept)
    assert context.retain(body, budget).kept_tokens <= budget
    pruned = context.prune(body, protect_tokens=0, minimum_tokens=0)
    assert len(pruned.applied(read.raw_messages)) == len(read.raw_messages)
    assert four_character_tokens(body) >= 0


@given(st.integers(0), st.integers(0, 3_000), st.integers(1, 20_000))
def test_the_laws_hold_for_conversations_that_shrink(seed: int, budget: int, bill: int) -> None:
    request = conversation(seed)
    context = window(request["model"])
    check_the_laws(request, context, budget)
    usage = context.usage(request)
    assert context.clamp_max_tokens(request, 500) == usage.clamp_max_tokens(500)
    assert context.fits(request) == (usage.total_tokens <= 8_000)
    context.record(request, {"input_tokens": bill})
    check_the_laws(request, context, budget)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_laws_hold_for_20_000_conversations(dialect: str) -> None:
    """4,000 of each dialect, every other one after a bill that need not be like the count."""
    estimator = HybridTokenEstimator(learning=False)
    for seed in range(4_000):
        request = conversation(seed, dialect)
        context = window(request["model"], estimator=estimator)
        if seed % 2:
            context.record(request, {"input_tokens": 1 + seed * 7 % 9_000})
        check_the_laws(request, context, budget=seed % 1_500)


def test_bytes_and_objects_have_one_usage_and_one_plan() -> None:
    for seed in range(60):
        request = conversation(seed)
        found = []
        for form in (request, json.dumps(request).encode()):
            context = window(request["model"], estimator=HybridTokenEstimator())
            before = context.usage(form)
            context.record(form, {"input_tokens": 500 + seed})
            found.append((before, context.usage(form), context.trim(form, 300)))
        assert found[0] == found[1]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_trimming_twice_is_trimming_once_and_a_recount_keeps_to_the_budget(dialect: str) -> None:
    estimator = HybridTokenEstimator(learning=False)
    for seed in range(400):
        request = conversation(seed, dialect)
        context, budget = window(request["model"], estimator=estimator), seed * 5 % 1_500
        plan = context.trim(request, budget)
        if not plan.fits:
            continue
        trimmed = with_messages(request, plan.applied(messages_of(request)))
        assert estimator.count_request(trimmed).tokens <= budget
        again = context.trim(trimmed, budget)
        assert (again.dropped, again.fits) == ((), True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_pruning_twice_is_pruning_once(dialect: str) -> None:
    for seed in range(200):
        request = conversation(seed, dialect)
        context = window(request["model"])
        once = context.prune(request, protect_tokens=60, minimum_tokens=40)
        pruned = with_messages(request, once.applied(messages_of(request)))
        assert context.prune(pruned, protect_tokens=60, minimum_tokens=40).results == ()


def test_a_function_response_of_gemini_begins_no_turn() -> None:
    """As gemini-cli cuts: only where the user speaks."""
    call_ = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
    answer = {"functionResponse": {"name": "f", "response": {"result": "word " * 50}}}
    turn = [
        {"role": "user", "parts": [{"text": "Go on."}]},
        call_,
        {"role": "user", "parts": [answer]},
    ]
    request = {"contents": [*turn, *turn, {"role": "model", "parts": [{"text": "Done."}]}]}
    context = ContextWindow("gemini-2.5-pro")
    assert context.retain(request, 120).boundary == 3
    assert context.retain(request, 30).boundary == 6


def call(one: str, name: str = "read") -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": one, "type": "function", "function": function}],
    }


def result(one: str, tokens: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": one, "content": " word" * tokens}


def long_work(steps: int, tokens: int, name: str = "read") -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look around."}]
    for step in range(steps):
        messages += [call(f"c{step}", name), result(f"c{step}", tokens)]
    return {"model": "gpt-4o", "messages": messages}


def test_the_newest_40_000_tokens_of_results_stay() -> None:
    """As dexto and opencode prune: protect 40,000, act only above 20,000."""
    context = ContextWindow("gpt-4o")
    assert context.prune(long_work(6, 9_900)).results == ()  # 19,8xx could be freed
    plan = context.prune(long_work(7, 9_900))
    assert [one.message for one in plan.results] == [2, 4, 6]
    assert 39_600 <= plan.protected_tokens <= 40_000
    assert plan.saved_tokens == sum(one.saved_tokens for one in plan.results)
    request = long_work(7, 9_900)
    before = context.usage(request).total_tokens
    pruned = plan.applied(request["messages"])
    recounted = context.usage({**request, "messages": pruned}).total_tokens
    assert plan.next_total_tokens == before - plan.saved_tokens
    assert 0 <= plan.next_total_tokens - recounted <= 16 * len(plan.results)


def test_exactly_the_minimum_is_not_enough() -> None:
    context, request = ContextWindow("gpt-4o"), long_work(7, 9_900)
    freed = context.prune(request).saved_tokens
    assert context.prune(request, minimum_tokens=freed).results == ()
    assert context.prune(request, minimum_tokens=freed - 1).results


def test_protected_tools_and_turns_stay() -> None:
    context = ContextWindow("gpt-4o")
    assert context.prune(long_work(9, 9_900, "skill"), protect_tools=["skill"]).results == ()
    request = long_work(9, 9_900)
    request["messages"] += [{"role": "user", "content": "Go on."}]
    assert context.prune(request, protect_turns=1).results
    assert context.prune(request, protect_turns=2).results == ()
    assert context.prune(request, protect_turns=9).results == ()


def test_media_in_cleared_results_go_too() -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
    }
    block = {"type": "tool_result", "tool_use_id": "t", "content": [image], "is_error": False}
    use = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    request = {
        "model": "claude-sonnet-4-5",
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [block, {"type": "text", "text": "And?"}]},
        ],
    }
    plan = ContextWindow().prune(request, protect_tokens=0, minimum_tokens=0)
    untouched = copy.deepcopy(request)
    cleared = plan.applied(messages_of(request))[2]["content"]
    assert cleared[0] == {**block, "content": PLACEHOLDER}
    assert cleared[1] is messages_of(request)[2]["content"][1]
    assert request == untouched


def test_whole_turns_stay_while_one_fits() -> None:
    context = ContextWindow("gpt-4o")
    request = long_work(3, 100)
    first = len(request["messages"])
    request["messages"] += long_work(2, 100)["messages"]
    plan = context.retain(request, 300)
    assert (plan.boundary, plan.splits_turn) == (first, False)
    assert plan.old == tuple(range(first))
    split = context.retain(request, 150)
    assert (split.boundary, split.splits_turn) == (first + 3, True)
    assert context.retain(request, 100_000).old == ()
    assert context.retain(request, 0).kept == ()


def test_a_window_without_a_model_keeps_by_that_of_the_request() -> None:
    request = long_work(30, 1_000)
    plan = ContextWindow().retain(request)
    assert 11_000 < plan.kept_tokens <= 12_800
    assert plan == ContextWindow("gpt-4o").retain(request)


def test_system_prompts_stay_and_an_impossible_budget_is_said() -> None:
    context = ContextWindow("gpt-4o")
    request = long_work(3, 100)
    request["messages"].insert(0, {"role": "system", "content": "Be careful. " * 30})
    plan = context.trim(request, 250)
    assert plan.kept[0] == 0
    assert plan.fits
    assert not context.trim(request, 20).fits


@pytest.mark.parametrize(
    "request_", [{"messages": []}, {"messages": None}, [], "[]", {"messages": 5}]
)
def test_an_odd_request_has_plans_too(request_: Any) -> None:
    context = ContextWindow("gpt-4o")
    usage = context.usage(request_)
    assert sum(part.tokens for part in usage.categories) == usage.total_tokens
    assert context.trim(request_, 0).dropped == ()
    assert context.retain(request_, 0).old == ()
    assert context.prune(request_).results == ()


def test_a_result_that_is_no_object_becomes_the_placeholder() -> None:
    assert cleared('"3 files"', {0}, "gone") == "gone"
