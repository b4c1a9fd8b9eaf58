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
from tokenctx.context.silent import ending
from tokenctx.usage.reading import attribute

MAX_CHARACTERS: Final = 20_000
"""No more of an error is read: messages are short, and what they quote is not."""
MAX_DIGITS: Final = 13
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
            long and have two numbers; and of an answer that has nothing in it.
    """

    actual_tokens: int | None
    limit_tokens: int | None
    provider: str
    is_guessed: bool = False


def parse_overflow(error: object) -> ContextOverflow | None:
    """The facts in `error` about a context that was too long; None if it is about something else.

    `error` is an exception of any SDK, the body of a response, or its text. A limit on tokens per
    minute is something else. An answer may tell it, too, without numbers: by a reason such as
    `model_context_window_exceeded`, or as a guess, if it ended for its length and nothing is in it,
    as those of servers do that cut the input in silence. Never raises; nothing of the text is kept.
    """
    end = ending(error)
    if end is not None and (end.full or (end.is_for_length and end.is_empty)):
        return ContextOverflow(None, None, end.full, is_guessed=not end.full)
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
