"""How full a context window is, with what, and what follows from it: one set of numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenctx._core import _apportioned
from tokenctx._results.result import Result
from tokenctx.context.thresholds import Threshold, usable_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tokenctx._results.estimates import ModelLimits

CategoryName = Literal[
    "system", "tools", "memory", "skills", "framing",
    "user", "assistant", "tool_results", "files", "reasoning", "messages",
]  # fmt: skip
Decision = Literal[
    "continue", "begin_in_background", "compact", "cannot_help", "stalled", "unknown_window"
]

FIXED: Final[tuple[CategoryName, ...]] = ("system", "tools", "memory", "skills", "framing")
"""The parts that are there whatever is said: compaction cannot make it smaller."""
MESSAGES: Final[tuple[CategoryName, ...]] = (
    "user", "assistant", "tool_results", "files", "reasoning", "messages",
)  # fmt: skip
TITLES: Final[dict[CategoryName, str]] = {
    "system": "System prompt",
    "tools": "Tools",
    "memory": "Memory files",
    "skills": "Skills",
    "framing": "Request framing",
    "user": "User messages",
    "assistant": "Assistant messages",
    "tool_results": "Tool results",
    "files": "Files and images",
    "reasoning": "Reasoning",
    "messages": "Messages",
}


@dataclass(frozen=True, slots=True)
class ContextItem(Result):
    """One tool, file or the like in a category; `group` is the server of a tool."""

    name: str
    tokens: int
    group: str = ""


@dataclass(frozen=True, slots=True)
class ContextCategory(Result):
    """Tokens of one kind of content.

    Attributes:
        items: What is in it, if that is known; their tokens sum to `tokens`.
        is_deferred: It is not sent yet, so it is in no sum.
    """

    name: CategoryName
    tokens: int
    items: tuple[ContextItem, ...] = ()
    is_deferred: bool = False

    @property
    def title(self) -> str:
        """The name for people."""
        return TITLES[self.name]


@dataclass(frozen=True, slots=True)
class ContextCounts(Result):
    """The counts of a request before the parts are made to add up; all numbers are tokens.

    Attributes:
        fixed: Counted parts that are no messages, by category.
        messages: Counted messages, by category.
        deferred: Tools that are defined but not sent.
        last_input_tokens: Billed for the last call, cached input included; None if unknown.
        last_output_tokens: Of the last answer, as far as it comes back; None if unknown.
        new_tokens: Counted for what is new since then; None if unknown.
        estimated_tokens: The whole estimate where one of these three is unknown; None: the sum of
            the parts.
    """

    fixed: tuple[ContextCategory, ...] = ()
    messages: tuple[ContextCategory, ...] = ()
    deferred: tuple[ContextCategory, ...] = ()
    last_input_tokens: int | None = None
    last_output_tokens: int | None = None
    new_tokens: int | None = None
    estimated_tokens: int | None = None

    @property
    def is_estimated(self) -> bool:
        """True if the three numbers of the last call are not all known."""
        return None in (self.last_input_tokens, self.last_output_tokens, self.new_tokens)

    @property
    def next_input_tokens(self) -> int:
        """Last input + last output + what is new, or the estimate if one of them is unknown."""
        if not self.is_estimated:
            known = (self.last_input_tokens, self.last_output_tokens, self.new_tokens)
            return sum(number or 0 for number in known)
        if self.estimated_tokens is not None:
            return self.estimated_tokens
        return sum(part.tokens for part in (*self.fixed, *self.messages))


@dataclass(frozen=True, slots=True)
class CalculationBasis(Result):
    """The parts of the total.

    Attributes:
        method: `actuals`: the last call's bill and a count of what is new; `estimated`: a count, of
            the whole or of what an edit or compaction changed.
        last_reasoning_tokens: Of the last answer, whether it comes back or not; None if unknown.
        last_error_tokens: The estimate before the last call less its bill; None if there was none.
        last_error_percent: The same in percent of the bill.
    """

    method: Literal["actuals", "estimated"]
    last_input_tokens: int | None = None
    last_output_tokens: int | None = None
    new_tokens: int | None = None
    last_reasoning_tokens: int | None = None
    last_error_tokens: int | None = None
    last_error_percent: float | None = None


@dataclass(frozen=True, slots=True)
class ContextUsage(Result):
    """How full the window is. Display and decisions read the same fields.

    Attributes:
        total_tokens: The next input.
        categories: Its parts, which sum to it; deferred ones, which are not in it, come last.
        basis: Where the total comes from.
        limits: Of the model.
        threshold: When to compact.
        output_reserve_tokens: Kept free for the answer.
        is_stalled: The last compaction saved next to nothing, and not much has changed since.
        warnings: Names of what does not look right: `counts_above_total`.
        model: As the caller names it; empty if it is not named.
    """

    total_tokens: int
    categories: tuple[ContextCategory, ...]
    basis: CalculationBasis
    limits: ModelLimits
    threshold: Threshold
    output_reserve_tokens: int = 0
    is_stalled: bool = False
    warnings: tuple[str, ...] = ()
    model: str = ""

    @property
    def window_tokens(self) -> int | None:
        """The context window; None if it is unknown."""
        return self.limits.window_tokens or None

    @property
    def fixed_tokens(self) -> int:
        """Tokens that no compaction makes fewer: system prompt, tools, memory, skills, framing."""
        return self._sum(FIXED)

    @property
    def message_tokens(self) -> int:
        """All messages."""
        return self._sum(MESSAGES)

    def _sum(self, names: Sequence[CategoryName]) -> int:
        parts = (part for part in self.categories if not part.is_deferred)
        return sum(part.tokens for part in parts if part.name in names)

    @property
    def usable_tokens(self) -> int | None:
        """The most input: window less reserve, or the model's own limit."""
        return usable_tokens(self.limits, self.output_reserve_tokens)

    @property
    def free_tokens(self) -> int | None:
        """Tokens that are left for the input, at least 0; None if the window is unknown."""
        usable = self.usable_tokens
        return None if usable is None else max(0, usable - self.total_tokens)

    @property
    def buffer_tokens(self) -> int | None:
        """The part of the usable tokens that compaction keeps free; None if that is unknown."""
        usable, tokens = self.usable_tokens, self.threshold.tokens
        return None if usable is None or tokens is None else max(0, usable - tokens)

    @property
    def percent(self) -> float | None:
        """Total in percent of the whole window, reserve included; None if it is unknown."""
        window = self.window_tokens
        return None if window is None else 100 * self.total_tokens / window

    @property
    def decision(self) -> Decision:
        """The step to take before the next call.

        `cannot_help`: what is fixed reaches the threshold alone. `stalled`: compacting again would
        save nothing again.
        """
        if self.window_tokens is None:
            return "unknown_window"
        if not self.threshold.is_reached(self.total_tokens):
            is_begun = self.threshold.is_background_reached(self.total_tokens)
            return "begin_in_background" if is_begun else "continue"
        if self.threshold.is_reached(self.fixed_tokens):
            return "cannot_help"
        return "stalled" if self.is_stalled else "compact"

    @property
    def should_compact(self) -> bool:
        """True if it is time to compact, before the next call."""
        return self.decision == "compact"

    def clamp_max_tokens(self, wanted: int) -> int:
        """The most output that may be asked for: `wanted`, or what model and window leave; >= 0."""
        most = [wanted]
        if self.limits.max_output_tokens:
            most.append(self.limits.max_output_tokens)
        if self.window_tokens is not None:
            most.append(self.window_tokens - self.total_tokens)
        return max(0, min(most))

    def as_json(self) -> dict[str, Any]:
        """All fields and what follows from them, as JSON values."""
        return {
            **asdict(self),
            "fixed_tokens": self.fixed_tokens,
            "message_tokens": self.message_tokens,
            "usable_tokens": self.usable_tokens,
            "free_tokens": self.free_tokens,
            "buffer_tokens": self.buffer_tokens,
            "percent": None if self.percent is None else round(self.percent, 4),
            "decision": self.decision,
        }


