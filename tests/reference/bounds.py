"""Bounds of a count: how far the bills of recorded calls were from their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from reference.tables import package_table

if TYPE_CHECKING:
    from collections.abc import Iterable

View = dict[str, Any]
"""What was read, as plain JSON values, in the form of `tests/data/requests`."""

Scope = Literal["whole", "new", "reply", "answer"]
"""What is not billed yet: all, the messages after a known prefix, a reply whose output tokens are
known and those after it, or a reply of a long conversation that was not recorded."""
LONG_TOKENS: Final = 8000
"""So many known tokens make a conversation long."""

STRATA: Final = (
    "text",
    "tools",
    "structured output",
    "files",
    "images",
    "reasoning replayed",
    "undetermined",
)
"""What was counted has something of the last of them that fits."""
GUESSES: Final = ("builtin_", "remote_", "server_", "unknown_", "unreadable_")
"""Beginnings of the assumptions that make a count undetermined; an unknown model has a row."""
METHODS: Final = frozenset({"universal", "characters"})
"""Profiles of the methods that count every model alike."""
UNKNOWN_MODEL: Final = "unknown model"
UNMEASURED_PERMILLE: Final = (500, 2000)
SLACK_TOKENS: Final = 20
"""About what rounding and framing weigh."""


def table() -> dict[str, Any]:
    """The rows of `bounds.json`."""
    rows: dict[str, Any] = package_table("bounds")
    return rows


def scope_after(known_tokens: int, new: Iterable[View]) -> Scope:
    """The scope of new messages after so many billed tokens."""
    has_answer = any(message["role"] == "assistant" for message in new)
    return "answer" if has_answer and known_tokens >= LONG_TOKENS else "new"


def stratum_of(request: View, start: int, assumptions: Iterable[str]) -> str:
    """The stratum of all of `request`, or of its messages from `start` on if that is above 0."""
    if is_guessed(assumptions):
        return "undetermined"
    found = {"text", *map(stratum_of_message, request["messages"][start:])}
    if start == 0:
        found.add(stratum_of_context(request))
    return max(found, key=STRATA.index)


def is_guessed(assumptions: Iterable[str]) -> bool:
    """Whether something had to be guessed that makes a count undetermined."""
    return any(name.startswith(GUESSES) and name != "unknown_model" for name in assumptions)


def stratum_of_context(request: View) -> str:
    """The stratum of what stands around the messages."""
    found = {"text", *map(_of_part, request["system"])}
    found |= {"tools"} if request["tools"] else set()
    found |= {"structured output"} if request["response_schema"] else set()
    return max(found, key=STRATA.index)


def stratum_of_message(message: View) -> str:
    """The stratum of one message."""
    found = {"text"}
    pending: list[View] = list(message["parts"])
    while pending:
        part = pending.pop()
        found.add(_of_part(part))
        pending += part.get("parts", ())
    return max(found, key=STRATA.index)


def _of_part(part: View) -> str:
    if part["part"] == "media":
        return "images" if part["kind"] == "image" else "files"
    kinds = {"reasoning": "reasoning replayed", "tool_call": "tools", "tool_result": "tools"}
    return kinds.get(part["part"], "text")


def stratum_in(scope: Scope, stratum: str) -> str:
    """The stratum whose bounds apply: what a reply held that was not recorded is not known."""
    return "text" if scope == "answer" else stratum


def row_names(profile: str, provider: str, *, is_known_model: bool) -> tuple[str, str, str]:
    """Rows that may hold the bounds of `profile`, the best first."""
    own = profile if is_known_model or profile in METHODS else UNKNOWN_MODEL
    return own, f"provider {provider}", "all"


def bounds_permille(names: Iterable[str], scope: Scope, stratum: str) -> tuple[int, int]:
    """Lower and upper bound of the first row that has the stratum."""
    rows, stratum = table()[scope], stratum_in(scope, stratum)
    found = (rows[name][stratum] for name in names if stratum in rows.get(name, {}))
    low, high = next(found, UNMEASURED_PERMILLE)[:2]
    return low, high


def interval(tokens: int, uncertain: int, permille: tuple[int, int]) -> tuple[int, int]:
    """The bounds of `tokens`, of which `uncertain` are not billed yet.

    A share of a few tokens says little, so the bounds are shares of `SLACK_TOKENS` more, rounded
    down: a bill is a whole number, so one within the share is within the bounds.
    """
    low, high = permille
    scale = uncertain + SLACK_TOKENS
    below, above = scale * (1000 - low) // 1000, scale * (high - 1000) // 1000
    return max(0, tokens - below), tokens + above
