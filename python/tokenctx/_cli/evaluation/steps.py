"""Each step of recorded conversations: the next total by three ways, beside what was billed.

(a) what was billed last, what the last answer takes where it was recorded, and a count of what is
new; (b) the whole request counted anew; (c) its characters by four.

Some recordings have a call whose predecessor is there by its total alone. Whether that had another
tool choice, output schema or thinking is not known, so its difference cannot be counted. A gateway
has sent the predecessor and knows, so these steps are summed by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.replay import quantile

if TYPE_CHECKING:
    from tokenctx._cli.evaluation.replay import ReplayedTurn

WAYS: Final = ("formula", "recount", "four_characters")
AFTER_TOTAL: Final = (
    "Steps whose earlier call is recorded by its total alone: its options are not known."
)


@dataclass(slots=True)
class Steps:
    """Sums over steps of one provider.

    `errors` are absolute, in tokens; `percents` likewise, in percent of each bill.
    """

    count: int = 0
    billed_tokens: int = 0
    has_context: bool = True
    errors: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    percents: dict[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})

    def add(self, turn: ReplayedTurn, *, has_context: bool) -> None:
        """Count a turn in."""
        self.count += 1
        self.billed_tokens += turn.billed_tokens
        self.has_context &= has_context
        found = (turn.estimate.tokens, turn.recount_tokens, turn.four_character_tokens)
        for way, tokens in zip(WAYS, found, strict=True):
            error = abs(tokens - turn.billed_tokens)
            self.errors[way] += error
            self.percents[way].append(100 * error / turn.billed_tokens)

    def error_percent(self, way: str) -> float | None:
        """All errors of a way in percent of all bills; None if they are not comparable."""
        if not self.billed_tokens or (way != "formula" and not self.has_context):
            return None
        return 100 * self.errors[way] / self.billed_tokens

    def median_percent(self, way: str) -> float | None:
        """The median error of a step in percent of its bill; None if it is not comparable."""
        if way != "formula" and not self.has_context:
            return None
        return quantile(self.percents[way], 0.5)

    def as_json(self) -> dict[str, Any]:
        """The figures as JSON values."""
        ways = {
            way: {"error_percent": self.error_percent(way), "median": self.median_percent(way)}
            for way in WAYS
        }
        return {"steps": self.count, "billed_tokens": self.billed_tokens, **ways}


@dataclass(slots=True)
class StepReport:
    """Steps by provider: after a call that is recorded whole, and after its total alone."""

    whole: dict[str, Steps] = field(default_factory=dict)
    after_total: dict[str, Steps] = field(default_factory=dict)

    def add(self, provider: str, turn: ReplayedTurn, *, has_context: bool) -> None:
        """Count a turn in, if it goes on from a recorded call."""
        if turn.estimate.source != "estimated":
            by_provider = self.after_total if turn.is_after_total else self.whole
            by_provider.setdefault(provider, Steps()).add(turn, has_context=has_context)

    def as_json(self) -> dict[str, Any]:
        """The figures as JSON values."""
        kinds = {"steps": self.whole, "steps_after_total": self.after_total}
        return {
            kind: {name: steps.as_json() for name, steps in sorted(by_provider.items())}
            for kind, by_provider in kinds.items()
        }
