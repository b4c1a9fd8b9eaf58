"""Profiles of a gateway's own, fitted to its logs: what would change, and whether it helps.

The constants of a profile are fitted to recorded calls, shrunk towards those of the package.
Whether that helps is told by calls that the fit has not seen: each half of the conversations is
scored with what the other half tells. What does not help is not kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.evaluation import Scorer, Scores, Unusable, read_call, score_of
from tokenctx._cli.evaluation.fit import CONSTANTS, Reader, Rows, Sample, fitted
from tokenctx._cli.evaluation.logs import LogReader
from tokenctx._estimate.estimator import HybridTokenEstimator
from tokenctx._results.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tokenctx._cli.evaluation.evaluation import RecordedCall

Json = dict[str, Any]

LEAST_CALLS: Final = 20
"""Fewer calls of a profile change nothing."""
GAIN: Final = 0.95
"""The share that the mean error must fall to, so that chance changes nothing."""
OWN: Final = "own "
"""Before the name of a profile whose constants are being fitted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The evidence of the calls of one profile.

    Attributes:
        now: Scores with the profile of the package.
        own: Scores with constants that the other half of the conversations tells.
        changes: Constants that would change: the present value, and the fitted one.
    """

    profile: str
    now: Scores
    own: Scores
    changes: dict[str, tuple[int, int]]

    @property
    def is_better(self) -> bool:
        """True if the fit is nearer to bills that it has not seen."""
        return bool(self.changes) and _distance(self.own) < GAIN * _distance(self.now)

    def row(self) -> Json:
        """The profile with its own constants, for `HybridTokenEstimator(profiles=)`."""
        return {
            "name": self.profile,
            **{constant: value for constant, (_, value) in self.changes.items()},
            "source": f"fitted to {len(self.now):,} calls of own logs",
            "date": datetime.now(timezone.utc).date().isoformat(),
            "confidence": "fitted",
        }


@dataclass(slots=True)
class Logged:
    """The calls read from logs: calls with their estimates, and what was left out."""

    calls: list[tuple[RecordedCall, Sample | None, str]]
    skipped: Counter[str]

    def findings(self) -> list[Finding]:
        """By profile, the most frequent first."""
        by_profile: dict[str, list[tuple[RecordedCall, Sample | None]]] = defaultdict(list)
        for call, sample, profile in self.calls:
            by_profile[profile].append((call, sample))
        ordered = sorted(by_profile.items(), key=lambda item: -len(item[1]))
        return [_finding(profile, calls) for profile, calls in ordered]

    def learned(self, rows: Iterable[Json]) -> Json:
        """The corrections that an estimator with these profiles learns from the calls."""
        estimator = HybridTokenEstimator(profiles=list(rows) or None)
        for call, _, _ in self.calls:
            estimator.record(call.body, call.billed_tokens, **call.names)
        return estimator.learned()


def read_logs(paths: Iterable[Path], advance: Callable[[int], None] = lambda _: None) -> Logged:
    """The calls in logs, each with its estimate. Raises as `LogReader`."""
    scorer, reader = Scorer(), Reader(_bundled())
    logged = Logged([], Counter())
    seen: set[int] = set()
    for path in paths:
        log = LogReader(path, seen)
        for number, record in enumerate(log, 1):
            try:
                call = read_call(number, json.dumps(record).encode())
                estimate = scorer.estimate(call)
            except Unusable as reason:
                logged.skipped[str(reason)] += 1
                continue
            if call.stratum == "undetermined":
                logged.skipped["a request that does not determine its count"] += 1
                continue
            sample = reader.sample(call, estimate)
            logged.calls.append((call, sample, estimate.profile))
            advance(number)
        logged.skipped += log.skipped
    return logged


def _finding(profile: str, calls: list[tuple[RecordedCall, Sample | None]]) -> Finding:
    estimator = Scorer()
    now = Scores()
    for call, _ in calls:
        with suppress(Unusable):
            now.append(score_of(call, estimator.estimate(call)))
    samples = [sample for _, sample in calls if sample is not None]
    if len(samples) < LEAST_CALLS:
        return Finding(profile, now, now, {})
    own = Scores()
    halves = [[it for it in calls if _half(it[0]) == half] for half in (0, 1)]
    for seen, unseen in (halves, halves[::-1]):
        constants = _constants(profile, [sample for _, sample in seen if sample])
        scorer = Scorer(_estimator(profile, constants))
        for call, _ in unseen:
            with suppress(Unusable):
                own.append(score_of(call, scorer.estimate(call)))
    return Finding(profile, now, own, _changes(profile, _constants(profile, samples)))


@functools.cache
def _bundled() -> Rows:
    return Rows({row["name"]: row for row in read_table("profiles")["profiles"]})


def _half(call: RecordedCall) -> int:
    """Calls of one conversation are in one half: they say nearly the same."""
    known = json.dumps(call.known[0] if call.known else call.body, sort_keys=True)[:4000]
    return hashlib.blake2b(known.encode(errors="surrogatepass"), digest_size=1).digest()[0] % 2


def _constants(profile: str, samples: list[Sample]) -> dict[str, int]:
    """The constants that `samples` tell, shrunk towards those of the profile."""
    bundled = _bundled()
    full = bundled.full[profile]
    present = {name: full[name] for name in CONSTANTS if full.get(name) is not None}
    own = {"name": OWN + profile, "like": profile, "models": [], **present, "confidence": "fitted"}
    rows = Rows({**bundled.rows, OWN + profile: own})
    # Each conversation speaks for itself: there is one project alone.
    moved = [replace(it, profile=OWN + profile, project=str(nth)) for nth, it in enumerate(samples)]
    return fitted(rows, moved, [OWN + profile])[OWN + profile]


def _changes(profile: str, constants: dict[str, int]) -> dict[str, tuple[int, int]]:
    full = _bundled().full[profile]
    return {name: (full[name], to) for name, to in constants.items() if full[name] != to}


def _estimator(profile: str, constants: dict[str, int]) -> HybridTokenEstimator:
    return HybridTokenEstimator(profiles={"name": profile, **constants}, learning=False)


def _distance(scores: Scores) -> float:
    """The mean error in percent, each at most 20: an outlier is one call."""
    return sum(min(abs(score.percent), 20.0) for score in scores) / max(1, len(scores))
