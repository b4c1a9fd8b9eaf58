"""xAI's calls count as the elements that its models are shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenctx
from request_laws import Laws
from tokenctx import count_tokens

ELEMENTS = [
    ("dice_roll", "{}", '<xai:function_call name="dice_roll">\n</xai:function_call>'),
    (
        "weather",
        '{"latitude":"48.8","days":2}',
        """<xai:function_call name="weather">
<parameter name="latitude">48.8</parameter>
<parameter name="days">2</parameter>
</xai:function_call>""",
    ),
    ("f", "no JSON", '<xai:function_call name="f">\nno JSON</xai:function_call>'),
]


def asked(*calls: tuple[str, str]) -> dict[str, Any]:
    functions = [{"function": {"name": name, "arguments": text}} for name, text in calls]
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": functions},
        *({"role": "tool", "content": "done"} for _ in functions),
    ]
    return {"model": "grok-4-fast", "messages": messages}


@pytest.mark.parametrize(("name", "arguments", "element"), ELEMENTS)
def test_a_call_is_an_element(name: str, arguments: str, element: str) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    frame = estimator.estimate_message({"role": "assistant", "content": "x"}, "grok-4-fast") - 1
    tokens = estimator.count_request(asked((name, arguments))).message_tokens[1]
    assert tokens == frame + count_tokens(element)


def test_recorded_calls_are_counted_to_the_token() -> None:
    """The new part of a step of xAI with two arguments was billed 76 tokens, one without 30."""
    estimator = tokenctx.HybridTokenEstimator()
    body = asked(("best_language_to_learn", "{}"))
    body["messages"][2]["content"] = "Ruby"
    assert sum(estimator.count_request(body).message_tokens[1:]) == 30


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from(["", "f", 'a"b', "é"]), st.text(max_size=12)), max_size=3),
    st.sampled_from(["grok-4-fast", "grok-3-mini", "azure/grok-4-1-fast"]),
)
def test_any_call_obeys_the_laws(calls: Any, model: str) -> None:
    said = {"role": "assistant", "content": "so"}
    Laws().check({**asked(*calls), "model": model}, said, (90, 9, 0))
