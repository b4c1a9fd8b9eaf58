"""What the price of a call takes beside `calc_price` of genai-prices, which has the same prices.

The peer gets tokens by kind, a model and who made it; its answer is the total and two parts. For a
column of costs it is called once for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator, batch, normalize_usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

MODEL = "claude-sonnet-4-5"
TOLD = {
    "input_tokens": 100,
    "cache_read_input_tokens": 90_000,
    "cache_creation_input_tokens": 3_000,
    "output_tokens": 500,
    "service_tier": "standard",
}
ROWS = 2_000


def peer() -> Callable[[], Any]:
    prices = pytest.importorskip("genai_prices", reason="genai-prices is missing")
    usage = prices.Usage(
        input_tokens=93_100, cache_read_tokens=90_000, cache_write_tokens=3_000, output_tokens=500
    )
    return lambda: prices.calc_price(usage, MODEL, provider_id="anthropic").total_price


def usage_cost() -> Callable[[], Any]:
    usage = normalize_usage(TOLD)
    assert usage is not None
    return lambda: usage.cost(MODEL)


def estimate_cost() -> Callable[[], Any]:
    messages = [{"role": "user", "content": "How long is a day?"}]
    body = {"model": MODEL, "max_tokens": 100, "messages": messages}
    estimate = HybridTokenEstimator(caching=True).estimate(body)
    assert estimate.cache is not None
    return lambda: estimate.cost


def batch_cost() -> Callable[[], Any]:
    usages = batch.usage([{**TOLD, "output_tokens": row} for row in range(ROWS)])
    return lambda: batch.cost(usages, MODEL)


def rows_of_peer() -> Callable[[], Any]:
    price = peer()
    return lambda: [price() for _ in range(ROWS)]


@pytest.mark.benchmark(group="cost-usage")
@pytest.mark.parametrize("implementation", ["tokenctx", "genai-prices"])
def test_usage(benchmark: BenchmarkFixture, implementation: str) -> None:
    total = normalize_usage(TOLD).cost(MODEL).total  # type: ignore[union-attr]
    assert peer()() == total
    benchmark(usage_cost() if implementation == "tokenctx" else peer())


@pytest.mark.benchmark(group="cost-estimate")
@pytest.mark.parametrize("implementation", ["tokenctx", "genai-prices"])
def test_estimate(benchmark: BenchmarkFixture, implementation: str) -> None:
    benchmark(estimate_cost() if implementation == "tokenctx" else peer())


@pytest.mark.benchmark(group="cost-batch")
@pytest.mark.parametrize("implementation", ["tokenctx", "genai-prices"])
def test_batch(benchmark: BenchmarkFixture, implementation: str) -> None:
    work = batch_cost() if implementation == "tokenctx" else rows_of_peer()
    benchmark.pedantic(work, rounds=7, warmup_rounds=1)  # type: ignore[no-untyped-call]
