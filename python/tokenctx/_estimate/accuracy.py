"""How near the estimates of an estimator were to the bills: running figures by profile."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx._models import Source

WARNING_PERCENT: Final = 20.0
"""An estimate that is further off is an event: token counting strategy, gemini-cli."""
RECENT: Final = 1000
"""Figures are of so many newest calls of a profile."""


@dataclass(frozen=True, slots=True)
class AccuracyEvent:
    """A recorded call: what was estimated before it, and what was billed.

    Attributes:
        source: Of the estimate: `exact`, `delta` or `estimated`.
        is_warning: It was off by more than 20 %.
    """

    profile: str
    source: Source
    estimated_tokens: int
    billed_tokens: int

    @property
    def error_tokens(self) -> int:
        """Estimated less billed."""
        return self.estimated_tokens - self.billed_tokens

    @property
    def error_percent(self) -> float:
        """The error in percent of the bill."""
        return 100 * self.error_tokens / self.billed_tokens

    @property
    def is_warning(self) -> bool:
        """Whether it was off by more than 20 %."""
        return abs(self.error_percent) > WARNING_PERCENT


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Figures of the last 1,000 recorded calls of a profile.

    Attributes:
        bias_percent: Mean error; above 0 if estimates are too high.
        mape: Mean absolute error in percent of the bill.
        p95_percent: 19 of 20 calls were off by no more, in percent.
        warning_count: Calls that were off by more than 20 %.
        false_compactions: Calls before which a `ContextWindow` said to compact, and need not have.
        missed_compactions: Calls before which it did not, and should have.
    """

    profile: str
    call_count: int
    bias_percent: float
    mape: float
    p95_percent: float
    last_error_tokens: int
    warning_count: int
    false_compactions: int
    missed_compactions: int


class _Recent:
    """The newest events of one profile; a deque needs no lock, which a fork could copy locked."""

    def __init__(self) -> None:
        self.events: deque[AccuracyEvent] = deque(maxlen=RECENT)
        self.wrong_decisions: deque[Literal["false", "missed"]] = deque(maxlen=RECENT)

    def figures(self, profile: str) -> Accuracy:
        events, wrong = list(self.events.copy()), list(self.wrong_decisions.copy())
        percents = [event.error_percent for event in events]
        absolute = sorted(map(abs, percents))
        count = max(1, len(events))
        return Accuracy(
            profile,
            len(events),
            sum(percents) / count,
            sum(absolute) / count,
            absolute[math.ceil(0.95 * len(absolute)) - 1] if absolute else 0.0,
            events[-1].error_tokens if events else 0,
            sum(event.is_warning for event in events),
            wrong.count("false"),
            wrong.count("missed"),
        )


class AccuracyLog:
    """What an estimator keeps of its errors: numbers by profile, no text. Safe between threads."""

    def __init__(self, hook: Callable[[AccuracyEvent], None] | None) -> None:
        self._hook = hook
        self._profiles: dict[str, _Recent] = {}

    def note(self, event: AccuracyEvent) -> None:
        """Count `event` in, then call the hook, which may raise."""
        self._of(event.profile).events.append(event)
        if self._hook is not None:
            self._hook(event)

    def note_compaction(self, profile: str, *, was_said: bool, was_due: bool) -> None:
        """Count a decision that the bill has shown to be wrong."""
        if was_said != was_due:
            self._of(profile).wrong_decisions.append("false" if was_said else "missed")

    def figures(self) -> dict[str, Accuracy]:
        """By profile."""
        return {name: recent.figures(name) for name, recent in self._profiles.copy().items()}

    def clear(self) -> None:
        """Forget all figures."""
        self._profiles.clear()

    def _of(self, profile: str) -> _Recent:
        """The events of a profile; there are no more profiles than the estimator has."""
        return self._profiles.setdefault(profile, _Recent())
