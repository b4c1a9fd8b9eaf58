"""The segments and words of a picture of a context window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenctx.context.usage import apportioned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenctx.context.plans import PrunePlan, RetentionPlan
    from tokenctx.context.usage import ContextItem, ContextUsage, Decision

MARKS: Final = {
    "system": "S", "tools": "T", "memory": "M", "skills": "K", "framing": "f",
    "user": "U", "assistant": "A", "tool_results": "R", "files": "F", "reasoning": "Z",
    "messages": "m", "free": ".", "buffer": "-", "reserve": "=",
}  # fmt: skip
"""Letters for those who see no colours."""
TERMINAL: Final = {
    "system": "blue", "tools": "cyan", "memory": "yellow", "skills": "bright_yellow",
    "framing": "white", "user": "green", "assistant": "bright_cyan", "tool_results": "red",
    "files": "magenta", "reasoning": "bright_magenta", "messages": "green",
    "free": "bright_black", "buffer": "bright_black", "reserve": "bright_black",
}  # fmt: skip
SHADES: Final = {"free": "░", "buffer": "▒", "reserve": "▓"}
"""The shades that a terminal with colours draws in place of a full block."""
DECISIONS: Final[dict[Decision, str]] = {
    "continue": "Go on: below the threshold.",
    "begin_in_background": "Begin to compact beside the work.",
    "compact": "Compact before the next call.",
    "cannot_help": "Compaction cannot help: what is fixed reaches the threshold alone.",
    "stalled": "Stalled: the last compaction saved less than 5 %.",
    "unknown_window": "The window is unknown: never compacts.",
}
WARNINGS: Final = {
    "counts_above_total": "counts of system prompt and tools are above the true total: made smaller"
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the bar, or of what is not in it."""

    name: str
    title: str
    tokens: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans that a compaction could follow now."""

    prune: PrunePlan
    retention: RetentionPlan


def segments(usage: ContextUsage) -> list[Segment]:
    """The parts of the window in order: what is used, free space, buffer, reserve.

    They sum to the window if it is known and nothing is above it.
    """
    found = [
        Segment(part.name, part.title, part.tokens, _about(part.items))
        for part in usage.categories
        if not part.is_deferred
    ]
    if usage.window_tokens is None:
        return found
    left = max(0, usage.window_tokens - usage.total_tokens)
    reserve = min(usage.window_tokens - (usage.usable_tokens or 0), left)
    buffer = min(usage.buffer_tokens or 0, left - reserve)
    rest = (
        Segment("free", "Free space", left - reserve - buffer),
        Segment("buffer", "Auto-compact buffer", buffer),
        Segment("reserve", "Output reserve", reserve),
    )
    return found + [segment for segment in rest if segment.tokens]


def _about(items: Sequence[object]) -> str:
    return f"{len(items):,}" if items else ""


def cells(parts: Sequence[Segment], width: int) -> list[int]:
    """Columns of each segment in a bar of `width`: one at least, the rest by tokens."""
    shown = list(parts[:width])
    if not shown:
        return []
    extra = apportioned(width - len(shown), [part.tokens for part in shown])
    return [1 + more for more in extra]


def item_title(item: ContextItem) -> str:
    """The name behind its server's."""
    if not item.group:
        return item.name
    own = item.name.partition(item.group)[2].lstrip("_-") or item.name
    return f"{item.group}: {own}"


def headline(usage: ContextUsage) -> str:
    """Used and window in one line."""
    if usage.window_tokens is None or usage.percent is None:
        return f"{usage.total_tokens:,} tokens, window unknown"
    return f"{usage.total_tokens:,} / {usage.window_tokens:,} tokens ({usage.percent:.0f} %)"


def basis_lines(usage: ContextUsage) -> Iterator[tuple[str, str]]:
    """Where the total comes from: names and values."""
    basis = usage.basis
    if basis.method == "estimated":
        yield "Total", "estimated: no earlier call was recorded"
    else:
        yield "Last actual input", f"{basis.last_input_tokens:,}"
        yield "Last output", f"{basis.last_output_tokens:,}"
        yield "New since then", f"{basis.new_tokens:,} (estimated)"
    if basis.last_reasoning_tokens:
        yield "Reasoning in last answer", f"{basis.last_reasoning_tokens:,}"
    if basis.last_error_percent is not None:
        percent = round(basis.last_error_percent, 1) or 0.0  # no -0.0
        yield "Last estimate", f"{percent:+.1f} % off"
    if usage.threshold.tokens is not None:
        yield "Threshold", f"{usage.threshold.is_over} {usage.threshold.tokens:,}"
    yield "Limits from", usage.limits.source
    for warning in usage.warnings:
        yield "Warning", WARNINGS.get(warning, warning)


def plan_lines(usage: ContextUsage, plans: Plans) -> Iterator[str]:
    """The decision, and what pruning and a summary would save."""
    yield DECISIONS[usage.decision]
    if usage.usable_tokens is not None and usage.total_tokens > usage.usable_tokens:
        excess = usage.total_tokens - usage.usable_tokens
        yield f"{excess:,} tokens more than the window leaves for the input."
    prune, retention = plans.prune, plans.retention
    if prune.results:
        yield (
            f"Clearing {len(prune.results):,} old tool results saves {prune.saved_tokens:,}: "
            f"next {prune.next_total_tokens:,}."
        )
    if retention.old:
        yield (
            f"Summarising {len(retention.old):,} messages saves {retention.saved_tokens:,}: "
            f"next {retention.next_total_tokens:,} and the summary."
        )
