"""Running figures of estimators, for exporters: counters and histograms in plain Python."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol, get_args
from weakref import WeakSet

from tokenctx._core import model_name
from tokenctx._estimate import metric_table as table
from tokenctx._results.estimates import Dialect
from tokenctx._results.tables import DASHES, read_table
from tokenctx.usage.callbacks import Callback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tokenctx._estimate.accuracy import AccuracyEvent, Drift, NotRecorded
    from tokenctx._estimate.metric_table import Instrument
    from tokenctx._results.estimates import Estimate
    from tokenctx.usage.normal import Usage

Labels = tuple[str, ...]
Value = float | list[float]
"""A number; of a histogram the counts by bucket, the last beyond all bounds, and then the sum."""
Snapshot = dict[str, dict[Labels, Value]]
"""All values by the name of their instrument and by their labels, in the order of its labels."""
Measured = tuple["Instrument", float, Labels]

_DIALECTS: Final = frozenset(get_args(Dialect))
_SOURCES: Final = {name: (name,) for name in ("exact", "delta", "estimated")}
_NONE: Final[Labels] = ()
_ALIVE: Final[WeakSet[Metrics]] = WeakSet()


class Kept(Protocol):
    """An estimator, as far as it is read whenever somebody looks."""

    def stats(self) -> dict[str, int]:
        """As `HybridTokenEstimator.stats`."""
        ...

    def shared_state(self) -> dict[str, tuple[float, str]]:
        """As `HybridTokenEstimator.shared_state`."""
        ...

    def drifts(self) -> Iterable[Drift]:
        """As `HybridTokenEstimator.drifts`."""
        ...


class Metrics:
    """Counts what estimators do: `HybridTokenEstimator(metrics=Metrics())`.

    One may serve several estimators of a process. Safe between threads and after a fork, which
    goes on from a copy. Memory is bounded: a metric has at most 200 sets of labels, and what comes
    later is `other`. No label holds a tenant, or anything that a client wrote: a model is a name
    of the package's tables. `tokenctx.integrations.metrics` exports it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of signals may estimate too
        self._values: dict[str, dict[Labels, Value]] = {
            it.name: {} for it in table.INSTRUMENTS if not it.is_observed
        }
        self._estimators: WeakSet[Kept] = WeakSet()
        self._listeners: tuple[Callback[Measured], ...] = ()
        _ALIVE.add(self)

    def count_refused(self, dialect: str) -> None:
        """Count a request that was refused for its size; an unknown dialect is `other`."""
        self._add(((table.REFUSED, 1, (dialect if dialect in _DIALECTS else table.OTHER,)),))

    def count_budgeted(self, outcome: str, budget: str) -> None:
        """Count a request under budgets; `budget` is the name of that which refuses it."""
        self._add(((table.BUDGETED, 1, (outcome, budget)),))

    def count_call(self, outcome: str) -> None:
        """Count a call of a gateway by a name of its statistics."""
        self._add(((table.MISSED, 1, (outcome,)),))

    def count_failure(self, stage: str) -> None:
        """Count a failure of ours that let a call go on, such as an estimate that raised.

        `stage` is a word of the program that calls, never of a request: `estimate`, `stream`, ...
        """
        self._add(((table.FAILURES, 1, (stage,)),))

    def count_estimate(self, estimate: Estimate, seconds: float) -> None:
        """Count an answer, and the time that it took; estimators call this."""
        tokens, by_source = estimate.tokens, _SOURCES[estimate.source]
        share = estimate.known_tokens / tokens if tokens > 0 else 0.0
        self._add(
            (
                (table.ESTIMATES, 1, (estimate.source, estimate.quality)),
                (table.ESTIMATE_SECONDS, seconds, _NONE),
                (table.REQUEST_TOKENS, tokens, _NONE),
                (table.KNOWN_SHARE, share, _NONE),
                (table.ESTIMATED_TOKENS, tokens, by_source),
            )
        )

    def count_record(
        self, event: AccuracyEvent | NotRecorded, provider: str | None, seconds: float
    ) -> None:
        """Count a call that was recorded or not, and the time of that; estimators call this."""
        if not event:
            self._add(((table.RECORDS, 1, (event.reason,)),))  # type: ignore[union-attr]
            return
        self._add(_recorded(event, provider, seconds))  # type: ignore[arg-type]

    def attach(self, estimator: Kept) -> None:
        """Read what `estimator` keeps whenever somebody looks; estimators call this."""
        self._estimators.add(estimator)

    def listen(self, listener: Callable[[Measured], object]) -> None:
        """Call `listener` with each value of a histogram as it comes: for exporters.

        It is called in the thread of the estimate. When it raises, that is logged once.
        """
        with self._lock:
            self._listeners = (*self._listeners, Callback("a listener of metrics", listener))

    def snapshot(self) -> Snapshot:
        """A copy of all values, and what the estimators keep now."""
        with self._lock:
            values: Snapshot = {
                name: {
                    labels: value.copy() if isinstance(value, list) else value
                    for labels, value in series.items()
                }
                for name, series in self._values.items()
            }
        for instrument, labels, number in self._observed():
            series = values.setdefault(instrument.name, {})
            before = series.get(labels, 0)
            assert not isinstance(before, list)  # noqa: S101  # no histogram is observed
            series[labels] = merged(instrument, before, number) if labels in series else number
        return values

    def _observed(self) -> Iterable[tuple[Instrument, Labels, float]]:
        for estimator in list(self._estimators):
            yield from _kept(estimator.stats())
            for operation, (seconds, reason) in estimator.shared_state().items():
                yield table.STORE_UP, (operation,), float(not reason)
                yield table.STORE_STOPPED, (operation, reason), seconds
            for drift in estimator.drifts():
                yield table.DRIFT, (drift.profile, drift.provider), drift.percent / 100
        for name, made in _table_days():
            yield table.TABLE_AGE, (name,), max(0.0, time.time() - made)

    def _add(self, measured: Iterable[Measured]) -> None:
        """Count all of `measured` in at once, then tell the listeners of histograms."""
        with self._lock:
            for instrument, number, labels in measured:
                series = self._values[instrument.name]
                value = series.get(labels)
                if value is None:
                    value, labels = _new(instrument, series, labels)  # noqa: PLW2901
                if isinstance(value, list):
                    value[bisect_left(instrument.buckets, number)] += 1
                    value[-1] += number
                else:
                    series[labels] = value + number
        if self._listeners:
            for each in measured:
                if each[0].buckets:
                    for listener in self._listeners:
                        listener(each)


