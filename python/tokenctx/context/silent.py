"""Answers of servers that do not say that the context was too long: nothing is in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tokenctx._results.tables import read_json
from tokenctx.usage.normal import normalize_usage

MAX_CHARACTERS: Final = 1 << 20
"""A longer text is read as no answer."""
REASONS: Final = (
    *("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason", "stop_type"),
    "reason",
)
FOR_LENGTH: Final = frozenset(
    {"length", "maxtokens", "maxoutputtokens", "maxpredictedtokensreached"}
)
"""Reasons that say that an answer is as long as it may be, without `_` and in small letters."""
FULL: Final = {"modelcontextwindowexceeded": "anthropic", "contextlengthreached": "lm-studio"}
"""Reasons that say that the context is full, and whose words they are."""
INSIDE: Final = ("choices", "candidates")
HOLDERS: Final = ("incomplete_details", "stats", "output", "message", "content", "delta")
TEXTS: Final = frozenset(
    {
        *("content", "text", "response", "reasoning", "reasoning_content", "thinking", "refusal"),
        *("arguments", "partial_json", "data", "summary", "input", "message", "parts", "output"),
    }
)
"""Members of an answer in which a model says something."""
CALLS: Final = frozenset({"tool_calls", "function_call", "functionCall", "toolUse", "tool_use"})
MOST_LEVELS: Final = 8
MOST_ITEMS: Final = 64
"""Levels and members that are looked through; an answer with more has something in it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an answer ended.

    Attributes:
        full: Whose word for a full context it has; empty if it says nothing of it.
        is_for_length: True if it ended because it was as long as it may be.
        is_empty: True if there is no text and no call in it: at most one token of output.
    """

    full: str
    is_for_length: bool
    is_empty: bool
    input_tokens: int
    output_tokens: int


def ending(answer: object) -> Ending | None:
    """How `answer` ended: a response of an SDK, its body, or its text; None for all else.

    None too for several answers at once. Never raises.
    """
    try:
        found = _members(answer)
        return None if found is None else _ending(found)
    except Exception:  # a caller's object may raise anything
        return None


def _ending(found: Mapping[str, Any]) -> Ending | None:
    answers = [found]
    for name in INSIDE:
        inside = found.get(name)
        if isinstance(inside, list) and len(inside) == 1 and isinstance(inside[0], Mapping):
            answers.append(inside[0])
    answers += [it[name] for it in answers for name in HOLDERS if isinstance(it.get(name), Mapping)]
    usage = normalize_usage(found)
    if usage is None or usage.input_tokens <= 0:
        return None
    words = [it.get(name) for it in answers for name in REASONS]
    reasons = [it.replace("_", "").lower() for it in words if isinstance(it, str)]
    full = next((FULL[it] for it in reasons if it in FULL), "")
    if found.get("truncated") is True and "limit" in reasons:
        full = "llama.cpp"
    is_for_length = any(it in FOR_LENGTH for it in reasons) or "limit" in reasons
    output = usage.output_tokens
    is_empty = output == 0 or (output == 1 and not _says(found, 0))
    return Ending(full, is_for_length, is_empty, usage.input_tokens, output)


def _members(answer: object) -> Mapping[str, Any] | None:
    if isinstance(answer, str | bytes | bytearray):
        if len(answer) > MAX_CHARACTERS:
            return None
        text = answer.encode("utf-8", "replace") if isinstance(answer, str) else bytes(answer)
        answer = read_json(text)[0]
    dumped = answer.model_dump() if hasattr(answer, "model_dump") else answer
    return dict(dumped) if isinstance(dumped, Mapping) else None


def _says(value: object, depth: int) -> bool:
    """True if a model says something in `value`, or if that is too deep or wide to be told."""
    if isinstance(value, str):
        return bool(value)
    if depth > MOST_LEVELS or (isinstance(value, list | Mapping) and len(value) > MOST_ITEMS):
        return True
    if isinstance(value, list):
        return any(_says(it, depth + 1) for it in value if not isinstance(it, str))
    if not isinstance(value, Mapping):
        return False
    if any(value.get(name) for name in CALLS):
        return True
    return any(_says(it, depth + 1) for name, it in value.items() if name in (*TEXTS, *INSIDE))
