"""Billed tokens, out of whatever a provider or its SDK calls usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_USAGE_FIELDS: Final = (
    "usage",
    "usageMetadata",
    "usage_metadata",
    "amazon-bedrock-invocationMetrics",
    "billed_units",
)
"""Where the counts are in a body; the last is Cohere's, inside of its usage."""
_INPUT_FIELDS: Final = (
    "prompt_tokens",
    "input_tokens",
    "inputTokens",
    "promptTokenCount",
    "prompt_token_count",
    "prompt_eval_count",
    "inputTokenCount",
    "total_input_tokens",
)
_OUTPUT_FIELDS: Final = (
    "completion_tokens",
    "output_tokens",
    "outputTokens",
    "candidatesTokenCount",
    "candidates_token_count",
    "eval_count",
    "outputTokenCount",
    "total_output_tokens",
)
_BESIDE_INPUT: Final = (
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
)
"""Anthropic and Bedrock: cached tokens stand beside the input, not inside of `prompt_tokens`."""
_BESIDE_OUTPUT: Final = ("thoughtsTokenCount", "thoughts_token_count", "total_thought_tokens")
"""Gemini: thoughts stand beside the candidates."""
_DETAILS: Final = ("completion_tokens_details", "output_tokens_details", "outputTokensDetails")

MAX_TOKENS: Final = 2**40
"""What a larger number is cut to: no call has so many tokens, and sums of it stay in 64 bits."""


class Billed(NamedTuple):
    """Input with all that was cached; output with all reasoning; that reasoning."""

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int


def read_billed(usage: object) -> Billed:
    """The billed tokens in `usage`: a number, a usage object, or a body that has one.

    What is missing or null counts as 0, a number above `MAX_TOKENS` as that.
    """
    if isinstance(usage, int):
        return Billed(_number(usage), 0, 0)
    fields = _fields(usage)
    for name in _USAGE_FIELDS:
        if fields.get(name) is not None:
            fields = _fields(fields[name])
    details = next((_fields(fields[name]) for name in _DETAILS if fields.get(name)), {})
    beside = _total(fields, _BESIDE_OUTPUT)
    inside = _first(details, ("reasoning_tokens", "thinking_tokens", "reasoningTokens"))
    cached = 0 if fields.get("prompt_tokens") else _total(fields, _BESIDE_INPUT)
    return Billed(
        _first(fields, _INPUT_FIELDS) + cached,
        _first(fields, _OUTPUT_FIELDS) + beside,
        beside + inside,
    )


def _fields(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "model_dump"):
        dumped: Mapping[str, Any] = value.model_dump()
        return dumped
    return vars(value) if hasattr(value, "__dict__") else {}


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> int:
    return next((_number(fields[name]) for name in names if fields.get(name) is not None), 0)


def _total(fields: Mapping[str, Any], names: tuple[str, ...]) -> int:
    return sum(_number(fields.get(name)) for name in names)


def _number(value: object) -> int:
    return min(max(0, value), MAX_TOKENS) if isinstance(value, int) else 0