def merged(instrument: Instrument, one: float, other: float) -> float:
    """One number of two processes or estimators: sums; the worst state of a store."""
    if instrument is table.STORE_UP:
        return min(one, other)
    if instrument is table.DRIFT:
        return max(one, other, key=abs)
    return max(one, other) if instrument in (table.STORE_STOPPED, table.TABLE_AGE) else one + other


def known_model(model: str) -> str:
    """The longest name of the package's table that `model` is or continues, or `other`."""
    name, known = model_name(model).translate(DASHES), _known_models()
    while name not in known:
        name, dash, _ = name.rpartition("-")
        if not dash:
            return table.OTHER
    return name


def _new(
    instrument: Instrument, series: dict[Labels, Value], labels: Labels
) -> tuple[Value, Labels]:
    """The value of labels that are new, and these, or `other` where there are too many."""
    if len(series) >= table.MAX_SERIES:
        labels = (table.OTHER,) * len(labels)
    empty: Value = [0.0] * (len(instrument.buckets) + 2) if instrument.buckets else 0.0
    return series.setdefault(labels, empty), labels


def _recorded(event: AccuracyEvent, provider: str | None, seconds: float) -> Iterable[Measured]:
    estimated, billed = event.estimated_tokens, event.billed_tokens
    model = table.OTHER if event.estimate is None else known_model(event.estimate.model)
    by = (event.profile, model)
    direction = "exact" if estimated == billed else "over" if estimated > billed else "under"
    found: list[Measured] = [
        (table.RECORDS, 1, ("recorded",)),
        (table.RECORD_SECONDS, seconds, _NONE),
        (table.BILLED_TOKENS, billed, by),
        (table.FORETOLD_TOKENS, estimated, by),
        (table.ERROR, abs(estimated - billed) / billed, (*by, direction)),
    ]
    found += [(table.DOUBTED, 1, (reason,)) for reason in event.bill_reasons]
    if event.reply_reason is not None:
        found.append((table.REPLIES, 1, (event.reply_reason.removeprefix("reply_"),)))
    if event.usage is not None and event.estimate is not None:
        found += _billed(event.usage, (provider or event.estimate.model, event.estimate.dialect))
    return found


def _billed(usage: Usage, answers: tuple[str, str]) -> Iterable[Measured]:
    """The billed tokens, by the GenAI conventions."""
    by = ("chat", _genai_provider(*answers))
    numbers = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read.input_tokens": usage.cache_read_tokens,
        "cache_write.input_tokens": usage.cache_write_tokens,
        "reasoning.output_tokens": usage.reasoning_tokens,
    }
    for name, number in numbers.items():
        yield table.GENAI_COUNTERS[name], number, (*by, "unknown")
    for name, histogram in table.GENAI_HISTOGRAMS.items():
        yield histogram, numbers[name], by


def _genai_provider(name: str, dialect: str) -> str:
    """Who answers: the provider that the caller names or the model begins with, else by dialect."""
    word = name.partition("/")[0].lower().replace("-", "_")
    provider = table.GENAI_PROVIDERS.get(_provider_words().get(word, ""))
    return provider or table.GENAI_DIALECTS.get(dialect, "openai")


def _kept(stats: dict[str, int]) -> Iterable[tuple[Instrument, Labels, float]]:
    for instrument, name in (
        (table.KNOWN_PREFIXES, "known_prefixes"),
        (table.KNOWN_BYTES, "used_bytes"),
        (table.CAPACITY_BYTES, "capacity_bytes"),
    ):
        yield instrument, _NONE, stats[name]
    for result, name in (("hit", "lookup_hits"), ("miss", "lookup_misses")):
        yield table.LOOKUPS, (result,), stats[name]
    for why in ("superseded", "evicted", "expired"):
        yield table.DROPPED, (why,), stats[why]
    for outcome in ("taken", "refused", "late", "written", "dropped"):
        if f"shared_{outcome}" in stats:
            yield table.STORE_VALUES, (outcome,), stats[f"shared_{outcome}"]


@cache
def _known_models() -> frozenset[str]:
    return frozenset(read_table("limits")["models"])


@cache
def _provider_words() -> dict[str, str]:
    words: dict[str, str] = read_table("profiles")["providers"]
    return {**{name: name for name in table.GENAI_PROVIDERS}, **words}


@cache
def _table_days() -> tuple[tuple[str, float], ...]:
    """When the tables were made, in seconds since the epoch."""
    days = ((name, str(read_table(name)["updated"])) for name in ("limits", "profiles"))
    epoch = date(1970, 1, 1)
    return tuple((name, (date.fromisoformat(day) - epoch).days * 86_400.0) for name, day in days)


def _renew_locks() -> None:
    """Another thread may have held one at the fork."""
    for metrics in list(_ALIVE):
        metrics._lock = threading.RLock()  # noqa: SLF001  # ours


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