def balanced(
    counts: ContextCounts,
) -> tuple[tuple[ContextCategory, ...], tuple[str, ...]]:
    """The categories made to sum to the next input, and warnings.

    What is fixed is as counted; messages are what is left, in the proportions of their
    counts. If the fixed parts alone are more than the total, they are made smaller and no message
    is left: then the counts were too high.
    """
    total = counts.next_input_tokens
    fixed_tokens = sum(part.tokens for part in counts.fixed)
    left = total - fixed_tokens
    warnings = ("counts_above_total",) if left < 0 else ()
    in_order = sorted(counts.fixed, key=lambda part: FIXED.index(part.name))
    fixed = scaled(in_order, min(total, fixed_tokens))
    messages = counts.messages or ((ContextCategory("messages", 0),) if left > 0 else ())
    parts = (*fixed, *scaled(messages, max(0, left)), *counts.deferred)
    return tuple(part for part in parts if part.tokens or part.is_deferred), warnings


def scaled(parts: Iterable[ContextCategory], total: int) -> tuple[ContextCategory, ...]:
    """`parts` in the same proportions, summing to `total`; items likewise."""
    parts = tuple(parts)
    shares = apportioned(total, [part.tokens for part in parts])
    return tuple(
        ContextCategory(part.name, tokens, _scaled_items(part.items, tokens), part.is_deferred)
        for part, tokens in zip(parts, shares, strict=True)
    )


def _scaled_items(items: tuple[ContextItem, ...], total: int) -> tuple[ContextItem, ...]:
    tokens = [item.tokens for item in items]
    shares = apportioned(total, tokens)
    if shares == tokens:
        return items
    return tuple(
        ContextItem(item.name, tokens, item.group)
        for item, tokens in zip(items, shares, strict=True)
    )


def apportioned(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in the proportions of `weights` that sum to `total`, by largest remainder.

    Without any weight the first one takes all. Weights that sum to `total` come back as they are.
    """
    return _apportioned(total, weights)


def categories(counts: Mapping[CategoryName, int]) -> tuple[ContextCategory, ...]:
    """Categories without items, in their usual order."""
    order = (*FIXED, *MESSAGES)
    return tuple(ContextCategory(name, counts[name]) for name in order if name in counts)
