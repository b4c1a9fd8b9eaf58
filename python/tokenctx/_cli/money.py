"""The lines about the price of a call and what of it is cached."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tokenctx._cli.eval_tables import Grid
from tokenctx._cli.evaluation.replay import quantile
from tokenctx._estimate.estimator import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tokenctx._cli.evaluation.forecasts import ForecastFigures, Forecasts
    from tokenctx._cli.evaluation.recordings import Turn
    from tokenctx._results.cost import Cost
    from tokenctx._results.estimates import Estimate
    from tokenctx._results.result import CacheForecast

REASONS = {
    "warm": "by a recorded call",
    "best_effort": "the provider promises nothing",
    "expired": "its lifetime has passed",
    "nothing_known": "no recorded call begins so",
    "no_marks": "the request has no marks",
    "below_minimum": "too short to be cached",
    "beyond_lookback": "too far before the mark",
    "cached_content": "the request names a cache of its own",
    "no_rule": "nothing is known of this provider",
}


def expected(body: object, before: Iterable[Turn], names: dict[str, Any]) -> Estimate:
    """The estimate of a request, behind recorded calls, with its cache."""
    estimator = HybridTokenEstimator(caching=True)
    for turn in before:
        estimator.record(turn.body, turn.billed, reply=turn.reply, **names)
    return estimator.estimate(body, **names)


def cost_lines(cost: Cost | None) -> Iterator[str]:
    """The cost of a call, in a line; a second one near a tier of higher prices."""
    if cost is None:
        yield "unknown: no price is known for this model"
        return
    output = "output unknown" if cost.output is None else f"{_money(cost.output)} output at most"
    stale = ", stale" if cost.is_stale else ""
    host = f"{cost.provider}/" if cost.provider else ""
    about = f"{host}{cost.model}, {cost.source}, {cost.date}{stale}"
    yield f"{_money(cost.input)} {cost.currency} input, {output} ({about})"
    if cost.tokens_to_next_tier is not None and cost.next_tier_factor is not None:
        factor = f"{cost.next_tier_factor:f}".rstrip("0").rstrip(".")
        yield f"{cost.tokens_to_next_tier:,} tokens more, and the price is {factor} times as high"


def lines_cost(costs: Sequence[Cost | None]) -> str:
    """What the input of many calls costs, in a line, with the calls whose price is unknown."""
    known = [it.input for it in costs if it is not None and it.input is not None]
    lacking = len(costs) - len(known)
    if not known:
        return "unknown: no price is known for any of them"
    unknown = f"; no price is known for {lacking:,} of them" if lacking else ""
    return f"{_money(sum(known, Decimal(0)))} USD input, output unknown{unknown}"


def cache_line(cache: CacheForecast | None) -> str:
    """The forecast of the cache, in a line."""
    if cache is None:
        return "unknown"
    parts = f"{cache.read_tokens:,} read, {cache.write_tokens:,} written"
    return f"{parts}, {cache.uncached_tokens:,} uncached ({cache.label}: {REASONS[cache.reason]})"


def _money(amount: Decimal | None) -> str:
    if amount is None:
        return "unknown"
    return f"{amount.quantize(Decimal('0.000001')):f}".rstrip("0").rstrip(".") or "0"


def forecast_grid(found: Forecasts, least: int) -> Grid:
    """Forecasts by provider, for a terminal or a document."""
    titles = (
        *("provider", "calls of", "calls", "read exact", "within 2 %", "bounds hold", "cold"),
        *("width", "cost off, median", "p90", "unsplit, median"),
    )
    rows = [
        _cells(provider, "a continued turn" if is_continued else "a first turn", figures)
        for (provider, is_continued), figures in sorted(found.items())
        if figures.calls >= least
    ]
    return Grid(
        "Reads from the provider's cache and price of the input, in percent", titles, 2, rows
    )


def _cells(provider: str, kind: str, figures: ForecastFigures) -> tuple[str, ...]:
    counts = (figures.exact, figures.near, figures.covered, figures.cold)
    shares = (f"{100 * count / figures.calls:.1f}" for count in counts)
    errors = figures.cost_errors, figures.unsplit_errors
    numbers = (
        quantile(figures.widths, 0.5),
        quantile(errors[0], 0.5),
        quantile(errors[0], 0.9),
        quantile(errors[1], 0.5),
    )
    texts = ("-" if number is None else f"{number:.2f}" for number in numbers)
    return (provider, kind, f"{figures.calls:,}", *shares, *texts)
