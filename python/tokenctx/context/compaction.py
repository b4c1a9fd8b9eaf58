"""The effects of compactions, and when another one is of no use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenctx._results.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

STALL_PERCENT: Final = 5
"""A compaction that saves a smaller part is a stall: opencode's guard against loops, 2026."""


@dataclass(frozen=True, slots=True)
class Compaction(Result):
    """Tokens before and after a compaction."""

    before_tokens: int
    after_tokens: int

    @property
    def saved_tokens(self) -> int:
        """Below 0 if it has made the conversation longer."""
        return self.before_tokens - self.after_tokens

    @property
    def saved_percent(self) -> float:
        """In percent of what was there before; 0 of nothing."""
        return 100 * self.saved_tokens / self.before_tokens if self.before_tokens else 0.0

    @property
    def is_stall(self) -> bool:
        """True if it has saved next to nothing, or less than that."""
        return 100 * self.saved_tokens < STALL_PERCENT * self.before_tokens


def is_stalled(compactions: Sequence[Compaction], total_tokens: int) -> bool:
    """True if the last compaction was a stall, and the conversation is not much shorter by now."""
    if not compactions or not compactions[-1].is_stall:
        return False
    return 100 * total_tokens >= (100 - STALL_PERCENT) * compactions[-1].before_tokens
