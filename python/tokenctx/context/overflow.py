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
from tokenctx._results.tables import read_table

MAX_CHARACTERS: Final = 20_000
"""No more of an error is read: messages are short, and what they quote is not."""
MAX_DIGITS: Final = 13


@dataclass(frozen=True, slots=True)
class ContextOverflow(Result):
    """A context was too long.

    Attributes:
        actual_tokens: Of the input, as the provider counted it; None if it does not say.
        limit_tokens: The longest context of the model, in its words; None if it does not say.
        provider: Whose wording it is; gateways pass them on.
    """

    actual_tokens: int | None
    limit_tokens: int | None
    provider: str


def parse_overflow(error: object) -> ContextOverflow | None:
    """The facts in `error` about a context that was too long; None if it is about something else.

    `error` is an exception of any SDK, the body of a response, or its text. A limit on tokens per
    minute is something else. Never raises; nothing of the text is kept.
    """
    text = _text(error)[:MAX_CHARACTERS].replace("\\", "")  # JSON inside of JSON
    patterns, never = _patterns()
    if never.search(text):
        return None
    for provider, pattern in patterns:
        match = pattern.search(text)
        if match is not None:
            found = match.groupdict()
            return ContextOverflow(_number(found, "actual"), _number(found, "limit"), provider)
    return None


def _text(error: object) -> str:
    """The text of an error; of an exception also the body that SDKs keep beside the message."""
    if isinstance(error, bytes | bytearray):
        return bytes(error[: 4 * MAX_CHARACTERS]).decode("utf-8", "replace")
    if isinstance(error, str):
        return error
    if isinstance(error, Mapping | list):
        return _json(error)
    body = getattr(error, "body", None)
    try:
        message = str(error)
    except Exception:  # an exception whose text cannot be made says nothing
        message = ""
    return f"{message}\n{_json(body)}" if isinstance(body, Mapping) else message


def _json(value: Any) -> str:
    try:
        return json.dumps(value, default=lambda _: None)
    except (TypeError, ValueError, RecursionError):
        return ""


def _number(found: dict[str, str | None], name: str) -> int | None:
    digits = (found.get(name) or "").replace(",", "")
    if not digits or len(digits) > MAX_DIGITS:
        return None
    return min(int(digits), MAX_TOKENS) or None


@cache
def _patterns() -> tuple[list[tuple[str, re.Pattern[str]]], re.Pattern[str]]:
    table = read_table("overflow_errors")
    patterns = [
        (row["provider"], re.compile(row["pattern"], re.IGNORECASE | re.DOTALL))
        for row in table["errors"]
    ]
    return patterns, re.compile("|".join(table["never"]), re.IGNORECASE)
