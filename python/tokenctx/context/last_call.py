"""The numbers of the last call of a conversation, and how good the estimate before it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tokenctx.context.usage import CalculationBasis

if TYPE_CHECKING:
    from tokenctx._results.estimates import Estimate
    from tokenctx.context.thresholds import Threshold
    from tokenctx.context.usage import ContextCounts
    from tokenctx.usage.normal import Usage


OTHER_HISTORY: Final = frozenset(("edited_history", "changed_context"))
"""Assumed where a total is the difference to another history than that of the last call."""


@dataclass(slots=True)
class LastCall:
    """The last bill; None where nothing is known.

    Attributes:
        pending_tokens: What a caller that counts by itself expects of the next call.
        threshold: What was decided by last.
        error: The estimate before the last call less its bill, in tokens and in percent of it.
    """

    input_tokens: int | None = None
    output_tokens: int = 0
    reasoning_tokens: int = 0
    pending_tokens: int | None = None
    threshold: Threshold | None = None
    error: tuple[int, float] | None = None

    def update(self, billed: Usage, expected_tokens: int | None) -> None:
        """Know a call from now on, and how good the estimate before it was, if there was one."""
        if expected_tokens is not None:
            error = expected_tokens - billed.input_tokens
            self.error = error, 100 * error / billed.input_tokens
        self.pending_tokens = None
        self.input_tokens = billed.input_tokens
        self.output_tokens, self.reasoning_tokens = billed.output_tokens, billed.reasoning_tokens

    def counts(self, counts: ContextCounts, new_tokens: int | None) -> ContextCounts:
        """`counts` with this call and `new_tokens` since then."""
        if self.input_tokens is None:
            return counts
        return replace(
            counts,
            last_input_tokens=self.input_tokens,
            last_output_tokens=self.output_tokens,
            new_tokens=new_tokens,
        )

    def known(self, counts: ContextCounts, estimate: Estimate) -> ContextCounts:
        """`counts` with what is known of the prefix, split into the last input and output."""
        if estimate.source == "estimated" or not OTHER_HISTORY.isdisjoint(estimate.assumptions):
            return counts
        known = estimate.known_tokens
        last_input = known if self.input_tokens is None else min(known, self.input_tokens)
        last_output = self._returned_tokens(known - last_input)
        return replace(
            counts,
            last_input_tokens=last_input,
            last_output_tokens=last_output,
            new_tokens=estimate.tokens - last_input - last_output,
        )

    def _returned_tokens(self, most: int) -> int:
        """The output that is in a known total: all of it, all but the reasoning, or none."""
        candidates = (self.output_tokens, self.output_tokens - self.reasoning_tokens)
        return next((tokens for tokens in candidates if 0 <= tokens <= most), 0)

    def basis(self, counts: ContextCounts) -> CalculationBasis:
        """Where the total of `counts` comes from."""
        error, percent = self.error or (None, None)
        if counts.is_estimated:
            return CalculationBasis(
                "estimated", last_error_tokens=error, last_error_percent=percent
            )
        return CalculationBasis(
            "actuals",
            counts.last_input_tokens,
            counts.last_output_tokens,
            counts.new_tokens,
            None if self.input_tokens is None else self.reasoning_tokens,
            error,
            percent,
        )
