"""The metrics of estimators, for Prometheus and OpenTelemetry; docs/operations.md has every name.

`prometheus` needs prometheus-client, `opentelemetry` needs opentelemetry-api; both come with the
extra `metrics`.
"""

from __future__ import annotations

import os
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import __version__
from tokenctx._estimate.metric_table import GENAI, INSTRUMENTS
from tokenctx._estimate.metrics import Metrics
from tokenctx._results.front import own_names
from tokenctx.integrations._processes import Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenctx._estimate.estimator import HybridTokenEstimator
    from tokenctx._estimate.metric_table import Instrument
    from tokenctx._estimate.metrics import Measured, Snapshot

INSTALL: Final = "{} is not installed: pip install 'tokenctx[metrics]'"


def prometheus(
    source: HybridTokenEstimator | Metrics,
    registry: Any = None,
    *,
    genai: bool = True,
    folder: str | os.PathLike[str] | None = None,
) -> Any:
    """A collector of prometheus_client, registered with `registry` if one is given.

    `source` is a `Metrics`, or an estimator that has one. Without `genai` the metrics that are
    named by the GenAI conventions are left out, for who has them from elsewhere. `folder` is where
    the workers of one service leave their numbers once a second, each in a file of its own: then
    each shows those of all, and no count falls from one scrape to the next. It must exist; empty it
    before the service starts. Raises ValueError for an estimator without metrics,
    NotADirectoryError for what is no folder, ImportError without prometheus_client.
    """
    metrics = _metrics_of(source)
    if folder is None:
        return prometheus_of(metrics.snapshot, registry, genai=genai)
    if not os.path.isdir(folder):  # noqa: PTH112
        raise NotADirectoryError(f"folder is {os.fspath(folder)!r}; it must be one that exists")
    return prometheus_of(Processes(metrics, folder).snapshot, registry, genai=genai)


def prometheus_of(
    snapshot: Callable[[], Snapshot], registry: Any = None, *, genai: bool = True
) -> Any:
    """As `prometheus`, of any function that gives a snapshot, such as that of several workers."""
    try:
        from prometheus_client.registry import Collector
    except ImportError:
        raise ImportError(INSTALL.format("prometheus_client")) from None

    class TokenctxCollector(Collector):
        """The metrics of tokenctx, read when they are scraped."""

        def collect(self) -> Iterator[Any]:
            """All families with their samples."""
            return iter(_families(snapshot(), genai=genai))

        def describe(self) -> Iterator[Any]:
            """All families, without reading any number."""
            return iter(_families({}, genai=genai))

    collector = TokenctxCollector()
    if registry is not None:
        registry.register(collector)
    return collector


def opentelemetry(
    source: HybridTokenEstimator | Metrics, meter_provider: Any = None, *, genai: bool = True
) -> list[Any]:
    """The instruments of a meter `tokenctx`, of `meter_provider` or the global one.

    `source` and `genai` as in `prometheus`. Histograms begin with this call, so call it once,
    before the first estimate. Raises ValueError for an estimator without metrics, ImportError
    without opentelemetry-api.
    """
    try:
        from opentelemetry.metrics import get_meter
    except ImportError:
        raise ImportError(INSTALL.format("opentelemetry-api")) from None
    metrics = _metrics_of(source)
    meter = get_meter("tokenctx", __version__, meter_provider)
    histograms: dict[str, Any] = {}
    made: list[Any] = []
    for row in _rows(genai=genai):
        if row.kind == "histogram":
            bounds = list(row.buckets)
            histograms[row.name] = meter.create_histogram(
                row.name, row.unit, row.about, explicit_bucket_boundaries_advisory=bounds
            )
            made.append(histograms[row.name])
        else:
            make = (
                meter.create_observable_counter
                if row.kind == "counter"
                else meter.create_observable_gauge
            )
            made.append(make(row.name, [_observer(metrics, row)], row.unit, row.about))

    def record(measured: Measured) -> None:
        row, number, labels = measured
        if row.name in histograms:
            attributes = dict(zip(row.labels, labels, strict=True))
            histograms[row.name].record(number, attributes)

    metrics.listen(record)
    return made


def _observer(metrics: Metrics, row: Instrument) -> Callable[[Any], Iterable[Any]]:
    """The callback with which OpenTelemetry reads a counter or a gauge."""
    from opentelemetry.metrics import Observation

    def observe(_: Any) -> Iterable[Any]:
        series = metrics.snapshot().get(row.name, {})
        return [
            Observation(value, dict(zip(row.labels, labels, strict=True)))
            for labels, value in series.items()
            if not isinstance(value, list)
        ]

    return observe


def _rows(*, genai: bool) -> list[Instrument]:
    return [row for row in INSTRUMENTS if genai or row not in GENAI]


def _families(snapshot: Snapshot, *, genai: bool) -> Iterator[Any]:
    from prometheus_client import core

    kinds: dict[str, Any] = {
        "counter": core.CounterMetricFamily,
        "gauge": core.GaugeMetricFamily,
        "histogram": core.HistogramMetricFamily,
    }
    for row in _rows(genai=genai):
        family = kinds[row.kind](row.prometheus_name, row.about, labels=row.prometheus_labels)
        for labels, value in snapshot.get(row.name, {}).items():
            if isinstance(value, list):
                family.add_metric(labels, _buckets(row, value), value[-1])
            else:
                family.add_metric(labels, value)
        yield family


def _buckets(row: Instrument, counts: list[float]) -> list[tuple[str, float]]:
    """Bounds and how many values are no larger, as Prometheus has them."""
    bounds = (*map(str, row.buckets), "+Inf")
    return list(zip(bounds, accumulate(counts[:-1]), strict=True))


def _metrics_of(source: HybridTokenEstimator | Metrics) -> Metrics:
    metrics = source if isinstance(source, Metrics) else getattr(source, "metrics", None)
    if not isinstance(metrics, Metrics):
        raise ValueError(  # noqa: TRY004  # an estimator is of the right type
            "this estimator counts nothing; make it with HybridTokenEstimator(metrics=Metrics())"
        )
    return metrics


__all__, __dir__ = own_names(globals())
