"""What estimators count, read back through the real exporters."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator, Metrics, RequestError
from tokenctx._estimate.metric_table import INSTRUMENTS, MAX_SERIES, OTHER
from tokenctx._estimate.metrics import known_model
from tokenctx.integrations.metrics import opentelemetry, prometheus

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
QUESTION = {"role": "user", "content": "Why is the sky blue?"}
BODY: dict[str, Any] = {"model": "gpt-4o-2024-11-20", "messages": [QUESTION]}
USAGE = {"prompt_tokens": 20, "completion_tokens": 9}
CANARY = "canary-of-a-client"


def scraped(source: Any, **options: Any) -> dict[tuple[str, tuple[str, ...]], float]:
    """Samples by name and values of sorted labels, by Prometheus' own text and parser."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.parser import text_string_to_metric_families

    registry = CollectorRegistry()
    prometheus(source, registry, **options)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    samples = [sample for family in families for sample in family.samples]
    found = {(it.name, values_of(it.labels)): it.value for it in samples}
    assert len(found) == len(samples)
    return found


def values_of(labels: dict[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in sorted(labels, key=lambda name: (name == "le", name)))


def worked(**options: Any) -> HybridTokenEstimator:
    """One estimate, its record, a record of nothing."""
    estimator = HybridTokenEstimator(metrics=Metrics(), **options)
    estimator.estimate(BODY)
    estimator.record(BODY, USAGE, reply={"moon": 1})
    estimator.record(BODY, None)
    return estimator


def test_prometheus_reads_what_was_estimated_and_billed() -> None:
    found = scraped(worked())
    by = ("gpt-4o-2024-11-20", "gpt-4o")
    assert found["tokenctx_estimates_total", ("exact", "estimated")] == 1
    assert found["tokenctx_estimated_tokens_total", ("estimated",)] == 13
    assert found["tokenctx_billed_tokens_total", by] == 20
    assert found["tokenctx_billed_estimated_tokens_total", by] == 13
    assert found["tokenctx_records_total", ("recorded",)] == 1
    assert found["tokenctx_records_total", ("no_usage",)] == 1
    assert found["tokenctx_replies_lost_total", ("not_understood",)] == 1
    assert found["tokenctx_known_prefixes", ()] == 2
    assert found["tokenctx_known_capacity_bytes", ()] == 64 << 20
    provider = ("chat", "openai", "unknown")
    assert found["gen_ai_client_inference_usage_input_tokens_total", provider] == 20
    assert found["gen_ai_client_inference_usage_output_tokens_total", provider] == 9


def test_a_histogram_is_cumulative_and_its_sum_is_of_the_values() -> None:
    found = scraped(worked())
    buckets = {
        labels[-1]: value
        for (name, labels), value in found.items()
        if name == "tokenctx_estimate_error_ratio_bucket"
    }
    assert buckets["0.2"] == 0
    assert buckets["0.5"] == buckets["+Inf"] == 1
    labels = ("under", "gpt-4o-2024-11-20", "gpt-4o")
    assert found["tokenctx_estimate_error_ratio_sum", labels] == pytest.approx(7 / 20)
    assert found["tokenctx_estimate_error_ratio_count", labels] == 1
    assert found["tokenctx_known_share_ratio_count", ()] == 1


def test_opentelemetry_reads_the_same() -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    estimator = HybridTokenEstimator(metrics=Metrics())
    made = opentelemetry(estimator, provider)
    estimator.estimate(BODY)
    estimator.record(BODY, USAGE)
    data = reader.get_metrics_data()
    assert data is not None
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    points: dict[str, Any] = {it.name: list(it.data.data_points) for it in metrics}
    units = {it.name: it.unit for it in metrics}
    assert len(made) == len(INSTRUMENTS)
    assert points["tokenctx.estimates"][0].value == 1
    assert dict(points["tokenctx.estimates"][0].attributes) == {
        "source": "estimated",
        "quality": "exact",
    }
    [error] = points["tokenctx.estimate.error"]
    assert (error.count, error.sum) == (1, pytest.approx(7 / 20))
    assert error.attributes["direction"] == "under"
    [billed] = points["gen_ai.client.inference.usage.input_tokens"]
    assert billed.value == 20
    assert dict(billed.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.token.modality": "unknown",
    }
    assert units["tokenctx.estimate.duration"] == "s"
    rows = {row.name: row for row in INSTRUMENTS}
    assert points.keys() <= rows.keys()
    for name, found in points.items():
        assert {tuple(point.attributes) for point in found} == {rows[name].labels}
        if rows[name].buckets:
            assert {point.explicit_bounds for point in found} == {rows[name].buckets}
    provider.shutdown()


def test_both_exporters_have_every_row_of_the_table_and_no_other() -> None:
    from prometheus_client import CollectorRegistry

    collector = prometheus(Metrics(), CollectorRegistry())
    names = [family.name for family in collector.describe()]
    assert names == [row.prometheus_name for row in INSTRUMENTS]
    assert len(set(names)) == len(names)
    without = [family.name for family in prometheus(Metrics(), genai=False).describe()]
    assert without == [name for name in names if not name.startswith("gen_ai")]


def test_the_page_has_every_name_label_and_unit() -> None:
    rows = re.findall(
        r"^\| `([\w.]+)` \| `(\w+)` \| (\w+) \|([^|]*)\|", PAGE.read_text("utf-8"), re.M
    )
    written = {(*names, tuple(re.findall(r"`([\w.]+)`", by))) for *names, by in rows}
    ending = {"counter": "_total"}
    assert len(rows) == len(written)
    assert written == {
        (row.name, row.prometheus_name + ending.get(row.kind, ""), row.kind, row.labels)
        for row in INSTRUMENTS
    }


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4o", "gpt-4o"),
        ("openai/gpt-4o-2099-01-01", "gpt-4o"),
        ("ft:gpt-4o:acme::" + CANARY, "gpt-4o"),
        ("claude-sonnet-4.5", "claude-sonnet-4-5"),
        (CANARY, OTHER),
        ("", OTHER),
    ],
)
def test_a_model_is_a_name_of_the_tables_or_other(model: str, name: str) -> None:
    assert known_model(model) == name


