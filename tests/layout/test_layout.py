"""The OpenAI prompt layout counts what is billed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenctx
from request_laws import Laws
from tokenctx import HybridTokenEstimator, count_tokens

DATA = Path(__file__).parents[1] / "data" / "openai"
ESTIMATOR = HybridTokenEstimator(learning=False)


def cases() -> list[Any]:
    return [
        pytest.param(case, id=f"{path.stem}: {case['name']}")
        for path in sorted(DATA.glob("*.json"))
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
    ]


@pytest.mark.parametrize("case", cases())
def test_published_counts_are_met_or_have_a_reason(case: dict[str, Any]) -> None:
    tokens = ESTIMATOR.count_request(case["body"]).tokens
    assert tokens == case.get("counted", case["tokens"])
    assert ("reason" in case) == (tokens != case["tokens"])


NAMES = st.sampled_from(["a", "b c", "é", "default", "properties", "$ref", "title", "type"])
TEXTS = st.sampled_from(["", "x", " two\n\n lines \n", "72°F 😀", "a.b/c", '"'])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), TEXTS)
TYPES = st.sampled_from("string number integer boolean null array object file".split())


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(TYPES, st.lists(TYPES, max_size=3), SCALARS),
            "properties": st.one_of(st.dictionaries(NAMES, inner, max_size=3), SCALARS),
            "required": st.one_of(st.lists(NAMES, max_size=3), SCALARS),
            "items": inner,
            "anyOf": st.lists(inner, max_size=3),
            "oneOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "enum": st.lists(SCALARS, max_size=3),
            "const": SCALARS,
            "$ref": st.sampled_from(["#/$defs/A", "#/definitions/B", "#", "", "A"]),
            "$defs": st.fixed_dictionaries({}, optional={"A": inner, "B": inner}),
            "definitions": st.fixed_dictionaries({}, optional={"A": inner, "B": inner}),
            "title": st.one_of(TEXTS, SCALARS),
            "description": st.one_of(TEXTS, SCALARS),
            "default": st.one_of(SCALARS, st.lists(SCALARS, max_size=2)),
            "minimum": SCALARS,
            "exclusiveMaximum": SCALARS,
            "format": TEXTS,
            "additionalProperties": inner,
        },
    )


SCHEMAS = st.recursive(st.one_of(keywords(SCALARS), SCALARS), keywords, max_leaves=12)
MODELS = st.sampled_from(
    "gpt-4o gpt-5 gpt-5.4 gpt-4 o4-mini gpt-3.5-turbo gemini-2.0 gemini-2.5 gemini-3".split()
)


@pytest.mark.slow
@settings(deadline=None)  # the first count loads a vocabulary
@given(SCHEMAS, SCHEMAS, TEXTS, MODELS, st.sampled_from(["chat", "responses"]))
def test_a_request_with_any_schema_obeys_the_laws(
    tool: Any, output: Any, text: str, model: str, api: str
) -> None:
    function = {"name": "f", "description": text, "parameters": tool}
    form = {"name": "n", "description": text, "schema": output}
    message = [{"role": "system", "content": text}, {"role": "user", "content": "hi"}]
    body: dict[str, Any]
    if api == "chat":
        form = {"type": "json_schema", "json_schema": form}
        body = {"messages": message, "response_format": form, "tools": [{"function": function}]}
    else:
        form = {"type": "json_schema", **form}
        body = {"input": message, "text": {"format": form}, "tools": [function]}
    Laws().check({"model": model, **body}, {"role": "assistant", "content": text}, (900, 9, 3))


CALLS = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": TEXTS, "arguments": st.sampled_from(["{}", "x"])})}
)
HISTORY = st.lists(
    st.one_of(
        st.builds(
            lambda calls: {"role": "assistant", "content": None, "tool_calls": calls},
            st.lists(CALLS, max_size=3),
        ),
        st.builds(lambda text: {"role": "tool", "content": text}, TEXTS),
        st.builds(lambda text: {"role": "user", "content": text}, TEXTS),
        st.just({"type": "function_call", "id": "fc", "name": "f", "arguments": "{}"}),
        st.just({"type": "function_call_output", "output": '{"a": [1, 2.50]}'}),
        st.just({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}),
    ),
    max_size=8,
)


@settings(deadline=None)  # the first count loads a vocabulary
@given(HISTORY, MODELS, st.sampled_from(["messages", "input"]))
def test_a_request_with_any_history_obeys_the_laws(
    history: list[Any], model: str, field: str
) -> None:
    Laws().check(
        {"model": model, field: history}, {"role": "assistant", "content": "so"}, (9, 9, 3)
    )


@pytest.mark.parametrize(
    ("result", "element"),
    [('{"a":[1,2]}', '{"a": [1, 2]}'), ("18.50", "18.5"), ("72°F", '"72\\u00b0F"'), ("", '""')],
)
def test_results_of_parallel_calls_are_one_array(result: str, element: str) -> None:
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in "fg"]
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": result},
        {"role": "tool", "content": result},
    ]
    tokens = ESTIMATOR.count_request({"model": "gpt-4o", "messages": messages}).message_tokens
    frame = ESTIMATOR.estimate_message({"role": "user", "content": "x"}, "gpt-4o") - 1
    assert tokens[2] == frame + count_tokens(f"[{element},")
    assert tokens[3] == count_tokens(f" {element}]")


def test_tools_that_an_item_adds_stand_in_a_block_of_their_own() -> None:
    tool = {"type": "function", "name": "get_time", "description": "Tells the time."}
    item = {"type": "additional_tools", "role": "developer", "tools": [tool]}
    estimator = tokenctx.HybridTokenEstimator(learning=False)

    def context(*items: Any, **fields: Any) -> int:
        body = {"input": [{"role": "user", "content": "hi"}, *items], **fields}
        count = estimator.count_request(body, model="gpt-5.6", dialect="openai-responses")
        return int(count.context_tokens)

    added, listed = context(item) - context(), context(tools=[tool]) - context()
    assert added - listed > 70
    assert context(item, tools=[tool]) == context() + added + listed
    assert context({**item, "tools": None}) == context({**item, "tools": "x"}) == context()
