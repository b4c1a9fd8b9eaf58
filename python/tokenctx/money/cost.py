"""The cost of a call: what is billed by kind, times prices by kind, in whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenctx._results.cost import AT, KINDS, UNITS, Cost
from tokenctx._results.result import maker
from tokenctx.money.rates import NO_RATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenctx.money.rates import Rates
    from tokenctx.usage.normal import Usage

HOUR_SECONDS: Final = 3600
STALE_DAYS: Final = 90
"""Prices that are older may have changed more than once."""
_STANDS_IN: Final = frozenset(
    AT[kind]
    for kind in ("cache_write_12h", "input_audio", "output_audio", "output_image", "output_video")
)
"""Kinds that cost more than what stands in where they have no price of their own: that is named."""
_INPUT, _READ, _WRITE, _WRITE_1H = (
    AT[kind] for kind in ("input", "cache_read", "cache_write", "cache_write_1h")
)
_WRITE_12H, _REASONING = AT["cache_write_12h"], AT["output_reasoning"]
_OUTPUT, _SEARCH, _REQUEST = AT["output"], AT["web_search"], AT["request"]
_make_cost: Final = maker(Cost)
Totals = tuple[int | None, int | None, int | None, int | None]
"""The total, its bounds, and what the table says beside what was told."""


class Priced(NamedTuple):
    """Prices that were found, and what of."""

    rates: Rates
    model: str
    provider: str
    source: str
    date: str
    is_doubtful: bool
    has_hours: bool
    is_stale: bool


_UNKNOWN: Final = Priced(
    NO_RATES, "", "", "billed", "", is_doubtful=False, has_hours=False, is_stale=False
)
Counts = list[tuple[int, int]]
"""What is billed: places in `KINDS`, and how many."""


def counts_of_usage(usage: Usage, output_tokens: int | None) -> Counts:
    """What a usage bills, each token and use once."""
    uncached = usage.uncached_input_tokens + usage.tool_use_prompt_tokens
    read, write = usage.cache_read_tokens, usage.cache_write_tokens
    output = usage.output_tokens if output_tokens is None else output_tokens
    counts: Counts = []
    of_input = (usage.input_audio_tokens, usage.input_image_tokens, usage.input_video_tokens)
    if any(of_input) or usage.cache_read_audio_tokens or usage.cache_read_image_tokens:
        for kind, tokens, all_cached in (
            ("audio", usage.input_audio_tokens, usage.cache_read_audio_tokens),
            ("image", usage.input_image_tokens, usage.cache_read_image_tokens),
            ("video", usage.input_video_tokens, 0),
        ):
            cached = min(all_cached, read)
            fresh = min(max(tokens - cached, 0), uncached)
            uncached, read = uncached - fresh, read - cached
            counts += [(AT[f"input_{kind}"], fresh)] if fresh else []
            counts += [(AT[f"cache_read_{kind}"], cached)] if cached else []
    if uncached:
        counts.append((_INPUT, uncached))
    if read:
        counts.append((_READ, read))
    if write:
        hour = min(usage.cache_write_1h_tokens, write)
        half_day = min(usage.cache_write_12h_tokens, write - hour)
        lifetimes = ((_WRITE, write - hour - half_day), (_WRITE_1H, hour), (_WRITE_12H, half_day))
        counts += [it for it in lifetimes if it[1]]
    if usage.output_audio_tokens or usage.output_image_tokens or usage.output_video_tokens:
        for kind, tokens in (
            ("output_audio", usage.output_audio_tokens),
            ("output_image", usage.output_image_tokens),
            ("output_video", usage.output_video_tokens),
        ):
            part = min(tokens, output)
            output -= part
            counts += [(AT[kind], part)] if part else []
    if usage.reasoning_tokens and output:
        reasoning = min(usage.reasoning_tokens, output)
        output -= reasoning
        counts.append((_REASONING, reasoning))
    counts.append((_OUTPUT, output))
    if usage.web_search_requests:
        counts.append((_SEARCH, usage.web_search_requests))
    return counts


def counts_of_estimate(estimate: Any, output: int | None) -> tuple[Counts, Counts, Counts]:
    """What an estimate expects to be billed, the least of it and the most.

    The least has no output, nor has the most where nothing limits it.
    """
    cache = estimate.cache
    wanted = [] if output is None else [(_OUTPUT, output)]
    if cache is None:
        return (
            [(_INPUT, estimate.tokens), *wanted],
            [(_INPUT, estimate.low)],
            [(_INPUT, estimate.high), *wanted],
        )
    write = _WRITE_1H if (cache.lifetime_seconds or 0) >= HOUR_SECONDS else _WRITE

    def parted(tokens: int, read: int) -> Counts:
        read = min(read, tokens)
        rest = tokens - read
        uncached = min(rest, cache.uncached_tokens) if cache.write_tokens > 0 else rest
        return [(_INPUT, uncached), (_READ, read), (write, rest - uncached)]

    middle = [
        (_INPUT, cache.uncached_tokens),
        (_READ, cache.read_tokens),
        (write, cache.write_tokens),
    ]
    least, most = parted(estimate.low, cache.high), parted(estimate.high, cache.low)
    return middle + wanted, least, most + wanted


def cost_of_usage(
    usage: Usage,
    priced: Priced,
    output_tokens: int | None,
    passes: Sequence[tuple[str, Cost | None]],
) -> Cost:
    """The cost of a call that was billed, with what stands beside the answer."""
    size = usage.input_tokens + usage.tool_use_prompt_tokens
    parts, unpriced, total = _parts(counts_of_usage(usage, output_tokens), size, priced.rates)
    unpriced += usage.unread
    beside: int | None = 0
    for kind, cost in passes:
        amount = None if cost is None else cost.total_units()
        if amount is None or cost is None or cost.unpriced:
            unpriced += (kind,)
        beside = None if beside is None or amount is None else beside + amount
    if passes:
        total = None if total is None or beside is None else total + beside
    totals: Totals = (total, total, None if unpriced else total, None)
    if usage.reported_cost is not None:
        totals = _told(usage, total)
    return _make_cost(parts, totals, beside, priced, size, unpriced)  # type: ignore[no-any-return]


def cost_of_estimate(estimate: Any, priced: Priced, output: int | None) -> Cost:
    """The cost of a call before it is made."""
    rates, size = priced.rates, estimate.tokens
    middle, least, most = counts_of_estimate(estimate, output)
    parts, unpriced, total = _parts(middle, size, rates)
    if "web_search" in estimate.price_words:  # how often, nobody knows
        parts[_SEARCH] = None
        unpriced += (KINDS[_SEARCH],)
    low = _parts(least, estimate.low, rates)[2]
    high = None
    if output is None:
        total = None
    elif unpriced in ((), (KINDS[_SEARCH],)):
        high = _parts(most, estimate.high, rates)[2]
    return _make_cost(parts, (total, low, high, None), 0, priced, size, unpriced)  # type: ignore[no-any-return]


def billed_cost(usage: Usage, model: str, provider: str) -> Cost:
    """The cost of a call that says what it cost, of a model whose prices are not known."""
    unknown = _UNKNOWN._replace(model=model, provider=provider)
    return _make_cost({}, _told(usage, None), 0, unknown, 0, ())  # type: ignore[no-any-return]


def _told(usage: Usage, of_table: int | None) -> Totals:
    told = int((usage.reported_cost or 0) * UNITS)
    return told, told, told, of_table


def _parts(
    counts: Counts, size: int, rates: Rates
) -> tuple[dict[int, int | None], tuple[str, ...], int | None]:
    """What each kind costs, the names of what has no price of its own, the sum.

    The sum is None if the price of a token is not known; other uses without a price are left out.
    """
    prices, own = rates.bands[rates.band(size)], rates.own
    parts: dict[int, int | None] = {}
    unpriced = rates.unknown
    total: int | None = 0
    for place, count in counts:
        price = prices[place]
        if price is None:
            parts[place] = None if count else 0
            if count:
                unpriced += (KINDS[place],)
                total = total if place >= _SEARCH else None
            continue
        parts[place] = amount = price * count
        if total is not None:
            total += amount
        if place in _STANDS_IN and count and KINDS[place] not in own:
            unpriced += (KINDS[place],)
    if fee := prices[_REQUEST]:
        parts[_REQUEST] = fee
        total = None if total is None else total + fee
    return parts, unpriced, total
