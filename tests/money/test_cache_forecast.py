"""What a call will read from the provider's cache: rules, clocks, tenants, workers, advice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenctx import Estimate, HybridTokenEstimator
from tokenctx.money.cache.rules import minimum_tokens, rule_of, rules

if TYPE_CHECKING:
    from tokenctx.money import CacheForecast

LONG = "You are a careful assistant for people in a hurry. " * 200
MARK = {"type": "ephemeral"}


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def claude(
    *texts: str, system_mark: Any = None, ttl: str | None = None, **more: Any
) -> dict[str, Any]:
    """A conversation of texts in turn, marked at its last message."""
    mark = {**MARK, **({"ttl": ttl} if ttl else {})}
    system: dict[str, Any] = {"type": "text", "text": LONG}
    if system_mark:
        system["cache_control"] = mark
    messages: list[dict[str, Any]] = [
        {"role": "user" if nth % 2 == 0 else "assistant", "content": text}
        for nth, text in enumerate(texts)
    ]
    last = {"type": "text", "text": texts[-1], "cache_control": mark}
    messages[-1]["content"] = [last]
    return {"model": "claude-sonnet-4-5", "system": [system], "messages": messages, **more}


def chat(*texts: str, model: str = "gpt-4o-mini", **more: Any) -> dict[str, Any]:
    messages = [
        {"role": "user" if nth % 2 == 0 else "assistant", "content": text}
        for nth, text in enumerate(texts)
    ]
    return {"model": model, "messages": [{"role": "system", "content": LONG}, *messages], **more}


def answer(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def told(
    estimator: HybridTokenEstimator, body: object, **names: Any
) -> tuple[Estimate, CacheForecast]:
    estimate = estimator.estimate(body, **names)
    assert estimate.cache is not None
    cache = estimate.cache
    parts = cache.read_tokens, cache.write_tokens, cache.uncached_tokens
    assert sum(parts) == estimate.tokens
    assert min(parts) >= 0
    assert 0 <= cache.low <= cache.read_tokens <= cache.high or cache.read_tokens == 0
    return estimate, cache


def written(estimator: HybridTokenEstimator, body: object, read: int = 0, **names: Any) -> int:
    """Record a call of Claude that wrote all but four tokens; what is cached since."""
    total = estimator.estimate(body, **names).tokens
    usage = {
        "input_tokens": 4,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": total - 4 - read,
        "output_tokens": 5,
    }
    assert estimator.record(body, usage, reply=answer("hello you"), **names)
    return total - 4


def test_without_caching_nothing_is_told() -> None:
    assert HybridTokenEstimator().estimate(claude("hi")).cache is None


@pytest.mark.parametrize("form", [dict, lambda body: json.dumps(body).encode()])
def test_what_the_call_before_wrote_is_read(form: Any) -> None:
    clock = Clock()
    estimator = HybridTokenEstimator(caching=True, clock=clock)
    _, first = told(estimator, form(claude("hi")))
    assert (first.label, first.reason, first.read_tokens) == ("none", "nothing_known", 0)
    assert first.write_tokens > 2_000
    cached = written(estimator, form(claude("hi")))
    following = form(claude("hi", "hello you", "and now?"))
    estimate, cache = told(estimator, following)
    assert (cache.label, cache.reason) == ("expected", "warm")
    assert cache.read_tokens == cached
    assert cache.uncached_tokens == 4
    assert cache.write_tokens == estimate.tokens - cached - 4
    assert cache.lifetime_seconds == 300
    clock.now += 299
    assert told(estimator, following)[1].read_tokens == cached
    clock.now += 2
    assert told(estimator, following)[1].label == "possible"
    clock.now += 600
    assert told(estimator, following)[1].reason == "expired"


def test_being_read_renews_a_prefix() -> None:
    clock = Clock()
    estimator = HybridTokenEstimator(caching=True, clock=clock)
    cached = written(estimator, claude("hi"))
    second = claude("hi", "hello you", "and now?")
    clock.now += 200
    written(estimator, second, cached)
    clock.now += 200
    branch = claude("hi", "hello you", "another question")
    assert told(estimator, branch)[1].read_tokens == cached


def test_an_hour_by_the_request() -> None:
    clock = Clock()
    estimator = HybridTokenEstimator(caching=True, clock=clock)
    cached = written(estimator, claude("hi", ttl="1h"))
    clock.now += 3_500
    _, cache = told(estimator, claude("hi", "hello you", "and now?", ttl="1h"))
    assert (cache.label, cache.read_tokens, cache.lifetime_seconds) == ("expected", cached, 3_600)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "claude-opus-4-1"},
        {"tools": [{"name": "f", "input_schema": {"type": "object"}}]},
        {"tool_choice": {"type": "any"}},
        {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
    ],
)
def test_what_makes_it_cold(change: dict[str, Any]) -> None:
    estimator = HybridTokenEstimator(caching=True)
    written(estimator, claude("hi"))
    body = claude("hi", "hello you", "and now?")
    assert told(estimator, body)[1].label == "expected"
    assert told(estimator, {**body, **change})[1].read_tokens == 0


def test_a_marked_system_prompt_is_read_by_other_conversations() -> None:
    estimator = HybridTokenEstimator(caching=True)
    written(estimator, claude("hi", system_mark=True))
    _, cache = told(estimator, claude("something else", system_mark=True))
    assert cache.label == "expected"
    assert cache.read_tokens > 2_000
    assert told(estimator, claude("something else"))[1].read_tokens > 2_000  # within 20 blocks


def test_no_further_back_than_the_provider_looks() -> None:
    estimator = HybridTokenEstimator(caching=True)
    written(estimator, claude("hi"))
    turns = ["hello you" if nth % 2 else "and now?" for nth in range(1, 23)]
    long = claude("hi", *turns, "last")
    assert told(estimator, long)[1].reason == "beyond_lookback"
    assert told(estimator, claude("hi", *turns[:10], "last"))[1].label == "expected"


def test_marks_that_do_nothing() -> None:
    estimator = HybridTokenEstimator(caching=True)
    small = {"model": "claude-sonnet-4-5", "messages": claude("hi")["messages"]}
    assert told(estimator, small)[1].reason == "below_minimum"
    plain = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": LONG}]}
    assert told(estimator, plain)[1].reason == "no_marks"


def test_marks_that_the_gateway_adds_are_known_by_the_bill() -> None:
    estimator = HybridTokenEstimator(caching=True)
    body = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": LONG}]}
    cached = written(estimator, body)
    body["messages"] = [*body["messages"], answer("hello you"), {"role": "user", "content": "on"}]
    assert told(estimator, body)[1].read_tokens == cached


def test_automatic_caches_are_a_probability() -> None:
    clock = Clock()
    estimator = HybridTokenEstimator(caching=True, clock=clock)
    body = chat("hi")
    assert told(estimator, body)[1].reason == "nothing_known"
    usage = {"prompt_tokens": 2_050, "completion_tokens": 3}
    estimator.record(body, usage, reply=answer("hello you"))
    following = chat("hi", "hello you", "and?")
    _, cache = told(estimator, following)
    assert (cache.label, cache.reason) == ("possible", "best_effort")
    assert (cache.read_tokens, cache.write_tokens) == (2_048, 0)
    assert (cache.low, cache.high % 128) == (0, 0)
    misses = {"prompt_tokens": 2_060, "completion_tokens": 3}
    hits = {**misses, "prompt_tokens_details": {"cached_tokens": 2_048}}
    for _ in range(12):
        estimator.record(following, misses)
    assert told(estimator, following)[1].read_tokens == 0
    for _ in range(400):
        estimator.record(following, hits)
    assert told(estimator, following)[1].label == "expected"
    clock.now += 7_200
    assert told(estimator, following)[1].label == "none"


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_cache_key": "other"},
        {"reasoning_effort": "low"},
        {"verbosity": "low"},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_options_that_make_an_automatic_cache_cold(change: dict[str, Any]) -> None:
    estimator = HybridTokenEstimator(caching=True)
    usage = {"prompt_tokens": 2_050, "completion_tokens": 3}
    estimator.record(chat("hi"), usage, reply=answer("hello you"))
    following = chat("hi", "hello you", "and?")
    assert told(estimator, following)[1].read_tokens == 2_048
    cold = told(estimator, {**following, **change})[1]
    assert cold.read_tokens <= 2_048 - 128  # the system prompt may still be warm


def test_breakpoints_of_newer_models() -> None:
    estimator = HybridTokenEstimator(caching=True)
    body = chat("hi", model="gpt-5.6")
    total, first = told(estimator, body)
    assert (first.rule, first.write_tokens) == ("openai-exact", total.tokens)
    usage = {
        "prompt_tokens": total.tokens,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": total.tokens},
    }
    estimator.record(body, usage, reply=answer("hello you"))
    _, cache = told(estimator, chat("hi", "hello you", "and?", model="gpt-5.6"))
    assert (cache.label, cache.read_tokens) == ("expected", total.tokens)
    assert cache.lifetime_seconds == 1_800


def test_who_is_unknown_is_labelled() -> None:
    estimator = HybridTokenEstimator(caching=True)
    for body in (chat("hi", model="nobody-knows-it"), chat("hi", model="groq/llama-3.3-70b")):
        _, cache = told(estimator, body)
        assert (cache.label, cache.reason, cache.rule) == ("unknown", "no_rule", "")
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "cachedContent": "c/1"}
    _, cache = told(estimator, {"model": "gemini-2.5-pro", **body})
    assert (cache.label, cache.reason) == ("unknown", "cached_content")


def test_a_tenant_learns_nothing_of_another() -> None:
    estimator = HybridTokenEstimator(caching=True)
    written(estimator, claude("hi"), tenant="a")
    body = claude("hi", "hello you", "and now?")
    assert told(estimator, body, tenant="a")[1].label == "expected"
    assert told(estimator, body, tenant="b")[1].reason == "nothing_known"
    assert told(estimator, body)[1].reason == "nothing_known"


@pytest.mark.parametrize("step", [-10_000.0, 10.0**9])
def test_a_wrong_clock_raises_nothing(step: float) -> None:
    clock = Clock()
    estimator = HybridTokenEstimator(caching=True, clock=clock)
    written(estimator, claude("hi"))
    clock.now += step
    told(estimator, claude("hi", "hello you", "and now?"))


def test_usage_without_cache_fields_and_without_anything() -> None:
    estimator = HybridTokenEstimator(caching=True)
    body = claude("hi")
    assert estimator.record(body, {"input_tokens": 2_400, "output_tokens": 5})
    assert not estimator.record(body, {})
    assert told(estimator, body)[1].label == "none"


def test_what_is_kept_is_bounded_and_forgotten() -> None:
    estimator = HybridTokenEstimator(caching=True, capacity_bytes=384 * 8 * 10)
    for nth in range(50):
        estimator.record(chat(f"hi {nth}"), {"prompt_tokens": 2_050, "completion_tokens": 3})
    knowledge: Any = estimator._cache.knowledge  # type: ignore[union-attr]
    assert len(knowledge) == 10
    estimator.reset()
    assert len(knowledge) == 0


def test_two_workers_see_the_same_warmth() -> None:
    class Shared:
        """A shared store in this process."""

        is_async, deadline_seconds = False, 5.0

        def __init__(self) -> None:
            self.values: dict[str, str] = {}

        def get_many(self, keys: Any) -> list[str | None]:
            return [self.values.get(key) for key in keys]

        def set_many(self, values: Any, ttl_seconds: int) -> None:
            assert ttl_seconds > 0
            self.values.update(values)

    store: Any = Shared()
    words: dict[str, Any] = {"secret": b"a secret of 16 bytes", "shared": store, "caching": True}
    one, other = HybridTokenEstimator(**words), HybridTokenEstimator(**words)
    cached = written(one, claude("hi"))
    assert one.flush(5.0)
    body = claude("hi", "hello you", "and now?")
    assert told(other, body)[1].read_tokens == cached
    assert told(other, body)[0] == told(one, body)[0]
    stranger = HybridTokenEstimator(**{**words, "secret": b"another of 16 bytes!"})
    assert told(stranger, body)[1].reason == "nothing_known"


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 40_000), st.floats(-500, 5_000)), max_size=12
    )
)
@settings(max_examples=60, deadline=None)
def test_the_parts_are_the_estimate_whatever_was_billed(steps: list[Any]) -> None:
    clock = Clock()
    estimator = HybridTokenEstimator(caching=True, clock=clock)
    bodies = [
        claude("hi"),
        claude("hi", "hello you", "on", system_mark=True),
        chat("hi"),
        chat("hi", "hello you", "and?", model="gpt-5.6"),
    ]
    for which, billed, seconds in steps:
        clock.now += seconds
        told(estimator, bodies[which])
        usage = {
            "input_tokens": billed % 97,
            "cache_read_input_tokens": billed,
            "cache_creation_input_tokens": billed // 3,
            "output_tokens": 5,
        }
        estimator.record(bodies[which], usage, reply=answer("hello you"))
    for body in bodies:
        told(estimator, body)


# ---------------------------------------------------------------------------- rules


def test_the_table_of_rules_is_whole() -> None:
    names = [rule.name for rule in rules()]
    assert len(names) == len(set(names)) >= 10
    for rule in rules():
        assert rule.kind in ("marked", "exact", "automatic")
        assert 0 < rule.share <= 1
        assert 0 < rule.lifetime_seconds <= rule.longest_seconds
        assert rule.block_tokens >= 1


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-sonnet-4-5-20250929", 1_024),
        ("claude-opus-4.5", 4_096),
        ("claude-opus-5-5", 512),
        ("claude-3-5-haiku-20241022", 2_048),
        ("claude-from-the-future", 1_024),
    ],
)
def test_minimums_by_model(model: str, tokens: int) -> None:
    rule = rule_of(model, "anthropic", "")
    assert rule is not None
    assert minimum_tokens(rule, model) == tokens


# ---------------------------------------------------------------------------- advice


def kinds(estimator: HybridTokenEstimator, *bodies: Any) -> list[tuple[str, str, int | None]]:
    found = estimator.cache_advice(*bodies)
    assert all(LONG[:20] not in it.message and "Monday" not in it.message for it in found)
    return [(it.kind, it.place, it.byte) for it in found]


def test_what_broke_the_prefix() -> None:
    estimator = HybridTokenEstimator()
    before, after = claude("hi"), claude("hi")
    before["system"][0]["text"], after["system"][0]["text"] = (
        f"{LONG}Today is {day}." for day in ("Monday", "Sunday")
    )
    assert kinds(estimator, after, before) == [
        ("prefix_changes", "system[0].text", len(LONG) + len("Today is ")),
        ("mark_behind_change", "messages[0]", None),
    ]
    assert kinds(estimator, json.dumps(after).encode(), json.dumps(before)) == kinds(
        estimator, after, before
    )
    going_on = claude("hi", "hello you", "on")
    assert kinds(estimator, going_on, claude("hi")) == [("nothing_to_do", "", None)]


def test_names_of_members_are_nobody_elses_text() -> None:
    estimator = HybridTokenEstimator()
    before, after = claude("hi"), claude("hi")
    schema = {"type": "object", "properties": {"a secret": {"type": "string"}}}
    before["tools"] = [{"name": "f", "input_schema": schema}]
    after["tools"] = [{"name": "f", "input_schema": {**schema, "properties": {}}}]
    [found, *_] = estimator.cache_advice(after, before)
    assert found.kind == "prefix_changes"
    assert found.place.startswith("tools[0].input_schema.*")
    assert "secret" not in str(found)


def test_marks_that_are_worth_it_and_marks_that_are_not() -> None:
    estimator = HybridTokenEstimator()
    plain = claude("hi")
    plain["messages"] = [{"role": "user", "content": "hi"}]
    assert [it[:2] for it in kinds(estimator, plain)] == [
        ("add_mark", "system"),
        ("add_mark", "messages[0]"),
    ]
    small = {"model": "claude-sonnet-4-5", "messages": claude("hi")["messages"]}
    assert kinds(estimator, small) == [("mark_below_minimum", "messages[0]", None)]
    marked = chat("hi")
    marked["messages"][1]["content"] = [{"type": "text", "text": "a", "cache_control": MARK}]
    assert kinds(estimator, marked) == [("mark_without_effect", "", None)]
    assert kinds(estimator, chat("hi", model="nobody-knows-it"))[0][0] == "unknown_provider"
    many = claude(*("a b c d e f g".split()))
    for message in many["messages"]:
        message["content"] = [{"type": "text", "text": "x", "cache_control": MARK}]
    assert kinds(estimator, many)[0][0] == "too_many_marks"