def test_no_label_holds_what_a_client_wrote_nor_a_tenant() -> None:
    estimator = HybridTokenEstimator(metrics=Metrics())
    body = {"model": CANARY, "messages": [{"role": CANARY, "content": CANARY}]}
    estimator.estimate(body, provider=CANARY, tenant=CANARY)
    estimator.record(body, USAGE, provider=CANARY, tenant=CANARY, reply={"content": CANARY})
    with pytest.raises(RequestError):
        estimator.estimate(f'{{"{CANARY}'.encode(), tenant=CANARY)
    assert estimator.metrics is not None
    estimator.metrics.count_refused(CANARY)
    assert CANARY not in repr(estimator.metrics.snapshot())
    assert scraped(estimator)["tokenctx_refused_total", (OTHER,)] == 1


def test_labels_are_bounded() -> None:
    metrics = Metrics()
    for number in range(2 * MAX_SERIES):
        metrics.count_failure(f"stage_{number}")
    series = metrics.snapshot()["tokenctx.failures"]
    assert len(series) == MAX_SERIES + 1
    assert series[OTHER,] == MAX_SERIES


def test_threads_lose_no_count() -> None:
    metrics = Metrics()
    estimator = HybridTokenEstimator(metrics=metrics)

    def work() -> None:
        for _ in range(200):
            estimator.estimate(BODY)
            metrics.count_failure("stream")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = metrics.snapshot()
    assert values["tokenctx.estimates"] == {("estimated", "exact"): 800}
    assert values["tokenctx.failures"] == {("stream",): 800}


def test_every_way_to_estimate_and_record_is_counted() -> None:
    metrics = Metrics()
    estimator = HybridTokenEstimator(metrics=metrics)

    async def run() -> None:
        await estimator.aestimate(BODY)
        await estimator.arecord(BODY, USAGE)

    asyncio.run(run())
    estimator.estimate_conversation([QUESTION], "gpt-4o")
    estimator.record_event(BODY, USAGE)
    estimator.record_actual([QUESTION], "gpt-4o", 13)
    values = metrics.snapshot()
    assert sum(v for v in values["tokenctx.estimates"].values() if not isinstance(v, list)) == 2
    assert values["tokenctx.records"] == {("recorded",): 3}


def test_one_metrics_sums_its_estimators_and_forgets_dead_ones() -> None:
    metrics = Metrics()
    one, other = (HybridTokenEstimator(metrics=metrics) for _ in range(2))
    one.record(BODY, USAGE)
    other.record(BODY, USAGE)
    assert metrics.snapshot()["tokenctx.known.prefixes"] == {(): 2}
    del other
    assert metrics.snapshot()["tokenctx.known.prefixes"] == {(): 1}


def test_a_callback_and_a_listener_that_raise_break_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: object) -> None:
        raise ValueError(CANARY)

    metrics = Metrics()
    metrics.listen(fail)
    estimator = HybridTokenEstimator(metrics=metrics, on_accuracy=fail)
    assert estimator.estimate(BODY).tokens == 13
    assert estimator.record(BODY, USAGE)
    assert metrics.snapshot()["tokenctx.failures"] == {("on_accuracy",): 1}
    assert len(caplog.records) == 2
    assert CANARY not in caplog.text


class DownStore:
    is_async = False
    deadline_seconds = 0.05

    def get_many(self, _: object) -> list[Any]:
        raise ConnectionError(CANARY)

    def set_many(self, *_: object) -> None:
        raise ConnectionError(CANARY)


def test_a_store_that_is_down_is_seen_with_the_kind_of_its_failure() -> None:
    estimator = HybridTokenEstimator(metrics=Metrics(), secret=bytes(16), shared=DownStore())
    assert estimator.shared_state() == {"reads": (0.0, ""), "writes": (0.0, "")}
    assert scraped(estimator)["tokenctx_store_up", ("reads",)] == 1
    answered = [QUESTION, {"role": "assistant", "content": "Dust."}, QUESTION]
    for number in range(9):
        estimator.estimate([{"role": "user", "content": str(number)}, *answered], model="gpt-4o")
    seconds, why = estimator.shared_state()["reads"]
    assert seconds > 0
    assert why == "ConnectionError"
    found = scraped(estimator)
    assert found["tokenctx_store_up", ("reads",)] == 0
    assert found["tokenctx_store_stopped_seconds", ("reads", "ConnectionError")] > 0


def test_an_estimator_without_metrics_says_how_to_get_them() -> None:
    with pytest.raises(ValueError, match="metrics=Metrics"):
        prometheus(HybridTokenEstimator())
    with pytest.raises(TypeError, match="metrics=Metrics"):
        HybridTokenEstimator(metrics=Metrics)  # type: ignore[arg-type]
