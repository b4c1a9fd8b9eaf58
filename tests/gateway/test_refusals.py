"""What a gateway answers in a provider's place is what that provider would have answered."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from tokenctx import Estimate, HybridTokenEstimator
from tokenctx.context import ModelLimits, parse_overflow
from tokenctx.convert import Dialect
from tokenctx.gateway import refusal_of

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
QUESTION = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Why?"}]}


def estimated(**fields: Any) -> Estimate:
    """The estimate of a question, with `fields` in place of its own."""
    known = HybridTokenEstimator().estimate(QUESTION)
    values = {name: getattr(known, name) for name in Estimate.__dataclass_fields__}
    return Estimate(**{**values, "tokens": 900, "high": 1100, **fields})


WINDOW = ModelLimits(1000)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_refusal_is_recognised_with_both_of_its_numbers(dialect: Dialect) -> None:
    refusal = refusal_of(dialect, estimated(tokens=1001), limits=WINDOW)
    assert refusal is not None
    overflow = parse_overflow(refusal.body)
    assert overflow is not None
    assert (overflow.actual_tokens, overflow.limit_tokens) == (1001, 1000)
    assert (refusal.status, refusal.headers["content-type"]) == (400, "application/json")
    assert refusal.message in str(json.loads(refusal.body))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_fits_to_the_token_is_not_refused(dialect: Dialect) -> None:
    assert refusal_of(dialect, estimated(tokens=1000), limits=WINDOW) is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_without_a_known_window_nothing_is_refused(dialect: Dialect) -> None:
    for limits in (ModelLimits(), ModelLimits(0)):
        assert refusal_of(dialect, estimated(tokens=10**9), limits=limits) is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_upper_bound_refuses_what_may_be_too_long(dialect: Dialect) -> None:
    refusal = refusal_of(dialect, estimated(), by="high", limits=WINDOW)
    assert refusal is not None
    assert (refusal.input_tokens, refusal.limit_tokens) == (1100, 1000)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_most_input_is_named_where_it_is_less_than_the_window(dialect: Dialect) -> None:
    refusal = refusal_of(dialect, estimated(), limits=ModelLimits(5000, 800))
    assert refusal is not None
    assert refusal.limit_tokens == 800


@pytest.mark.parametrize("dialect", DIALECTS)
def test_output_is_judged_where_the_provider_judges_it(dialect: Dialect) -> None:
    asked = estimated(requested_output_tokens=101)
    refusal = refusal_of(dialect, asked, limits=WINDOW)
    assert (refusal is not None) is (dialect in {"openai-chat", "vscode"})
    assert refusal_of(dialect, asked, limits=WINDOW, output_tokens=100) is None
    forced = refusal_of(dialect, estimated(), limits=WINDOW, output_tokens=101)
    assert forced is not None
    assert (forced.input_tokens, forced.output_tokens) == (900, 101)
    assert parse_overflow(forced.body) is not None


def test_a_stream_of_responses_fails_in_its_events() -> None:
    refusal = refusal_of("openai-responses", estimated(tokens=1001), limits=WINDOW, is_stream=True)
    assert refusal is not None
    assert (refusal.status, refusal.headers["content-type"]) == (200, "text/event-stream")
    events = [json.loads(line[6:]) for line in refusal.body.decode().split("\n") if "data:" in line]
    assert [event["type"] for event in events] == ["error", "response.failed"]
    codes = {events[0]["error"]["code"], events[1]["response"]["error"]["code"]}
    assert codes == {"context_length_exceeded"}


def test_a_typing_error_in_by_is_named() -> None:
    with pytest.raises(ValueError, match="by is 'upper'"):
        refusal_of("anthropic", estimated(), by="upper")  # type: ignore[arg-type]
