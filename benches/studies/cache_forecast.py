"""Cache forecasts beside what was billed: `python3 dev.py study cache_forecast FILE...`.

Each conversation of a recording is replayed by one estimator with `caching`: forecast, then record.
A call counts as continued if it extends a recorded call of the same model, so that something is
known of its cache. Recordings without times are replayed with a clock that stands still: what they
tell about lifetimes is nothing, and a cold call in them is a miss of the forecast.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenctx import HybridTokenEstimator
from tokenctx._evaluation.recordings import read_recording
from tokenctx._evaluation.replay import quantile

if TYPE_CHECKING:
    from tokenctx import Estimate, Usage

READ, WRITE, UNCACHED = 0.1, 1.25, 1.0
"""Parts of the price of input, of the commonest models: what a wrong split costs."""


@dataclass
class Row:
    """Sums over the calls of one provider."""

    calls: int = 0
    exact: int = 0
    within_2: int = 0
    covered: int = 0
    cost_errors: list[float] = field(default_factory=list)
    plain_errors: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, estimate: Estimate, billed: Usage) -> None:
        """One more call."""
        cache = estimate.cache
        if cache is None:
            raise ValueError("the estimator has no caching")
        read = billed.cache_read_tokens
        self.calls += 1
        self.exact += cache.read_tokens == read
        self.within_2 += abs(cache.read_tokens - read) <= 0.02 * max(read, cache.read_tokens, 1)
        self.covered += cache.low <= read <= cache.high
        self.widths.append(100 * (cache.high - cache.low) / estimate.tokens)
        is_priced = billed.cache_write_tokens > 0 or cache.write_tokens > 0
        write = WRITE if is_priced else UNCACHED
        cost = (
            READ * read
            + write * billed.cache_write_tokens
            + UNCACHED * billed.uncached_input_tokens
        )
        guess = (
            READ * cache.read_tokens + write * cache.write_tokens + UNCACHED * cache.uncached_tokens
        )
        self.cost_errors.append(100 * abs(guess - cost) / cost)
        self.plain_errors.append(100 * abs(estimate.tokens - cost) / cost)


def replayed(path: Path, rows: dict[tuple[str, str], Row]) -> None:
    """Add the calls of a recording."""
    for conversation in read_recording(path).conversations:
        estimator = HybridTokenEstimator(caching=True, clock=lambda: 0.0)
        seen: set[str | None] = set()
        for turn in conversation.turns:
            if turn.billed.input_tokens == 0:
                continue
            names: dict[str, Any] = {
                "model": turn.model,
                "dialect": turn.dialect,
                "provider": turn.provider,
            }
            if turn.known is not None:
                body, tokens = turn.known
                estimator.record(body, tokens, **names)
            estimate = estimator.estimate(turn.body, **names)
            kind = "continued" if turn.relation == "extends" and turn.model in seen else "other"
            rows[conversation.provider, kind].add(estimate, turn.billed)
            estimator.record(turn.body, turn.billed, reply=turn.reply, **names)
            seen.add(turn.model)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--least", type=int, default=1, help="leave out rows of fewer calls")
    options = parser.parse_args()
    rows: dict[tuple[str, str], Row] = defaultdict(Row)
    for path in options.files:
        replayed(path, rows)
    print(
        "| Provider | Calls | read exact | within 2 % | bounds held | width, median "
        "| cost off, p50 / p90 / mean | without the split |"
    )
    print("| --- | --: | --: | --: | --: | --: | --: | --: |")
    for (provider, kind), row in sorted(rows.items()):
        if row.calls < options.least:
            continue
        errors = row.cost_errors
        mean = f"{sum(errors) / len(errors):.1f} %"
        cells = [
            f"{provider} {kind}",
            row.calls,
            *(f"{100 * part / row.calls:.1f} %" for part in (row.exact, row.within_2, row.covered)),
            f"{quantile(row.widths, 0.5):.0f} %",
            " / ".join((_number(quantile(errors, 0.5)), _number(quantile(errors, 0.9)), mean)),
            f"{quantile(row.plain_errors, 0.5):.0f} %",
        ]
        print("|", " | ".join(map(str, cells)), "|")


if __name__ == "__main__":
    main()
