"""How near the estimates of an estimator were to the bills: running figures by profile."""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final, Literal

from tokenctx._results.result import Result
from tokenctx.usage.callbacks import Callback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tokenctx._core import DriftRow
    from tokenctx._results.estimates import BillReason, Estimate, Reason, ReplyReason, Source
    from tokenctx.usage.normal import Usage

WARNING_PERCENT: Final = 20.0
"""An estimate that is further off is an event: token counting strategy, gemini-cli."""
_logger = logging.getLogger("tokenctx")

RECENT: Final = 1000
"""Figures are of this many newest calls of a profile."""


@dataclass(frozen=True, slots=True)
class Drift(Result):
    """A provider has begun to count otherwise, as the bills of its calls have told.

    Attributes:
        profile: What the models concerned are counted with.
        provider: Who answers, in the words of the tables; empty if that is not known.
        since: When the first of the surprising bills came, in seconds since the epoch.
        told: When there were enough of them.
        tokens: How much more is billed for a request than before: the median, negative for less.
        percent: The same of what is counted.
        bill_count: Bills that have shown it.
    """

    profile: str
    provider: str
    since: int
    told: int
    tokens: int
    percent: float
    bill_count: int

    @classmethod
    def of(cls, row: DriftRow) -> Drift:
        """The change that the core has found."""
        times = row.since_unix_seconds, row.told_unix_seconds
        return cls(row.profile, row.host, *times, row.tokens, row.permille / 10, row.bills)

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, timezone.utc).isoformat(timespec="seconds")
        where = f"{self.profile} at {self.provider}" if self.provider else self.profile
        return (
            f"{where} has been billed otherwise since {since}: {self.tokens:+,} tokens a request, "
            f"{self.percent:+.1f} %, by {self.bill_count} bills; estimates are corrected as they "
            "come, and their bounds are wider until then"
        )


@dataclass(frozen=True, slots=True)
class AccuracyEvent(Result):
    """A recorded call: what was estimated before it, and what was billed.

    Attributes:
        source: Of the estimate: `exact`, `delta` or `estimated`.
        estimate: All of it: model, dialect, known and new tokens, quality, bounds.
        usage: What was billed, part by part.
        tenant: As the caller named it.
        reply_reason: Why the reply is not known with the request; None if it is, or if there was
            none. docs/usage.md names the reasons.
        drift: The change in how the provider counts that this bill, the last of several, has shown.
        bill_reasons: What was found when the bill was judged. `far_from_count`: it is far outside
            of the bounds of a sure count, so that nothing is learned from it.
            `unknown_usage_field`: `usage.unknown_fields` names counts that no table has.
        is_warning: It was off by more than 20 %.
    """

    profile: str
    source: Source
    estimated_tokens: int
    billed_tokens: int
    estimate: Estimate | None = None
    usage: Usage | None = None
    tenant: str | bytes | None = None
    reply_reason: ReplyReason | None = None
    drift: Drift | None = None
    bill_reasons: tuple[BillReason, ...] = ()

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
        """True if it was off by more than 20 %."""
        return abs(self.error_percent) > WARNING_PERCENT


@dataclass(frozen=True, slots=True)
class NotRecorded(Result):
    """A call that was not recorded, which is false.

    Attributes:
        reason: Why; docs/usage.md says what to do about it.
    """

    reason: Reason

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Accuracy(Result):
    """Figures of the last 1,000 recorded calls of a profile.

    Attributes:
        bias_percent: Mean error; above 0 if estimates are too high.
        mape: Mean absolute error in percent of the bill.
        p95_percent: 19 of 20 calls were off by no more, in percent.
        warning_count: Calls that were off by more than 20 %.
        false_compactions: Calls before which a `ContextWindow` said to compact, and need not have.
        missed_compactions: Calls before which it did not, and should have.
        drifts: The last change in how it counts of each provider that answers with this profile.
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
    drifts: tuple[Drift, ...] = ()


class _Recent:
    """The newest events of one profile; a deque needs no lock, which a fork could copy locked."""

    def __init__(self) -> None:
        self.calls: deque[tuple[int, int]] = deque(maxlen=RECENT)  # estimated, billed
        self.wrong_decisions: deque[Literal["false", "missed"]] = deque(maxlen=RECENT)

    def figures(self, profile: str) -> Accuracy:
        calls, wrong = list(self.calls.copy()), list(self.wrong_decisions.copy())
        percents = [100 * (estimated - billed) / billed for estimated, billed in calls]
        absolute = sorted(map(abs, percents))
        count = max(1, len(calls))
        return Accuracy(
            profile,
            len(calls),
            sum(percents) / count,
            sum(absolute) / count,
            absolute[math.ceil(0.95 * len(absolute)) - 1] if absolute else 0.0,
            calls[-1][0] - calls[-1][1] if calls else 0,
            sum(percent > WARNING_PERCENT for percent in absolute),
            wrong.count("false"),
            wrong.count("missed"),
        )


class AccuracyLog:
    """The errors of an estimator: numbers by profile, no text. Safe between threads."""

    def __init__(self, hook: Callable[[AccuracyEvent], None] | None) -> None:
        self._hook = None if hook is None else Callback("on_accuracy", hook)
        self._profiles: dict[str, _Recent] = {}

    def add(self, event: AccuracyEvent) -> bool:
        """Count `event` in, then call the hook; whether that did not raise."""
        self._of(event.profile).calls.append((event.estimated_tokens, event.billed_tokens))
        if event.drift is not None:
            _logger.warning("%s", event.drift)
        return self._hook is None or self._hook(event)

    def note_compaction(self, profile: str, *, was_said: bool, was_due: bool) -> None:
        """Count a decision that the bill has shown to be wrong."""
        if was_said != was_due:
            self._of(profile).wrong_decisions.append("false" if was_said else "missed")

    def figures(self, drifts: Iterable[Drift] = ()) -> dict[str, Accuracy]:
        """By profile, with what has changed there."""
        changes = list(drifts)
        return {
            name: replace(
                recent.figures(name), drifts=tuple(it for it in changes if it.profile == name)
            )
            for name, recent in self._profiles.copy().items()
        }

    def clear(self) -> None:
        """Forget all figures."""
        self._profiles.clear()

    def _of(self, profile: str) -> _Recent:
        """The events of a profile; there are no more profiles than the estimator has."""
        recent = self._profiles.get(profile)
        return self._profiles.setdefault(profile, _Recent()) if recent is None else recent
