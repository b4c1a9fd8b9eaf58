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
    "flat files",
    "images",
    "reasoning replayed",
    "undetermined",
)
"""What was counted may have something of each; flat files are those that a flat price counts."""
APART: Final = ("unknown_model", "unknown_field")
GUESSES: Final = ("builtin_", "remote_", "server_", "unknown_", "unreadable_")
"""Beginnings of the assumptions that make a count undetermined; an unknown model has a row."""
METHODS: Final = frozenset({"universal", "characters"})
"""Profiles of the methods that count every model alike."""
UNKNOWN_MODEL: Final = "unknown model"
UNMEASURED: Final = (500, 2000, 20)
FLAT: Final = "flat_"
"""Beginning of the assumptions of a file that is not counted by what is in it."""
OPAQUE: Final = "opaque_reasoning"
"""Assumed if an encrypted blob is counted by its length."""


def table() -> dict[str, Any]:
    """The rows of `bounds.json`."""
    rows: dict[str, Any] = package_table("bounds")
    return rows


def scope_after(known_tokens: int, new: Iterable[View]) -> Scope:
    """The scope of new messages after so many billed tokens."""
    has_answer = any(message["role"] == "assistant" for message in new)
    return "answer" if has_answer and known_tokens >= LONG_TOKENS else "new"


def strata_of(request: View, start: int, assumptions: Iterable[str]) -> list[str]:
    """The strata of all of `request`, or of its messages from `start` on if that is above 0."""
    names = frozenset(assumptions)
    if is_guessed(names):
        return ["undetermined"]
    parts = [part for message in request["messages"][start:] for part in message["parts"]]
    found = {"text"}
    if start == 0:
        parts += request["system"]
        found |= {"tools"} if request["tools"] else set()
        found |= {"structured output"} if request["response_schema"] else set()
    while parts:
        part = parts.pop()
        found.add(_of_part(part))
        parts += part.get("parts", ())
    if "files" in found and any(name.startswith(FLAT) for name in names):
        found = found - {"files"} | {"flat files"}
    if OPAQUE in names:
        found.add("reasoning replayed")
    return sorted(found, key=STRATA.index)


def is_guessed(assumptions: Iterable[str]) -> bool:
    """Whether something had to be guessed that makes a count undetermined."""
    return any(name.startswith(GUESSES) and name not in APART for name in assumptions)


def _of_part(part: View) -> str:
    if part["part"] == "media":
        return "images" if part["kind"] == "image" else "files"
    if part.get("has_documents"):
        return "files"
    kinds = {"tool_call": "tools", "tool_result": "tools"}
    kinds |= dict.fromkeys(("reasoning", "summary"), "reasoning replayed")
    return kinds.get(part["part"], "text")


def row_names(profile: str, provider: str, *, is_known_model: bool) -> tuple[str, str, str]:
    """Rows that may hold the bounds of `profile`, the best first."""
    own = profile if is_known_model or profile in METHODS else UNKNOWN_MODEL
    return own, f"provider {provider}", "all"


def row_of(names: Iterable[str], scope: Scope, stratum: str) -> tuple[int, int, int]:
    """Lower and upper permille, and slack, of the first row that has the stratum."""
    rows = table()[scope]
    found = (rows[name][stratum] for name in names if stratum in rows.get(name, {}))
    low, high, slack = next(found, UNMEASURED)[:3]
    return low, high, slack


def interval(tokens: int, parts: Iterable[tuple[int, tuple[int, int, int]]]) -> tuple[int, int]:
    """The bounds of `tokens`; of the parts that are not billed yet, tokens and row of each.

    A share of a few tokens says little, so a row's permille are of its slack more. What each part
    may be off by is added up and rounded down: a bill is a whole number, so one within the share is
    within the bounds.
    """
    below = above = 0
    for part, (low, high, slack) in parts:
        below += (part + slack) * (1000 - low)
        above += (part + slack) * (high - 1000)
    return max(0, tokens - below // 1000), tokens + above // 1000
