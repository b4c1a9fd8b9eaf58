"""Forecasts of caches and prices scored: recorded conversations, beside what was billed.

Each conversation is replayed by one estimator with `caching`: forecast, then record. A call counts
as continued if it extends a recorded call of the same model, so that something is known of its
cache. Recordings have no times, so the clock stands still: what they tell about lifetimes is
nothing, and a call that found its cache cold counts as a miss of the forecast.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.replay import quantile
from tokenctx._estimate.estimator import HybridTokenEstimator
from tokenctx.money.prices import default_prices

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenctx._cli.evaluation.recordings import Conversation
    from tokenctx._results.estimates import Estimate
    from tokenctx.usage.normal import Usage

NEAR: Final = 0.02
UNDETERMINED: Final = ("server_", "remote_", "unreadable_")


@dataclass(slots=True)
class ForecastFigures:
    """Sums over the calls of one provider.

    Attributes:
        short: Calls of which nothing could be cached; in no other number.
        undetermined: Calls whose requests do not tell what is billed; likewise.
        exact: Calls whose read was told to the token.
        near: Calls whose read was off by 2 % at most.
        covered: Calls whose read was within the bounds.
        cold: Calls that read less than half of an expected read.
        cost_errors: How far the price of the input was off, in percent.
        unsplit_errors: The same, had all of the input been taken for uncached.
        total_covered: Priced calls whose price was within the bounds.
    """

    calls: int = 0
    short: int = 0
    undetermined: int = 0
    exact: int = 0
    near: int = 0
    covered: int = 0
    cold: int = 0
    total_covered: int = 0
    widths: list[float] = field(default_factory=list)
    cost_errors: list[float] = field(default_factory=list)
    unsplit_errors: list[float] = field(default_factory=list)

    def add(self, estimate: Estimate, billed: Usage, provider: str) -> None:
        """One more call; raises ValueError for an estimate without a forecast."""
        cache, read = estimate.cache, billed.cache_read_tokens
        if cache is None:
            raise ValueError("the estimate has no cache; the estimator needs caching=True")
        self.calls += 1
        self.exact += cache.read_tokens == read
        self.near += abs(cache.read_tokens - read) <= NEAR * max(read, cache.read_tokens)
        self.covered += cache.low <= read <= cache.high
        self.cold += cache.label == "expected" and read < cache.read_tokens / 2
        self.widths.append(100 * (cache.high - cache.low) / max(1, estimate.tokens))
        names: dict[str, Any] = {"model": estimate.model, "provider": provider or None}
        prices = default_prices()
        paid = prices.cost(billed, **names, output_tokens=0) if estimate.model else None
        told = prices.cost(estimate, **names, output_tokens=0) if estimate.model else None
        if paid is None or told is None or not paid.input or told.input is None:
            return
        self.cost_errors.append(float(100 * abs(told.input - paid.input) / paid.input))
        self.total_covered += (told.low or 0) <= paid.input <= (told.high or 0)
        rates = prices.find(**names)
        price = None if rates is None else rates.rates.price("input", estimate.tokens)
        if price is not None:
            plain = price * estimate.tokens / 10**6
            self.unsplit_errors.append(float(100 * abs(plain - paid.input) / paid.input))

    def as_json(self) -> dict[str, Any]:
        """The figures as JSON values; null where there is nothing to measure."""

        def spread(errors: list[float]) -> dict[str, float | None]:
            shares = {"median": 0.5, "p90": 0.9, "p99": 0.99}
            return {name: _rounded(quantile(errors, share)) for name, share in shares.items()}

        return {
            "calls": self.calls,
            "too_short": self.short,
            "undetermined": self.undetermined,
            "read_exact": self.exact,
            "read_within_2_percent": self.near,
            "read_within_bounds": self.covered,
            "cold": self.cold,
            "width_percent": _rounded(quantile(self.widths, 0.5)),
            "priced_calls": len(self.cost_errors),
            "input_cost_within_bounds": self.total_covered,
            "input_cost_error_percent": spread(self.cost_errors),
            "unsplit_cost_error_percent": spread(self.unsplit_errors),
        }


def is_undetermined(estimate: Estimate) -> bool:
    """True if the request does not tell what is billed: vendors' own tools, remote files."""
    return any(name.startswith(UNDETERMINED) for name in estimate.assumptions)


def is_too_short(estimate: Estimate) -> bool:
    """True if nothing of a call can be cached, so that a forecast of nothing is no merit."""
    return estimate.cache is not None and estimate.cache.high == 0


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


Forecasts = dict[tuple[str, bool], ForecastFigures]
"""Figures by provider, and whether the calls continue a recorded one."""


def forecasts(conversations: Iterable[Conversation]) -> Forecasts:
    """The figures of all calls with billed input."""
    found: Forecasts = defaultdict(ForecastFigures)
    for conversation in conversations:
        estimator = HybridTokenEstimator(caching=True, clock=lambda: 0.0)
        seen: set[str | None] = set()
        for turn in conversation.turns:
            if turn.billed.input_tokens == 0:
                continue
            names: dict[str, Any] = {"model": turn.model, "dialect": turn.dialect}
            names["provider"] = turn.provider
            if turn.known is not None:
                body, tokens = turn.known
                estimator.record(body, tokens, **names)
            estimate = estimator.estimate(turn.body, **names)
            is_continued = turn.relation == "extends" and turn.model in seen and turn.known is None
            figures = found[conversation.provider, is_continued]
            if is_undetermined(estimate):
                figures.undetermined += 1
            elif is_too_short(estimate) and not turn.billed.cache_read_tokens:
                figures.short += 1
            else:
                figures.add(estimate, turn.billed, turn.provider)
            estimator.record(turn.body, turn.billed, reply=turn.reply, **names)
            seen.add(turn.model)
    return found
