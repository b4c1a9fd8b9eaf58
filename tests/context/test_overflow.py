"""An error of any provider about a context that was too long, as two numbers."""

from __future__ import annotations

import json
from importlib import resources
from types import SimpleNamespace
from typing import Any

import anthropic
import openai
import pytest

from tokenctx import ContextWindow
from tokenctx.context import ContextOverflow, parse_overflow

TABLE = json.loads(
    resources.files("tokenctx").joinpath("data").joinpath("overflow_errors.json").read_bytes()
)
MESSAGE = "prompt is too long: 210000 tokens > 200000 maximum"


@pytest.mark.parametrize("row", TABLE["errors"], ids=lambda row: row["provider"])
def test_every_form_gives_its_numbers(row: dict[str, Any]) -> None:
    numbers = (row["actual_tokens"], row["limit_tokens"])
    for error in (row["example"], row["example"].upper(), ValueError(row["example"])):
        found = parse_overflow(error)
        assert found is not None
        assert (found.actual_tokens, found.limit_tokens) == numbers
    wrapped = {"error": {"message": f"400 Bad Request: {row['example']} (request 1)"}}
    assert parse_overflow(json.dumps(wrapped).encode()) is not None


@pytest.mark.parametrize(
    "error",
    [
        "Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10000, Requested 12345",
        "Invalid API key",
        "",
        None,
        7,
        {"error": {"message": "overloaded"}},
        KeyError("context"),
    ],
)
def test_another_error_is_none(error: object) -> None:
    assert parse_overflow(error) is None


def test_exceptions_of_sdks() -> None:
    body = {"error": {"message": MESSAGE, "type": "invalid_request_error"}}
    response: Any = SimpleNamespace(request=None, status_code=400, headers={})
    for error in (
        anthropic.BadRequestError("Error code: 400", response=response, body=body),
        openai.BadRequestError("Error code: 400", response=response, body=body),
    ):
        assert parse_overflow(error) == ContextOverflow(210_000, 200_000, "anthropic")


def test_an_exception_without_a_text_says_nothing() -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError

    assert parse_overflow(Mute()) is None


def test_a_long_error_is_read_to_a_bound() -> None:
    assert parse_overflow("x" * 1_000_000 + MESSAGE) is None
    assert parse_overflow("9" * 10_000_000) is None
    huge = parse_overflow(f"prompt is too long: {'9' * 400} tokens > 200000 maximum")
    assert huge == ContextOverflow(None, 200_000, "anthropic")


def test_the_numbers_are_the_truth_from_now_on() -> None:
    request = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "hi"}]}
    window = ContextWindow("claude-sonnet-4-5")
    assert window.record_overflow("connection reset", request) is None
    found = window.record_overflow(f"{MESSAGE.replace('200000', '180000')}", request)
    assert found == ContextOverflow(210_000, 180_000, "anthropic")
    usage = window.usage(request)
    assert (usage.total_tokens, usage.window_tokens) == (210_000, 180_000)
    assert usage.limits.source == "error"
    assert usage.should_compact
    window.switch_model("claude-opus-4-5")
    assert window.limits().window_tokens == 200_000
