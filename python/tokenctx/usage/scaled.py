"""Usage in two measures: as it was billed, and as an agent is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tokenctx._results.result import Result

if TYPE_CHECKING:
    from tokenctx.usage.normal import Usage

Status = Literal["scaled", "exempt", "unknown_window", "larger_window", "equal_window"]


@dataclass(frozen=True, slots=True)
class ScaledUsage(Result):
    """The usage that was billed and the one that an agent sees, side by side.

    Attributes:
        real: As the provider reported it: for logs, bills, `record`.
        adjusted: In the measure of the assumed window, and marked as scaled.
        status: `scaled`, or why the numbers are equal: the model is `exempt`, its window is not
            known (`unknown_window`), as large as the assumed one (`equal_window`) or larger.
        model: As the caller named it.
        real_window_tokens: None if it is not known.
        assumed_window_tokens: What the agent assumes.
    """

    real: Usage
    adjusted: Usage
    status: Status
    model: str
    real_window_tokens: int | None
    assumed_window_tokens: int

    @property
    def normal_usage(self) -> Usage:
        """The real one: what `normalize_usage` and `record` take this for."""
        return self.real
