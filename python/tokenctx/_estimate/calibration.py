"""RFC 006: one factor on full counts, and conversations known by their length alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenctx._results.estimates import Estimate

SMOOTHING: Final = 0.3
"""Weight of the newest correction."""


@dataclass(slots=True)
class Calibration:
    """The state of `calibrate`: the factor, and tokens and messages of the last call."""

    factor: float = 1.0
    last_call: tuple[int, int] = (0, 0)

    def update(self, actual_input_tokens: int, message_count: int, estimated_tokens: int) -> float:
        """The factor after one more billed call; counts below 1 change nothing."""
        if actual_input_tokens > 0:
            self.last_call = actual_input_tokens, max(0, message_count)
            if estimated_tokens > 0:
                newest = actual_input_tokens / estimated_tokens
                self.factor += SMOOTHING * (newest - self.factor)
        return self.factor

    def is_extended(self, estimate: Estimate) -> bool:
        """True if `estimate` is taken to be of an extension of the last call."""
        known_count = self.last_call[1]
        return estimate.source == "estimated" and 0 < known_count < estimate.new_message_count

    def extended(self, estimate: Estimate, message_tokens: Sequence[int]) -> Estimate:
        """`estimate` as an extension of the last call, with the tokens of all its messages."""
        known_tokens, known_count = self.last_call
        new = message_tokens[known_count:]
        return replace(
            estimate,
            tokens=known_tokens + sum(new),
            source="delta",
            known_tokens=known_tokens,
            estimated_tokens=sum(new),
            new_message_count=len(new),
            low=known_tokens + sum(new) // 2,
            high=known_tokens + 2 * sum(new),
        )

    def corrected(self, estimate: Estimate) -> Estimate:
        """`estimate` times the factor, if nothing of it is known."""
        if self.factor == 1.0 or estimate.source != "estimated":
            return estimate
        tokens = math.ceil(estimate.tokens * self.factor)
        return replace(
            estimate,
            tokens=tokens,
            estimated_tokens=tokens,
            low=math.floor(estimate.low * self.factor),
            high=math.ceil(estimate.high * self.factor),
        )
