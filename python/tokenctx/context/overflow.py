"""The facts in a provider's error about a context that was too long."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tokenctx._results.estimates import MAX_TOKENS
from tokenctx._results.result import Result
from tokenctx._results.tables import read_json, read_table
from tokenctx.usage.normal import normalize_usage
from tokenctx.usage.reading import attribute

MAX_CHARACTERS: Final = 20_000
"""No more of an error is read: messages are short, and what they quote is not."""
MAX_DIGITS: Final = 13
_REASONS: Final = ("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason")
_FOR_LENGTH: Final = frozenset(
    {"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"}
)
_NUMBERS: Final = re.compile(r"(?<![\w.\-])\d{1,3}(?:,\d{3})+\b|(?<![\w.\-])\d{3,}\b(?!\.\d)")
"""Numbers of three digits and more; no parts of names, versions or fractions."""


@dataclass(frozen=True, slots=True)
class ContextOverflow(Result):
    """A context was too long.

    Attributes:
        actual_tokens: Of the input, as the provider counted it; None if it does not say.
        limit_tokens: The longest context of the model, in its words; None if it does not say.
        provider: Whose wording it is; gateways pass them on. Empty if it is no known wording.
        is_guessed: True if the words are known of no provider, but speak of a context that is too
            long and have two numbers.
    """

    actual_tokens: int | None
    limit_tokens: int | None
    provider: str
    is_guessed: bool = False


def parse_overflow(error: object) -> ContextOverflow | None:
    """The facts in `error` about a context that was too long; None if it is about something else.

    `error` is an exception of any SDK, the body of a response, or its text. A limit on tokens per
    minute is something else. An answer that ended for its length with no output at all is one of a
    server that does not say that the context was too long: a guess without numbers. Never raises;
    nothing of the text is kept.
    """
    if _is_silent(error):
        return ContextOverflow(None, None, "", is_guessed=True)
    text = _text(error)[:MAX_CHARACTERS].replace("\\", "")  # JSON inside of JSON
    patterns, never, loose = _patterns()
    if never.search(text):
        return None
    for provider, pattern in patterns:
        match = pattern.search(text)
        if match is not None:
            found = match.groupdict()
            actual = _number(found, "actual")
            if actual is not None and (tools := _number(found, "tools")):
                actual += tools
            return ContextOverflow(actual, _number(found, "limit"), provider)
    return _guessed(text, loose)


def _is_silent(error: object) -> bool:
    """True for an answer that has used input, has no output and was ended for its length."""
    if isinstance(error, str | bytes | bytearray):
        if len(error) > MAX_CHARACTERS:
            return False
        text = error.encode("utf-8", "replace") if isinstance(error, str) else bytes(error)
        error = read_json(text)[0]
    try:
        dumped = error.model_dump() if hasattr(error, "model_dump") else error
        answer = dict(dumped) if isinstance(dumped, Mapping) else {}
    except Exception:  # a caller's object may raise anything
        return False
    for name in ("choices", "candidates"):
        answers = answer.get(name)
        if isinstance(answers, list) and len(answers) == 1 and isinstance(answers[0], Mapping):
            answer |= answers[0]
    details = answer.get("incomplete_details")
    reasons = [answer.get(name) for name in _REASONS]
    reasons.append(details.get("reason") if isinstance(details, Mapping) else None)
    if not any(isinstance(it, str) and it.lower() in _FOR_LENGTH for it in reasons):
        return False
    usage = normalize_usage(dumped)
    return usage is not None and usage.input_tokens > 0 and usage.output_tokens == 0


def _guessed(text: str, loose: Mapping[str, re.Pattern[str]]) -> ContextOverflow | None:
    """The facts by a looser rule; None if the words are of something else."""
    if loose["never"].search(text):
        return None
    if loose["context"].search(text) is None or loose["too_long"].search(text) is None:
        return None
    digits = (it.replace(",", "") for it in _NUMBERS.findall(text))
    numbers = {int(it) for it in digits if len(it) <= MAX_DIGITS}
    if len(numbers) != 2:
        return None
    limit, actual = sorted(numbers)
    return ContextOverflow(min(actual, MAX_TOKENS), limit, "", is_guessed=True)


def _text(error: object) -> str:
    """The text of an error; of an exception also the body that SDKs keep beside the message."""
    if isinstance(error, bytes | bytearray):
        return bytes(error[: 4 * MAX_CHARACTERS]).decode("utf-8", "replace")
    if isinstance(error, str):
        return error
    if isinstance(error, Mapping | list):
        return _json(error)
    body = attribute(error, "body")
    try:
        message = str(error)
    except Exception:  # an exception whose text cannot be made says nothing
        message = ""
    return f"{message}\n{_json(body)}" if isinstance(body, Mapping) else message


def _json(value: Any) -> str:
    try:
        return json.dumps(value, default=lambda _: None)
    except Exception:  # no JSON, or a caller's object, which may raise anything
        return ""


def _number(found: dict[str, str | None], name: str) -> int | None:
    digits = (found.get(name) or "").replace(",", "")
    if not digits or len(digits) > MAX_DIGITS:
        return None
    return min(int(digits), MAX_TOKENS) or None


@cache
def _patterns() -> tuple[
    list[tuple[str, re.Pattern[str]]], re.Pattern[str], dict[str, re.Pattern[str]]
]:
    table = read_table("overflow_errors")
    patterns = [
        (row["provider"], re.compile(row["pattern"], re.IGNORECASE | re.DOTALL))
        for row in table["errors"]
    ]
    loose = {
        name: re.compile(pattern, re.IGNORECASE)
        for name, pattern in table["loose"].items()
        if name != "about"
    }
    return patterns, re.compile("|".join(table["never"]), re.IGNORECASE), loose
