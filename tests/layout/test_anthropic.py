"""The Anthropic prompt layout counts what is billed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenctx
from request_laws import Laws
from tokenctx._estimate.profiles import bundled_profiles

MODELS = st.sampled_from(
    "claude-3-5-haiku claude-3-7-sonnet claude-sonnet-4 claude-sonnet-4-5 claude-opus-4-6 "
    "claude-opus-4-7 claude-sonnet-5".split()
)
TEXTS = st.sampled_from(["", "x", "\n a", "72°F 😀", '"}', "[]}", "A b.", " "])
NAMES = st.sampled_from(["", "f", "get_weather", "_é", 'a"b'])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(-9, 9), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
CALLS = st.builds(
    lambda name, value: {"type": "tool_use", "name": name, "input": value}, NAMES, VALUES
)
RESULTS = st.builds(
    lambda content, is_error: {"type": "tool_result", "content": content, "is_error": is_error},
    st.one_of(TEXTS, st.just([{"type": "text", "text": "a"}, {"json": {"b": [1]}}])),
    st.booleans(),
)
BLOCKS = st.one_of(
    CALLS,
    RESULTS,
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.just({"type": "thinking", "thinking": "so", "signature": "x"}),
)
MESSAGES = st.lists(
    st.builds(
        lambda role, blocks: {"role": role, "content": blocks},
        st.sampled_from("user assistant system tool developer".split()),
        st.one_of(TEXTS, st.lists(BLOCKS, max_size=4)),
    ),
    max_size=7,
)
BODIES = st.fixed_dictionaries(
    {"messages": MESSAGES},
    optional={
        "system": st.one_of(
            TEXTS,
            st.lists(
                st.builds(
                    lambda text: {"type": "text", "text": text},
                    TEXTS | st.just("x-anthropic-billing-header: cc_version=2;"),
                ),
                max_size=3,
            ),
        ),
        "tools": st.lists(
            st.builds(lambda name, schema: {"name": name, "input_schema": schema}, NAMES, VALUES),
            max_size=2,
        ),
        "tool_choice": st.builds(
            lambda kind, name, serial: {
                "type": kind,
                "name": name,
                "disable_parallel_tool_use": serial,
            },
            st.sampled_from(["auto", "any", "tool", "none"]),
            NAMES,
            st.booleans(),
        ),
        "output_config": st.builds(
            lambda schema: {"format": {"type": "json_schema", "schema": schema}}, VALUES
        ),
        "outputConfig": st.builds(
            lambda schema: {"textFormat": {"structure": {"jsonSchema": {"schema": schema}}}},
            st.sampled_from(['{"a":[1]}', "{", "", " "]),
        ),
        "thinking": st.sampled_from([{"type": "enabled"}, {"type": "adaptive"}]),
        "additionalModelRequestFields": st.just({"thinking": {"type": "enabled"}}),
        "reasoning": st.sampled_from([{"effort": "none"}, {"effort": "low"}, {"max_tokens": 9}]),
        "parallel_tool_calls": st.booleans(),
    },
)
ESTIMATOR = tokenctx.HybridTokenEstimator(learning=False)


@settings(deadline=None, max_examples=300)  # the first count loads a vocabulary
@given(BODIES, MODELS)
def test_any_request_obeys_the_laws(body: Any, model: str) -> None:
    Laws().check({"model": model, **body}, {"role": "assistant", "content": "so"}, (900, 60, 30))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def count(model: str, **body: Any) -> int:
    request = {"messages": [user("Hi")], **body}
    return ESTIMATOR.count_request(request, model=model, dialect="anthropic").tokens


def test_blocks_before_the_messages_are_joined() -> None:
    tool = {"name": "f", "input_schema": {"type": "object"}}
    model = "claude-sonnet-4-5"
    plain, system = count(model), count(model, system="Be brief.")
    tools = count(model, tools=[tool])
    both = count(model, system="Be brief.", tools=[tool])
    assert both == system + tools - plain + 1


def test_a_header_of_a_coding_agent_is_not_billed() -> None:
    header = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=1f;"}
    prompt = {"type": "text", "text": "Be brief."}
    model = "claude-sonnet-4-6"
    with_header = count(model, system=[header, prompt])
    assert with_header == count(model, system=[prompt])


def test_an_answer_that_is_begun_has_no_frame() -> None:
    begun = [user("Hi"), {"role": "assistant", "content": "A"}]
    model = "claude-sonnet-4-5"
    assert count(model, messages=begun) == count(model) + 1


def test_thinking_that_is_no_longer_asked_for_is_no_longer_counted() -> None:
    body: Any = {"model": "claude-sonnet-4-5", "messages": [user("Hi")], "system": "Be brief."}
    thinking = {**body, "thinking": {"type": "enabled"}}
    more = ESTIMATOR.count_request(thinking).tokens - ESTIMATOR.count_request(body).tokens
    estimator = tokenctx.HybridTokenEstimator(learning=False)
    estimator.record(thinking, 900)
    estimate = estimator.estimate({**body, "messages": [user("Hi"), user("go on")]})
    assert more > 0
    assert estimate.known_tokens == 900 - more
    assert "changed_options" in estimate.assumptions


def test_a_level_more_of_a_deep_schema_costs_no_indentation() -> None:
    schema: Any = 1
    for _ in range(400):
        schema = {"a": schema}
    plain, deep = (
        count("claude-sonnet-4-5", tools=[{"name": "f", "input_schema": one}])
        for one in (schema["a"], schema)
    )
    assert 0 < deep - plain <= 10


def test_a_document_that_begins_a_system_prompt_has_its_frame() -> None:
    """A generated request: the first text of a system prompt lost what stood around it."""
    document = {"type": "document", "source": {"type": "text", "data": "Ruby is the best."}}
    frame = bundled_profiles()["claude-opus-4.7"]["turns"]["document_tokens"]
    for role in ("system", "developer", "user"):
        tokens = [
            count("claude-opus-4-7", messages=[{"role": role, "content": [block]}, user("Hi")])
            for block in (document, {"type": "text", "text": "Ruby is the best."})
        ]
        assert tokens[0] - tokens[1] == frame


CONVERSE_TEXT = {"name": "note", "format": "txt", "source": {"text": "Ruby is the best."}}
TEXT = {"type": "text", "media_type": "text/plain", "data": "Ruby is the best."}


def test_a_document_that_is_text_stands_in_a_frame() -> None:
    def tokens(*blocks: Any) -> int:
        body = {"messages": [{"role": "user", "content": [*blocks]}]}
        estimator = tokenctx.HybridTokenEstimator(learning=False)
        return int(estimator.estimate(body, model="claude-sonnet-4-5").tokens)

    frame = bundled_profiles()["claude-4.5"]["turns"]["document_tokens"]
    document = {"type": "document", "source": TEXT}
    plain = tokens({"type": "text", "text": TEXT["data"]})
    assert tokens(document) == plain + frame
    assert tokens({"type": "tool_result", "content": [document]}) == frame + tokens(
        {"type": "tool_result", "content": [{"type": "text", "text": TEXT["data"]}]}
    )
    named = {**CONVERSE_TEXT, "name": "a much longer name of a note"}
    assert plain + frame < tokens({"document": CONVERSE_TEXT}) < tokens({"document": named})


def test_a_deferred_tool_is_counted_once_it_is_referred_to() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    here = {"name": "search_tools", "description": "Finds tools.", "input_schema": schema}
    later = {**here, "name": "get_weather", "defer_loading": True}
    asked: dict[str, Any] = {"role": "user", "content": "hi"}
    reference = {"type": "tool_reference", "tool_name": "get_weather"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [reference]}
    addition = {"type": "tool_addition", "tool": {"name": "get_weather"}}

    def tools(listed: list[Any], *messages: Any, model: str = "claude-sonnet-4-5") -> int:
        estimator = tokenctx.HybridTokenEstimator(learning=False)
        body = {"tools": listed, "messages": [asked, *messages]}
        return int(estimator.count_request(body, model=model).context_tokens)

    alone, both = tools([here]), tools([here, {**later, "defer_loading": False}])
    assert tools([here, later]) == alone < both
    assert tools([here, later], {"role": "user", "content": [result]}) == both
    assert tools([here, later], {"role": "system", "content": [addition]}) == both
    alone, listed = (tools(them, model="claude-opus-5") for them in ([here], [here, later]))
    loaded = tools([here, later], {"role": "user", "content": [result]}, model="claude-opus-5")
    assert loaded - listed == listed - alone > 0


@pytest.mark.parametrize("is_converse", [False, True])
def test_a_search_result_is_text_that_may_be_cited(*, is_converse: bool) -> None:
    found = {"title": "Leave", "source": "handbook", "content": [{"type": "text", "text": "Ask."}]}

    def count(block: dict[str, Any]) -> int:
        result: dict[str, Any]
        if is_converse:
            result = {"toolResult": {"toolUseId": "1", "content": [block]}}
        else:
            result = {"type": "tool_result", "tool_use_id": "1", "content": [block]}
        body = {"messages": [{"role": "user", "content": [result]}]}
        estimate = tokenctx.HybridTokenEstimator().estimate(body, model="claude-haiku-4-5")
        assert "unknown_part" not in estimate.assumptions
        return int(estimate.tokens)

    def searched(**more: Any) -> int:
        block = {"searchResult": {**found, **more}}
        return count(block if is_converse else {"type": "search_result", **found, **more})

    text = {"text": "LeavehandbookAsk."}
    assert searched() == 38 + count(text if is_converse else {"type": "text", **text})
    assert searched(citations={"enabled": True}) - searched() == 512
