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
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "You exceeded your current quota of 100000 tokens, you used 123456",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got 300.",
        "string too long. Expected a string with maximum length 1048576, but got 2097152",
        "The model `gpt-4-0314` does not exist, token 123456 and limit 200000",
        "thinking.budget_tokens must be less than max_tokens: 32000 >= 16000",
        "Request timed out after 60000 ms, token limit 200000",
        "Error 429: too many tokens, retry after 120 s",
        "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
        "The context is too long, see https://example.org/docs/12345",
        KeyError("context"),
    ],
)
def test_another_error_is_none(error: object) -> None:
    assert parse_overflow(error) is None


@pytest.mark.parametrize(
    ("error", "numbers"),
    [
        ("input has 131,500 tokens which is more than the context of 131,072", (131_500, 131_072)),
        ("Too many tokens in the prompt: 9000 (limit 8192)", (9_000, 8_192)),
        ("context overflow: prompt 5000, window 4096", (5_000, 4_096)),
        (ValueError("The prompt does not fit: 40000 of 32768"), (40_000, 32_768)),
    ],
)
def test_unknown_words_with_two_numbers_are_a_guess(error: object, numbers: Any) -> None:
    found = parse_overflow(error)
    assert found is not None
    assert (found.actual_tokens, found.limit_tokens) == numbers
    assert (found.provider, found.is_guessed) == ("", True)


@pytest.mark.parametrize(
    "answer",
    [
        {
            "choices": [{"finish_reason": "length", "message": {"content": ""}}],
            "usage": {"prompt_tokens": 8191, "completion_tokens": 0},
        },
        {
            "stop_reason": "max_tokens",
            "usage": {"input_tokens": 9, "output_tokens": 0},
        },
        {"candidates": [{"finishReason": "MAX_TOKENS"}], "usageMetadata": {"promptTokenCount": 9}},
        {"done_reason": "length", "prompt_eval_count": 4096, "eval_count": 0},
    ],
)
def test_an_answer_of_nothing_that_ended_for_its_length_is_an_overflow(
    answer: dict[str, Any],
) -> None:
    expected = ContextOverflow(None, None, "", is_guessed=True)
    assert parse_overflow(answer) == expected
    assert parse_overflow(json.dumps(answer)) == expected
    assert ContextWindow().record_overflow(answer) == expected
    with_output = json.loads(json.dumps(answer).replace('_tokens": 0', '_tokens": 5'))
    with_output = {**with_output, **({"eval_count": 5} if "eval_count" in answer else {})}
    if "candidates" not in answer:
        assert parse_overflow(with_output) is None


def test_a_known_form_is_no_guess() -> None:
    found = parse_overflow(MESSAGE)
    assert found is not None
    assert not found.is_guessed


def test_exceptions_of_sdks() -> None:
    body = {"error": {"message": MESSAGE, "type": "invalid_request_error"}}
    response: Any = SimpleNamespace(request=None, status_code=400, headers={})
    for error in (
        anthropic.BadRequestError("Error code: 400", response=response, body=body),
        openai.BadRequestError("Error code: 400", response=response, body=body),
    ):
        assert parse_overflow(error) == ContextOverflow(210_000, 200_000, "anthropic")


class Hostile:
    """Raises at whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_whatever_it_is_nothing_is_raised() -> None:
    errors: list[object] = ["\udcab 5 tokens", b"\xff\xfe", Hostile(), [], None, 5]
    for error in errors:
        assert parse_overflow(error) is None


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
